import { classifyAddress } from "../address/address.ts";
import { parseAllowList } from "../address/allow-list.ts";
import { durationText } from "../clock/duration.ts";
import { momentText } from "../clock/time.ts";
import { isFinished, type Task } from "../task/task.ts";
import {
  type Advice,
  type ErrorExplanation,
  type Peer,
  type ReaderRole,
  adviceText,
  explainError,
} from "./attempt-error.ts";
import { scopeText, type DeliveryPause } from "./delivery-pause.ts";
import type { Attempt, AttemptPhases, Delivery, DeliveryKind, Refusal } from "./delivery.ts";
import { parseUrlForm } from "./url-form.ts";
import { allowEntry, judgeWebhookUrl, postedUrls } from "./webhook-url.ts";

export interface ExplanationReader {
  readonly role: ReaderRole;
  /** Writes a time, in milliseconds since the epoch, with the time zone that it is in. */
  readonly writeTime: (timeMs: number) => string;
}

/** The operator at a command line: times are in UTC, as in logs. */
export const COMMAND_LINE_READER: ExplanationReader = { role: "operator", writeTime: momentText };

export interface ExplanationCircumstances {
  readonly now: number;
  readonly reader: ExplanationReader;
}

export interface TaskAccount {
  readonly login: string;
  /** Null if the account is enabled. */
  readonly disabledAt: number | null;
}

export interface DeliveryCircumstances extends ExplanationCircumstances {
  readonly account: TaskAccount;
  /** The operator's pause that covers the delivery; null without a pause. */
  readonly pause: DeliveryPause | null;
}

export interface Circumstances extends DeliveryCircumstances {
  readonly url: string;
}

/** Why did my callback not arrive? One sentence without its full stop, and without the URL's path and query. */
export function explainDelivery(delivery: Delivery, of: DeliveryCircumstances): string {
  const circumstances = { ...of, url: delivery.url };
  const last = delivery.attempts.at(-1);
  if (last === undefined) return "no attempt is recorded yet";
  const lastExplanation = explainAttempt(last, circumstances);
  switch (delivery.state) {
    case "delivered":
      return lastExplanation;
    case "refused":
      return `${lastExplanation}; a refused webhook is not retried`;
    case "given_up":
      return `given up after ${attemptsText(last.number)}, with no retry left; the last one ${lastExplanation}`;
    case "scheduled":
    case "in_flight": {
      const before = delivery.attempts.at(-2);
      // A number that starts again belongs to a requested redelivery.
      if (before === undefined || last.number <= before.number) return lastExplanation;
      return `${lastExplanation}; attempt ${before.number} ${explainAttempt(before, circumstances)}`;
    }
  }
}

/** The same about one attempt. Begins with its outcome. */
export function explainAttempt(attempt: Attempt, circumstances: Circumstances): string {
  const { outcome, startedAt } = attempt;
  if (startedAt === null) return explainScheduled(attempt, circumstances);
  if (outcome === null) return explainInFlight(startedAt, circumstances);
  const ended: EndedAttempt = { ...attempt, startedAt, endedAt: attempt.endedAt ?? startedAt };
  switch (outcome) {
    case "delivered":
      return explainDelivered(ended, circumstances);
    case "refused":
      return explainRefused(ended, circumstances);
    case "failed":
    case "timed_out":
    case "interrupted":
      return `${outcome.replace("_", " ")}: ${explainBroken(ended, circumstances)}`;
  }
}

export interface NoDeliveryCircumstances {
  /** Null means both kinds. */
  readonly kind: DeliveryKind | null;
  readonly reader: ExplanationReader;
  readonly account: TaskAccount;
}

/** Explains why nothing was sent, for a task without deliveries, or without deliveries of one kind. */
export function explainNoDelivery(
  task: Task,
  { kind, reader, account }: NoDeliveryCircumstances,
): string {
  const { state, completedAt } = task;
  const at = completedAt === null ? "" : ` at ${reader.writeTime(completedAt)}`;
  if (state === "cancelled") return `nothing is sent: the task was cancelled${at}`;
  if (task.statusCode === 40501 || task.statusCode === 40506) {
    const reason = task.statusMessage === null ? "" : `: ${task.statusMessage.replace(/\.$/, "")}`;
    return `nothing is sent: task_post refused the task, so it never ran${reason}`;
  }
  const { postback, pingback } = postedUrls(task);
  const held =
    account.disabledAt === null ? "" : `; ${disabledText(account, account.disabledAt, reader)}`;
  const fields = [
    ...(kind === "pingback" ? [] : [{ name: "postback_url", url: postback }]),
    ...(kind === "postback" ? [] : [{ name: "pingback_url", url: pingback }]),
  ];
  if (fields.every(({ url }) => url === null)) {
    const names = fields.map(({ name }) => name).join(" and ");
    return `nothing is sent: the task was posted without ${names}${isFinished(state) ? "" : held}`;
  }
  if (isFinished(state)) return "no webhook of the task is recorded";
  const created = reader.writeTime(task.createdAt);
  return `not sent yet: the task, posted at ${created}, is ${state}, and webhooks go out once it has finished${held}`;
}

