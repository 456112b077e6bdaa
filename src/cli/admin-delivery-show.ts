import {
  type AttemptReport,
  type DeliveryReport,
  reportDelivery,
  reportDocument,
} from "../admin/delivery-report.ts";
import { systemClock } from "../domain/clock/clock.ts";
import { durationText, timeOrNull, timeText } from "../domain/clock/time.ts";
import { COMMAND_LINE_READER, explainNoDelivery } from "../domain/webhook/delivery-explanation.ts";
import { messageHash } from "../domain/webhook/signature.ts";
import { signedMessage } from "../domain/webhook/webhook-request.ts";
import type { Attempt, Delivery, DeliveryPause, TaskDeliveries } from "../store/store.ts";
import { defineAdminCommand } from "./admin-command.ts";
import { TEXT, toggle, word } from "./arguments.ts";
import { KIND_ARG, taskNamed } from "./delivery-filter.ts";
import { CommandFailure, UsageError } from "./failure.ts";
import { cellText, printable, quotedText, type Answer } from "./print.ts";

const NAME = "postbackd admin delivery show";

const reader = COMMAND_LINE_READER;

/** A message is cut after so many characters; `--message` and `--json` show all of it. */
const MESSAGE_LENGTH_MAX = 16_384;

export const showCommand = defineAdminCommand({
  description: "Tell why a task's callback did not arrive, and what was sent and signed",
  example: `${NAME} 01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6`,
  notes:
    "Signatures are computed with the account's present secrets: attempts from before 'secret rotate' or\n" +
    `'secret finish' were signed with earlier ones. With the secret in $SECRET, '${NAME} ID\n` +
    '--kind postback --message | openssl dgst -sha256 -hmac "$SECRET"\' gives X-Signature.',
  args: {
    task_id: word(TEXT, "Id of the task"),
    ...KIND_ARG,
    message: toggle("Print the signed bytes and nothing else, without a line end"),
  },
  plan({ task_id: id, kind, message }, { json }) {
    if (message && json) throw new UsageError("--message and --json exclude each other");
    return async ({ store }) => {
      const found = await taskNamed(id, store);
      const pauses = await store.listDeliveryPauses();
      const wanted = found.deliveries.filter((each) => kind === null || each.kind === kind);
      const none = wanted.length === 0 ? explainNoDelivery(found.task, { kind, reader }) : null;
      return message
        ? messageAnswer(found, { wanted, none })
        : deliveriesAnswer(found, { wanted, none, pauses });
    };
  },
});

interface Wanted {
  readonly wanted: readonly Delivery[];
  /** The reason why there is none; null where there is one. */
  readonly none: string | null;
}

function deliveriesAnswer(
  found: TaskDeliveries,
  { wanted, none, pauses }: Wanted & { readonly pauses: readonly DeliveryPause[] },
): Answer {
  const now = systemClock.now();
  const shown = wanted.map((delivery) => reportDelivery(delivery, found, { now, pauses }));
  const { task, login } = found;
  return {
    document: {
      task_id: task.id,
      login,
      task_state: task.state,
      explanation: none,
      deliveries: shown.map((each) => reportDocument(each, task.id)),
    },
    lines:
      none === null
        ? shown.flatMap((each, i) => shownLines(each, found, i))
        : [printable(`${none}.`)],
  };
}

function messageAnswer({ task }: TaskDeliveries, { wanted, none }: Wanted): Answer {
  const [delivery, other] = wanted;
  if (delivery === undefined) throw new CommandFailure(printable(`no message: ${none}`));
  if (other !== undefined) {
    throw new CommandFailure(
      "the task has two webhooks; say which with --kind postback or --kind pingback",
    );
  }
  const { url, kind } = delivery;
  return { document: {}, lines: [], exact: signedMessage({ kind, url, task }) };
}

function shownLines(
  shown: DeliveryReport,
  { task, login }: TaskDeliveries,
  index: number,
): string[] {
  const { delivery, explanation, attempts, steps } = shown;
  const gap = index === 0 ? [] : [""];
  const title = `${delivery.kind} of task ${task.id}, account ${login}`;
  return [
    ...gap,
    `${explanation}.`,
    ...resendLines(delivery, task.id),
    "",
    title,
    ...steps.flatMap(({ step, url }) => [`url          ${step}`, `             ${url}`]),
    ...attempts.flatMap(({ attempt }) => ["", ...attemptLines(attempt)]),
    "",
    ...messageLines(shown),
    ...attempts.flatMap(headerLines),
  ].map(printable);
}

function resendLines({ kind, state }: Delivery, taskId: string): readonly string[] {
  if (state !== "given_up" && state !== "refused") return [];
  return [`Once that is mended: postbackd admin delivery redeliver ${taskId} --kind ${kind}`];
}

function attemptLines(attempt: Attempt): readonly string[] {
  const { startedAt, refusal, responseExcerpt: excerpt, retryAfter } = attempt;
  const late = startedAt === null ? 0 : startedAt - attempt.dueAt;
  const rows: readonly (readonly [name: string, value: string | null])[] = [
    ["due", timeText(attempt.dueAt)],
    ["started", startedAt === null ? null : `${timeText(startedAt)}, ${durationText(late)} late`],
    ["ended", timeOrNull(attempt.endedAt)],
    ["outcome", attempt.outcome],
    ["status", attempt.httpStatus === null ? null : String(attempt.httpStatus)],
    ["error", attempt.error],
    ["address", attempt.address],
    ["phases", phasesText(attempt)],
    ["retry-after", retryAfter === null ? null : quotedText(retryAfter)],
    ["refused", refusal === null ? null : `${refusal.host} by ${refusal.rule}`],
    ["resolved to", refusal === null ? null : cellText(refusal.addresses.join(", "))],
    ["response", excerpt === null ? null : quotedText(excerpt)],
  ];
  const told = rows.flatMap(([name, value]) =>
    value === null ? [] : [`  ${name.padEnd(12)}${value}`],
  );
  return [`attempt ${attempt.number}`, ...told];
}

function phasesText({ phases }: Attempt): string | null {
  const { dnsMs, connectMs, tlsMs, firstByteMs } = phases;
  const rows = Object.entries({
    dns: dnsMs,
    connect: connectMs,
    tls: tlsMs,
    "first byte": firstByteMs,
  });
  const spent = rows.flatMap(([name, ms]) => (ms === null ? [] : [`${name} ${ms} ms`]));
  return spent.length === 0 ? null : spent.join(", ");
}

function messageLines({ message, delivery }: DeliveryReport): readonly string[] {
  const what = delivery.kind === "postback" ? "the body" : "the URL";
  const bytes = Buffer.byteLength(message);
  const isCut = message.length > MESSAGE_LENGTH_MAX;
  const head = isCut ? `${message.slice(0, MESSAGE_LENGTH_MAX)}…` : message;
  const isAltered = isCut || printable(head) !== head;
  return [
    `signed: ${what}, ${bytes} bytes, SHA-256 ${messageHash(message)}`,
    head,
    ...(isAltered ? ["(cut, or not all visible: --message prints the exact bytes)"] : []),
  ];
}

function headerLines({ attempt, request }: AttemptReport): readonly string[] {
  if (request === null) return [];
  return [
    "",
    `${request.method} of attempt ${attempt.number}, signed with the account's secrets of now`,
    ...Object.entries(request.headers).map(([name, value]) => `  ${name}: ${value}`),
  ];
}
