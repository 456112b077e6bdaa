import type { OperationKey } from "../api/operations.ts";
import type { ServiceAnswer, ServiceClient } from "../deliver/service-client.ts";
import { backoffMs } from "../deliver/service-retry.ts";
import { type Clock, withDeadline } from "../domain/clock/clock.ts";
import {
  JSON_DEPTH_MAX,
  type JsonObject,
  isJsonObject,
  parseJsonBytes,
  toPlainNumber,
} from "../domain/json/json.ts";
import type { Logger } from "../domain/log.ts";

type WorkerOperation =
  Extract<OperationKey, `POST /v1/worker/${string}`> extends `POST /v1/worker/${infer Name}`
    ? Name
    : never;

export interface WorkerRequest<Read> {
  /** The last part of the path: `claim`. */
  readonly operation: WorkerOperation;
  /** JSON text. */
  readonly body: string;
  /** Reads the response; null if it does not fit the request. */
  readonly read: (value: JsonObject) => Read | null;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** The meaning of a daemon's response to a worker. Every `reason` fits on one line of the log. */
export type Reply<Read> =
  | {
      readonly kind: "answered";
      readonly value: JsonObject;
      /** The result of the request's own reader. */
      readonly read: Read;
      /** The daemon's time, to the second; null if the response has none. */
      readonly date: number | null;
    }
  /** Another try may succeed. */
  | {
      readonly kind: "passing";
      readonly reason: string;
      readonly retryAfterMs: number | null;
      /** A response came, and it is longer than a worker reads. */
      readonly isTooLong: boolean;
    }
  /** The request is larger than the daemon reads; without `isOurs` a proxy in front of the daemon refused it. */
  | { readonly kind: "too_large"; readonly isOurs: boolean }
  /** No try will ever succeed: the token, the types or the address are wrong. */
  | { readonly kind: "refused"; readonly reason: string }
  /** The worker ended the request itself. */
  | { readonly kind: "aborted" };

export interface LinkOptions {
  readonly client: Pick<ServiceClient, "post">;
  /** Base URL of the daemon. */
  readonly url: URL;
  readonly token: string;
  readonly clock: Clock;
  readonly log: Logger;
}

// 100 tasks with inputs of 1 MiB, the largest that a daemon takes by default, and the JSON around them.
const ANSWER_BYTES_MAX = 128 * 1024 ** 2;

/** A worker's connection to the daemon. It logs once that the daemon cannot be reached, and once that it can again. */
export class Link {
  readonly #options: LinkOptions;
  readonly #base: string;
  #refuse: (reason: string) => void = () => {};
  /** Settles with the reason when the daemon refuses the worker permanently. */
  readonly refused = new Promise<string>((resolve) => (this.#refuse = resolve));
  #isDown = false;

  constructor(options: LinkOptions) {
    this.#options = options;
    this.#base = options.url.href.replace(/\/$/, "");
  }

  /** Sends one request. Never rejects; a response that takes too long is a passing fault. */
  async ask<Read>(request: WorkerRequest<Read>): Promise<Reply<Read>> {
    const { operation, body, read, timeoutMs, signal } = request;
    const { client, token, clock } = this.#options;
    const url = new URL(`${this.#base}/v1/worker/${operation}`);
    const headers = {
      authorization: `Bearer ${token}`,
      accept: "application/json",
      "content-type": "application/json",
      "user-agent": "postbackd-worker/1",
    };
    const answer = await withDeadline(timeoutMs, { clock, signal }, (end) =>
      client.post(url, { headers, body, bytesMax: ANSWER_BYTES_MAX, signal: end }),
    );
    const isLate = answer.kind === "aborted" && !signal.aborted;
    const reply = isLate ? passing("no answer in time") : toReply(answer, read);
    this.#note(reply);
    return reply;
  }

  #note(reply: Reply<unknown>): void {
    const { log, url } = this.#options;
    const facts = { url: url.origin };
    if (reply.kind === "refused") this.#refuse(reply.reason);
    if (reply.kind === "passing" && !this.#isDown) {
      this.#isDown = true;
      log.warn(
        { ...facts, reason: reply.reason },
        "the daemon gives no usable answer; trying again until it does. Check the URL if it never does",
      );
    }
    if (reply.kind === "answered" && this.#isDown) {
      this.#isDown = false;
      log.info(facts, "the daemon answers again");
    }
  }
}

const WAIT_MS_MAX = 10_000;

/**
 * How long to wait after `failures` failures in a row: 250 ms, doubling to 10 s, shortened at random by up to a half
 * so that a thousand workers do not come back in step. A longer wait that the daemon asks for wins.
 */
export function waitMsAfter(
  failures: number,
  {
    retryAfterMs = null,
    random = Math.random(),
  }: { retryAfterMs?: number | null; random?: number } = {},
): number {
  return Math.max(backoffMs(failures, { waitMsMax: WAIT_MS_MAX, random }), retryAfterMs ?? 0);
}

type Answered = Extract<ServiceAnswer, { kind: "answered" }>;

/** Never throws: everything that the other end sends is checked before it is used. */
function toReply<Read>(
  answer: ServiceAnswer,
  reader: (value: JsonObject) => Read | null,
): Reply<Read> {
  if (answer.kind === "aborted") return { kind: "aborted" };
  if (answer.kind === "too_long") return { ...passing("the answer is too long"), isTooLong: true };
  if (answer.kind !== "answered") return passing(answer.error);
  const value = toObject(answer.body);
  if (answer.status !== 200) return toFault(answer, value);
  const read = value === null ? null : reader(value);
  if (value === null || read === null) return passing("HTTP 200, and not what postbackd answers");
  const date = Date.parse(answer.headers.date ?? "");
  return { kind: "answered", value, read, date: Number.isNaN(date) ? null : date };
}

// An input stands inside its task, the list of tasks and the envelope.
const DEPTH_MAX = JSON_DEPTH_MAX + 3;
// The envelope and its tasks are opened. An input stays text: a JavaScript object would change the order of its members.
const TASKS_DEEP = 2;

function toObject(body: Uint8Array): JsonObject | null {
  const parsed = parseJsonBytes(body, { depthMax: DEPTH_MAX, opens: TASKS_DEEP });
  return parsed.kind === "json" && isJsonObject(parsed.value) ? parsed.value : null;
}

function toFault({ status, headers }: Answered, envelope: JsonObject | null): Reply<never> {
  const code = toOwnCode(envelope, status);
  const isOurs = code !== null;
  if (status === 413) return { kind: "too_large", isOurs };
  const text = isOurs ? `${code} ${shortLine(envelope?.["status_message"])}` : foreignFault(status);
  const isFinal = isOurs && status >= 400 && status < 500 && status !== 429;
  if (!isFinal) return passing(text, toWaitMs(headers["retry-after"]));
  const detail = firstDetail(envelope);
  const isNews = detail !== null && !text.includes(detail);
  const parts = [text, isNews ? detail : null, HINTS[code] ?? null].filter((part) => part !== null);
  return { kind: "refused", reason: `the daemon refuses this worker: ${parts.join(" ")}` };
}

// A proxy may respond in the daemon's place for a moment, and only the daemon knows who may work for it. A newer
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

/** How to fix it, by code. */
const HINTS: Readonly<Record<number, string>> = {
  40100: "Check the token.",
  40101: "Make another with 'postbackd admin worker create'.",
  40300: "Give an https URL.",
  40301: "Make a token for it with 'postbackd admin worker create'.",
  // Only the types in a worker's request can be wrong.
  40501: 'On the daemon the type needs runner = "worker" in its [types] table.',
  40400: "Check the URL: it is the base URL of the daemon, without /v1.",
};

function passing(reason: string, retryAfterMs: number | null = null) {
  return { kind: "passing", reason, retryAfterMs, isTooLong: false } as const;
}

/** The daemon's words about the field that it refuses; null if it has none. */
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
