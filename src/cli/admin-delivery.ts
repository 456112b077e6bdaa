import {
  type AttemptReport,
  type DeliveryReport,
  deliveryRecord,
  lateMs,
  listPauses,
  pauseDeliveries,
  reportDelivery,
  reportDocument,
  resumeDeliveries,
} from "../admin/delivery.ts";
import type { DeliveryPause as PauseShown } from "../api/delivery.ts";
import { LOGIN } from "../domain/account/account.ts";
import { HOST } from "../domain/address/host-name.ts";
import { systemClock } from "../domain/clock/clock.ts";
import { TASK_ID } from "../domain/task/task.ts";
import { printable, quotedText } from "../domain/text.ts";
import { COMMAND_LINE_READER, explainNoDelivery } from "../domain/webhook/delivery-explanation.ts";
import { PAUSES_MAX, PAUSE_REASON, scopeText } from "../domain/webhook/delivery-pause.ts";
import { attemptDocument } from "../domain/webhook/delivery.ts";
import { messageHash } from "../domain/webhook/signature.ts";
import { signedMessage } from "../domain/webhook/webhook-request.ts";
import type {
  Attempt,
  Delivery,
  DeliveryPause,
  PauseScope,
  Store,
  TaskDeliveries,
} from "../store/store.ts";
import {
  FILTER_ARGS,
  KIND_ARG,
  LISTED,
  PAGE_ARGS,
  accountNamed,
  checkAccount,
  defineAdminCommand,
  filterOf,
  pageEnd,
  taskNamed,
} from "./admin-command.ts";
import { TEXT, flag, toggle, word } from "./arguments.ts";
import { defineCommand } from "./command.ts";
import { UsageError, fail } from "./failure.ts";
import {
  type Answer,
  type Columns,
  answer,
  cellText,
  factLines,
  listAnswer,
  waitingText,
} from "./print.ts";
import { commandUser } from "./user.ts";

const NAME = "postbackd admin delivery";

const list = defineAdminCommand({
  description: "List the webhooks of finished tasks, last attempt first",
  example: `${NAME} list --host hooks.example.com --state given_up --since 1d`,
  notes:
    "It omits paths and queries of URLs; 'delivery show TASK_ID' shows them and every attempt. A task that task_post\n" +
    "refused, such as for its webhook URL, has no delivery: 'task list --state failed' lists it.",
  args: { ...FILTER_ARGS, task: flag(TASK_ID, "Task of the webhook"), ...PAGE_ARGS },
  plan({ task: taskId, limit, before, ...filter }) {
    const query = { filter: { ...filterOf(filter), taskId }, limit: limit ?? LISTED, before };
    return async ({ store }) => {
      await checkAccount(store, query.filter);
      const found = await store.listAllDeliveries({ ...query, limit: query.limit + 1 });
      const deliveries = found.slice(0, query.limit);
      const records = deliveries.map(deliveryRecord);
      const rows = records.map(({ last_attempt: last, ...each }) => ({
        ...each,
        ...last,
        attempt: last?.number ?? null,
      }));
      const next = found.length > query.limit ? (deliveries.at(-1)?.seq ?? null) : null;
      const { more: end, nextCursor } = pageEnd(next);
      const texts = { none: NO_DELIVERY, columns: COLUMNS, end };
      return listAnswer({ deliveries: records, ...nextCursor }, rows, texts);
    };
  },
});

const COLUMNS = [
  ...(["ended_at", "task_id", "login", "kind", "host", "state"] as const),
  ...(["attempt", "outcome", "http_status", "error", "next_attempt_at"] as const),
];
const NO_DELIVERY =
  "No delivery matches the filter. A task has deliveries once it has finished. A task that task_post refused has none: " +
  "'postbackd admin task list --state failed' lists it.";

const reader = COMMAND_LINE_READER;

/** A message is cut after so many characters; `--message` and `--json` show all of it. */
const MESSAGE_LENGTH_MAX = 16_384;