interface EndedAttempt extends Attempt {
  readonly startedAt: number;
  readonly endedAt: number;
}

function explainScheduled(attempt: Attempt, circumstances: Circumstances): string {
  const { number, dueAt } = attempt;
  const { now, reader, account, pause } = circumstances;
  if (account.disabledAt !== null) {
    const cause = disabledText(account, account.disabledAt, reader);
    return `suspended: attempt ${number}, due at ${reader.writeTime(dueAt)}, waits: ${cause}`;
  }
  if (pause !== null) return explainPaused(attempt, pause, circumstances);
  const due = `scheduled: attempt ${number} is due`;
  if (dueAt > now) return `${due} at ${reader.writeTime(dueAt)}, in ${durationText(dueAt - now)}`;
  return (
    `${due} since ${reader.writeTime(dueAt)}, and starts when the daemon runs and ` +
    "a slot is free"
  );
}

function disabledText(
  { login }: TaskAccount,
  since: number,
  { role, writeTime }: ExplanationReader,
): string {
  const enable = `enable it with 'postbackd admin account enable ${login}'`;
  const remedy = adviceText({ operator: enable }, role);
  return `the account ${login} is disabled since ${writeTime(since)}; ${remedy}`;
}

function explainPaused(
  { number, dueAt }: Attempt,
  pause: DeliveryPause,
  { reader: { role, writeTime } }: Circumstances,
): string {
  // The operator's words are for operators.
  const reason = role === "operator" && pause.reason !== null ? ` (${pause.reason})` : "";
  const since = `the operator has paused ${scopeText(pause)} since ${writeTime(pause.since)}${reason}`;
  const remedy = adviceText({ operator: "resume them" }, role);
  return `paused: attempt ${number}, due at ${writeTime(dueAt)}, waits because ${since}; ${remedy}`;
}

function explainInFlight(startedAt: number, { url, now, reader }: Circumstances): string {
  const since = `in flight to ${hostOf(url)} since ${reader.writeTime(startedAt)}`;
  const told = `${since}, for ${durationText(now - startedAt)}`;
  if (now - startedAt < LONG_FLIGHT_MS) return told;
  return `${told}; if the daemon has ended, it sends the webhook again at its next start`;
}

// Longer than attempts take with the present timeout, unless given.
const LONG_FLIGHT_MS = 15_000;

function explainDelivered(attempt: EndedAttempt, circumstances: Circumstances): string {
  const { httpStatus, endedAt } = attempt;
  const { dialled } = peerOf(attempt, circumstances);
  const at = `at ${circumstances.reader.writeTime(endedAt)}`;
  const answered = `delivered: ${dialled} responded with ${httpStatus ?? "2xx"} ${at}`;
  return `${answered}${spentText(attempt)}`;
}

function explainBroken(attempt: EndedAttempt, circumstances: Circumstances): string {
  const { clause, hint } = explained(attempt, circumstances);
  const at = `at ${circumstances.reader.writeTime(attempt.endedAt)}`;
  // It is unknown how long an attempt continued after the daemon had ended.
  const spent = attempt.outcome === "interrupted" ? "" : spentText(attempt);
  return `${clause}, ${at}${spent}${hint === null ? "" : `; ${hint}`}`;
}

function explained(attempt: EndedAttempt, circumstances: Circumstances): ErrorExplanation {
  const asked = { peer: peerOf(attempt, circumstances), role: circumstances.reader.role };
  const error = attempt.error ?? "no reason is recorded";
  const status = attempt.outcome === "failed" ? explainStatus(attempt, asked) : null;
  const known = status ?? explainError(error, asked);
  return known ?? { clause: `${asked.peer.dialled}: ${error}`, hint: null };
}

function explainStatus(
  attempt: EndedAttempt,
  { peer: { dialled }, role }: { readonly peer: Peer; readonly role: ReaderRole },
): ErrorExplanation | null {
  const { httpStatus: status, retryAfter } = attempt;
  // A switch of protocols is an error in itself.
  if (status === null || status < 200) return null;
  const wait = retryAfter === null ? "" : ` with Retry-After ${retryAfter} (ignored)`;
  const answered = `${dialled} responded with ${status}${wait}`;
  if (status < 400) {
    const hint = "post the URL that it leads to";
    return { clause: `${answered}, and redirects are not followed`, hint };
  }
  return {
    clause: `${answered}, and only 2xx counts as delivered`,
    hint: adviceText(STATUS_ADVICE[status] ?? RECEIVER_LOG, role),
  };
}

