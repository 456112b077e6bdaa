import type { ServiceAnswer } from "../deliver/service-client.ts";
import {
  isJsonObject,
  JSON_DEPTH_MAX,
  parseJsonBytes,
  toPlainNumber,
  type JsonObject,
} from "../domain/json/json.ts";

/** The meaning of a daemon's answer to a worker. Every `reason` fits on one line of the log. */
export type Reply<Read> =
  | {
      readonly kind: "answered";
      readonly value: JsonObject;
      /** The result of the request's own reader. */
      readonly read: Read;
      /** The daemon's time, to the second; null where the answer has none. */
      readonly date: number | null;
    }
  /** Another try may succeed. */
  | {
      readonly kind: "passing";
      readonly reason: string;
      readonly retryAfterMs: number | null;
      /** An answer came, and it is longer than a worker reads. */
      readonly isTooLong: boolean;
    }
  /** The request is larger than the daemon reads; without `isOurs` a proxy in front of the daemon refused it. */
  | { readonly kind: "too_large"; readonly isOurs: boolean }
  /** No try will ever succeed: the token, the types or the address are wrong. */
  | { readonly kind: "refused"; readonly reason: string }
  /** The worker ended the request itself. */
  | { readonly kind: "aborted" };

// An input stands inside its task, the list of tasks and the envelope.
const DEPTH_MAX = JSON_DEPTH_MAX + 3;
// The envelope and its tasks are opened. An input stays text: a JavaScript object would change the order of its members.
const TASKS_DEEP = 2;

/**
 * Reads an answer; `read` gives null for a value that does not answer the request. Never throws, and trusts nothing
 * that the other end sends.
 */
export function toReply<Read>(
  answer: ServiceAnswer,
  read: (value: JsonObject) => Read | null,
): Reply<Read> {
  switch (answer.kind) {
    case "aborted":
      return { kind: "aborted" };
    case "unreachable":
    case "malformed":
      return passing(answer.error);
    case "too_long":
      return { ...passing("the answer is too long"), isTooLong: true };
    case "answered":
      return answer.status === 200 ? toAnswered(answer, read) : toFault(answer);
  }
}

type Answered = Extract<ServiceAnswer, { kind: "answered" }>;

/** Everything that is no answer to the request. */
type Fault = Exclude<Reply<never>, { kind: "answered" }>;

function toAnswered<Read>(
  { body, headers }: Answered,
  reader: (value: JsonObject) => Read | null,
): Reply<Read> {
  const value = toObject(body);
  const read = value === null ? null : reader(value);
  if (value === null || read === null) return passing("HTTP 200, and not what postbackd answers");
  const date = Date.parse(headers.date ?? "");
  return { kind: "answered", value, read, date: Number.isNaN(date) ? null : date };
}

function toFault({ status, body, headers }: Answered): Fault {
  const envelope = toObject(body);
  const code = toOwnCode(envelope, status);
  const isOurs = code !== null;
  if (status === 413) return { kind: "too_large", isOurs };
  const text = isOurs ? `${code} ${shortLine(envelope?.["status_message"])}` : foreignFault(status);
  const isFinal = isOurs && status >= 400 && status < 500 && status !== 429;
  return isFinal ? refused(text, envelope) : passing(text, toWaitMs(headers["retry-after"]));
}

// A proxy may answer in the daemon's place for a moment, and only the daemon knows who may work for it. A newer
// daemon may have codes that this program does not know; all begin with the first digit of their HTTP status.
function toOwnCode(envelope: JsonObject | null, status: number): number | null {
  const code = toPlainNumber(envelope?.["status_code"]);
  const isCode = typeof code === "number" && Number.isInteger(code) && code >= 40_000;
  return isCode && Math.floor(code / 10_000) === Math.floor(status / 100) ? code : null;
}

function foreignFault(status: number): string {
  if (status !== 401 && status !== 403) return `HTTP ${status}`;
  return `HTTP ${status} that is not postbackd's: is there a proxy that refuses the worker?`;
}

/** How to fix it, by the code that the text begins with. */
const HINTS: ReadonlyMap<string, string> = new Map([
  ["40100", "Check the token."],
  ["40101", "Make another with 'postbackd admin worker create'."],
  ["40300", "Give an https URL."],
  ["40301", "Make a token for it with 'postbackd admin worker create'."],
  // Only the types in a worker's request can be wrong.
  ["40501", 'On the daemon the type needs runner = "worker" in its [types] table.'],
  ["40400", "Check the URL: it is the base URL of the daemon, without /v1."],
]);

function refused(text: string, envelope: JsonObject | null): Fault {
  const detail = firstDetail(envelope);
  const hint = HINTS.get(text.slice(0, 5));
  const isNews = detail !== null && !text.includes(detail);
  const parts = [text, ...(isNews ? [detail] : []), ...(hint === undefined ? [] : [hint])];
  return { kind: "refused", reason: `the daemon refuses this worker: ${parts.join(" ")}` };
}

/** The reply that another try may succeed. */
export function passing(reason: string, retryAfterMs: number | null = null) {
  return { kind: "passing", reason, retryAfterMs, isTooLong: false } as const;
}

function toObject(body: Uint8Array): JsonObject | null {
  const parsed = parseJsonBytes(body, { depthMax: DEPTH_MAX, opens: TASKS_DEEP });
  return parsed.kind === "json" && isJsonObject(parsed.value) ? parsed.value : null;
}

/** The daemon's words about the field that it refuses; null where there are none. */
function firstDetail(envelope: JsonObject | null): string | null {
  const errors: unknown = envelope?.["errors"];
  const first: unknown = Array.isArray(errors) ? errors[0] : null;
  return isJsonObject(first) ? shortLine(first["detail"]) : null;
}

const LINE_MAX = 200;

/** Text from the other end, fit for a log and a terminal. */
export function shortLine(value: unknown): string {
  const text = typeof value === "string" ? value : "";
  return text.slice(0, LINE_MAX).replace(/[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/gu, "\ufffd");
}

const RETRY_AFTER_S_MAX = 60;

function toWaitMs(text: string | undefined): number | null {
  if (text === undefined || !/^\d{1,9}$/.test(text)) return null;
  return Math.min(Number(text), RETRY_AFTER_S_MAX) * 1000;
}