const show = defineAdminCommand({
  description: "Show why a task's webhook did not arrive, and what was sent and signed",
  example: `${NAME} show 01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6`,
  notes:
    "Signatures are computed with the account's present secrets: attempts from before 'secret rotate' or\n" +
    `'secret finish' were signed with earlier ones. With the secret in $SECRET, '${NAME} show ID\n` +
    '--kind postback --message | openssl dgst -sha256 -hmac "$SECRET"\' gives X-Signature.',
  args: {
    task_id: word(TEXT, "Id of the task"),
    ...KIND_ARG,
    message: toggle("Print only the signed bytes, without a line break"),
  },
  plan({ task_id: id, kind, message }, { json }) {
    if (message && json) throw new UsageError("--message and --json cannot be combined");
    return async ({ store }) => {
      const found = await taskNamed(id, store);
      const pauses = await store.listDeliveryPauses();
      const wanted = found.deliveries.filter((each) => kind === null || each.kind === kind);
      const none =
        wanted.length === 0
          ? explainNoDelivery(found.task, { kind, reader, account: found })
          : null;
      return message
        ? messageAnswer(found, { wanted, none })
        : deliveriesAnswer(found, { wanted, none, pauses });
    };
  },
});

interface Wanted {
  readonly wanted: readonly Delivery[];
  /** The reason why the task has no such delivery; null if it has one. */
  readonly none: string | null;
}

function deliveriesAnswer(
  found: TaskDeliveries,
  { wanted, none, pauses }: Wanted & { readonly pauses: readonly DeliveryPause[] },
): Answer {
  const now = systemClock.now();
  const shown = wanted.map((delivery) => reportDelivery(delivery, found, { now, pauses }));
  const { task, login } = found;
  const deliveries = shown.map((each) => reportDocument(each, task.id));
  const facts = { task_id: task.id, login, task_state: task.state, explanation: none };
  const lines = shown.flatMap((each, i) => shownLines(each, found, i));
  return answer({ ...facts, deliveries }, ...(none === null ? lines : [printable(`${none}.`)]));
}

function messageAnswer({ task }: TaskDeliveries, { wanted, none }: Wanted): Answer {
  const [delivery, other] = wanted;
  if (delivery === undefined) return fail(printable(`no message: ${none}`));
  if (other !== undefined) {
    fail("the task has two webhooks; choose one with --kind postback or --kind pingback");
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
  const { kind, state } = delivery;
  const mayResend = state === "given_up" || state === "refused";
  const resend = `After the fix, send it again: postbackd admin delivery redeliver ${task.id} --kind ${kind}`;
  return [
    ...(index === 0 ? [] : [""]),
    `${explanation}.`,
    ...(mayResend ? [resend] : []),
    "",
    `${kind} of task ${task.id}, account ${login}`,
    ...steps.flatMap(({ step, url }) => [`url          ${step}`, `             ${url}`]),
    ...attempts.flatMap(({ attempt }) => ["", ...attemptLines(attempt)]),
    "",
    ...messageLines(shown),
    ...attempts.flatMap(headerLines),
  ].map(printable);
}

function attemptLines(attempt: Attempt): readonly string[] {
  const { number, phases, refusal, response_excerpt: excerpt, ...facts } = attemptDocument(attempt);
  const rows = {
    ...facts,
    late_ms: lateMs(attempt),
    ...phases,
    retry_after: attempt.retryAfter === null ? null : quotedText(attempt.retryAfter),
    refused: refusal === null ? null : `${refusal.host} by ${refusal.rule}`,
    resolved_to: refusal === null ? null : cellText(refusal.addresses),
    response: excerpt === null ? null : quotedText(excerpt),
  };
  const known = Object.entries(rows).filter(([, value]) => value !== null);
  return [`attempt ${number}`, ...factLines(Object.fromEntries(known)).map((line) => `  ${line}`)];
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
    `${request.method} of attempt ${attempt.number}, signed with the current secrets`,
    ...Object.entries(request.headers).map(([name, value]) => `  ${name}: ${value}`),
  ];
}

