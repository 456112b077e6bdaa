import type { Clock } from "../domain/clock/clock.ts";
import { withDeadline } from "../domain/clock/wait.ts";
import type { JsonObject } from "../domain/json/json.ts";
import type { Logger } from "../domain/log.ts";
import type { ServiceClient } from "../net/service-client.ts";
import { backoffMs } from "../net/service-retry.ts";
import { toReply } from "./reply.ts";
import type { Reply } from "./reply.ts";

/** One request to the daemon. */
export interface Question<Read> {
  /** The last part of the path: `claim`. */
  readonly operation: "claim" | "heartbeat" | "complete" | "fail" | "release";
  /** JSON text. */
  readonly body: string;
  /** Reads what is answered; null for what is no answer to this. */
  readonly read: (value: JsonObject) => Read | null;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

export interface LinkOptions {
  readonly client: ServiceClient;
  /** Base URL of the daemon. */
  readonly url: URL;
  readonly token: string;
  readonly clock: Clock;
  readonly log: Logger;
}

// 100 tasks with the largest inputs that a daemon takes in by default, 1 MiB each, and what stands around them.
const ANSWER_BYTES_MAX = 128 * 1024 ** 2;

const WAIT_MS_MAX = 10_000;

/**
 * How a worker talks to the daemon. It says once in the log when the daemon cannot be reached, and once when it can
 * again, however often it is asked in between.
 */
export class Link {
  readonly #options: LinkOptions;
  readonly #base: string;
  readonly #refused = Promise.withResolvers<string>();
  #isDown = false;

  constructor(options: LinkOptions) {
    this.#options = options;
    this.#base = options.url.href.replace(/\/$/, "");
  }

  /** Settles with the reason when the daemon refuses the worker for good. */
  get refused(): Promise<string> {
    return this.#refused.promise;
  }

  /** Asks once. Never rejects; an answer that takes too long is a passing fault. */
  async ask<Read>(question: Question<Read>): Promise<Reply<Read>> {
    const { operation, body, read, timeoutMs, signal } = question;
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
    const reply = isLate ? LATE : toReply(answer, read);
    this.#note(reply);
    return reply;
  }

  #note(reply: Reply<unknown>): void {
    const { log, url } = this.#options;
    const facts = { url: url.origin };
    if (reply.kind === "refused") this.#refused.resolve(reply.reason);
    if (reply.kind === "passing" && !this.#isDown) {
      this.#isDown = true;
      log.warn(
        { ...facts, reason: reply.reason },
        "no answer of the daemon that can be used; trying again until there is. Check the URL if none ever comes",
      );
    }
    if (reply.kind === "answered" && this.#isDown) {
      this.#isDown = false;
      log.info(facts, "the daemon answers again");
    }
  }
}

const LATE = {
  kind: "passing",
  reason: "no answer in time",
  retryAfterMs: null,
  isTooLong: false,
} as const;

/**
 * How long to wait after so many failures in a row: 250 ms, doubling to 10 s, and up to half of it less, so that a
 * thousand workers do not come back in step. What the daemon asks for comes first.
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