const REFUSED_BY_RECEIVER =
  "either the receiver has another secret, or checks other bytes or another URL ('postbackd verify' finds out which); " +
  "or a proxy in front of it requires a login, which postbackd does not have";

const RECEIVER_LOG: Advice = { anybody: "the receiver's log has the reason" };

const STATUS_ADVICE: Readonly<Record<number, Advice>> = {
  401: { anybody: REFUSED_BY_RECEIVER },
  403: { anybody: REFUSED_BY_RECEIVER },
  404: { anybody: "the receiver does not have this path: correct the URL" },
  405: {
    anybody: "the receiver must accept POST (postbacks) or GET (pingbacks) at this path",
  },
  410: { anybody: "the receiver no longer has this path: correct the URL" },
  413: { anybody: "raise the receiver's limit for request bodies" },
  429: {
    anybody: "let the receiver accept more requests at a time",
    operator: "lower webhooks.max_in_flight_per_host",
  },
};

function explainRefused(attempt: EndedAttempt, circumstances: Circumstances): string {
  const { refusal, endedAt } = attempt;
  const at = `at ${circumstances.reader.writeTime(endedAt)}`;
  if (refusal === null) return `refused: ${explained(attempt, circumstances).clause}, ${at}`;
  const { host, addresses, rule } = refusal;
  const remedy = allowText(refusal, circumstances);
  if (addresses.every((each) => each === host)) {
    return `refused: the URL's host ${host} was refused ${at}, ${rule}${remedy}`;
  }
  const culprits = refusedOf(refusal);
  const isMixed = culprits.length < addresses.length;
  const beside = isMixed
    ? ` among ${addresses.length} addresses (one refused address refuses all)`
    : "";
  return `refused: ${host} resolved to ${culprits.join(", ")}${beside} ${at}, ${rule}${remedy}`;
}

/** The addresses that the rules refuse; all addresses if that is not known any more. */
function refusedOf({ addresses }: Refusal): readonly string[] {
  const refused = addresses.filter((each) => classifyAddress(each).kind === "refused");
  // An address of the machine itself is a public address for all others.
  return refused.length === 0 ? addresses : refused;
}

/** The setting that would lift the rule, if there is one. */
function allowText(refusal: Refusal, { url, reader }: Circumstances): string {
  const { host, addresses } = refusal;
  const form = parseUrlForm(url);
  const targets = addresses.length === 0 ? [host] : refusedOf(refusal);
  const entries =
    form.kind === "fault" ? targets : targets.map((each) => allowEntry(each, form.port));
  const verdict = parseAllowList(entries);
  const policy = { ownNames: [], ownAddresses: [] };
  const isLifted =
    verdict.kind === "allow-list" &&
    (addresses.length > 0 ||
      judgeWebhookUrl(url, { ...policy, allow: verdict.list }).kind === "allowed");
  if (!isLifted) return "; no setting allows this, so correct the URL or the name's record in DNS";
  const list = entries.map((entry) => JSON.stringify(entry)).join(", ");
  return `; ${adviceText({ operator: `allow it with webhooks.allow = [${list}]` }, reader.role)}`;
}

function attemptsText(count: number): string {
  return count === 1 ? "1 attempt" : `${count} attempts`;
}

function spentText({ startedAt, endedAt, phases, address }: EndedAttempt): string {
  const spent = PHASE_NAMES.flatMap(([phase, name]) => {
    const ms = phases[phase];
    return ms === null ? [] : [`${name} ${durationText(ms)}`];
  });
  // An answer without a connection of its own came over one that an earlier attempt had left open.
  const isKept = address !== null && phases.connectMs === null && phases.firstByteMs !== null;
  const parts = isKept ? [...spent, "on a connection of an earlier attempt"] : spent;
  const total = `after ${durationText(endedAt - startedAt)}`;
  return parts.length === 0 ? ` (${total})` : ` (${total}: ${parts.join(", ")})`;
}

const PHASE_NAMES: readonly (readonly [phase: keyof AttemptPhases, name: string])[] = [
  ["dnsMs", "name resolution"],
  ["connectMs", "connecting"],
  ["tlsMs", "TLS"],
  ["firstByteMs", "first byte"],
];

function hostOf(url: string): string {
  const form = parseUrlForm(url);
  return form.kind === "form" ? form.hostname : "its host";
}

function peerOf({ address }: Attempt, { url }: Circumstances): Peer {
  const host = hostOf(url);
  if (address === null) return { host, dialled: host };
  const form = parseUrlForm(url);
  const port = form.kind === "form" ? `:${form.port}` : "";
  const shown = address.includes(":") ? `[${address}]` : address;
  const dialled = `${shown}${port}`;
  return { host, dialled: shown === host ? dialled : `${host} (${dialled})` };
}