const SCOPE_ARGS = {
  host: flag(HOST, "Only webhooks to this host"),
  account: flag(LOGIN, "Only webhooks of this account"),
};

const pause = defineAdminCommand({
  description: "Pause webhooks: nothing is sent until they are resumed, and nothing is lost",
  example: `${NAME} pause --host hooks.example.com --reason maintenance`,
  notes:
    "Without --host and --account all webhooks are paused. A running daemon starts no attempt after two\n" +
    "seconds; attempts in flight end. A pause lasts through restarts and uses up no retries: due retries run after\n" +
    "'resume'.",
  args: { ...SCOPE_ARGS, reason: flag(PAUSE_REASON, "Reason, for other operators") },
  async run({ host, account: login, reason }, parts) {
    const covered = { login, scope: await scopeOf({ host, login }, parts.store) };
    const by = { reason, pausedBy: commandUser() };
    const { outcome, waiting } = await pauseDeliveries(covered, by, parts);
    const what = scopeText({ login, host });
    if (outcome === "too many") {
      fail(`${PAUSES_MAX} pauses exist: resume some first, or pause a wider scope`);
    }
    const isNew = outcome === "paused";
    return answer(
      { login, host, paused: isNew, waiting },
      isNew ? `Paused: ${what}.` : `Paused already: ${what}.`,
      `${waitingText(waiting)} now.`,
      `'${NAME} resume${flagsOf({ login, host })}' sends them.`,
    );
  },
});

const resume = defineAdminCommand({
  description: "End a pause, and send the webhooks that wait",
  example: `${NAME} resume --host hooks.example.com`,
  notes: "It ends the pause with exactly this --host and --account. Other pauses stay.",
  args: SCOPE_ARGS,
  async run({ host, account: login }, parts) {
    const what = scopeText({ login, host });
    const scope = await scopeOf({ host, login }, parts.store);
    const { left, waiting } =
      (await resumeDeliveries({ login, scope }, parts)) ??
      fail(`no pause matches ${what} exactly; '${NAME} paused' lists all`);
    return answer(
      { login, host, resumed: true, waiting, pauses_left: left.length },
      `Resumed: ${what}. ${waitingText(waiting)} to be sent.`,
      ...(left.length === 0 ? [] : [`Still paused: ${left.map(scopeText).join(", ")}.`]),
    );
  },
});

const paused = defineAdminCommand({
  description: "List the pauses with their reasons and the number of waiting webhooks",
  example: `${NAME} paused --json`,
  args: {},
  async run(_given, parts) {
    const pauses = await listPauses(parts, Infinity);
    return listAnswer({ pauses }, pauses, { none: "Nothing is paused.", columns: PAUSE_COLUMNS });
  },
});

interface NamedScope {
  readonly login: string | null;
  readonly host: string | null;
}

async function scopeOf({ login, host }: NamedScope, store: Store): Promise<PauseScope> {
  const accountId = login === null ? null : (await accountNamed(login, store)).accountId;
  return { accountId, host };
}

function flagsOf({ login, host }: NamedScope): string {
  return `${host === null ? "" : ` --host ${host}`}${login === null ? "" : ` --account ${login}`}`;
}

const PAUSE_COLUMNS: Columns<PauseShown> = {
  SINCE: ({ since }) => since,
  HOST: ({ host }) => host ?? "all",
  ACCOUNT: ({ login }) => login ?? "all",
  WAITING: ({ waiting }) => waiting,
  BY: ({ paused_by: by }) => by,
  REASON: ({ reason }) => reason,
};

export const deliveryCommand = defineCommand({
  description: "Show, resend and pause webhooks",
  example: `${NAME} show 01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6`,
  subCommands: {
    list,
    show,
    redeliver: async () => (await import("./admin-redelivery.ts")).redeliverCommand,
    orders: async () => (await import("./admin-redelivery.ts")).ordersCommand,
    cancel: async () => (await import("./admin-redelivery.ts")).cancelCommand,
    pause,
    resume,
    paused,
  },
});
