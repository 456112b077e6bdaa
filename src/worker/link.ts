import type { OperationKey } from "../api/operations.ts";
import type { ServiceClient } from "../deliver/service-client.ts";
import { backoffMs } from "../deliver/service-retry.ts";
import { type Clock, withDeadline } from "../domain/clock/clock.ts";
import type { JsonObject } from "../domain/json/json.ts";
import type { Logger } from "../domain/log.ts";
import { type Reply, passing, toReply } from "./reply.ts";

type WorkerOperation =
  Extract<OperationKey, `POST /v1/worker/${string}`> extends `POST /v1/worker/${infer Name}`
    ? Name
    : never;

export interface WorkerRequest<Read> {
  /** The last part of the path: `claim`. */
  readonly operation: WorkerOperation;
  /** JSON text. */
  readonly body: string;
  /** Reads the answer; null where it does not answer this request. */
  readonly read: (value: JsonObject) => Read | null;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

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

const WAIT_MS_MAX = 10_000;

/**
 * A worker's connection to the daemon. However often it is asked, it logs once that the daemon cannot be reached, and
 * once that it can be reached again.
 */
export class Link {
  readonly #options: LinkOptions;
  readonly #base: string;
  #refuse: (reason: string) => void = () => {};
  /** Settles with the reason when the daemon refuses the worker for good. */
  readonly refused = new Promise<string>((resolve) => (this.#refuse = resolve));
  #isDown = false;

  constructor(options: LinkOptions) {
    this.#options = options;
    this.#base = options.url.href.replace(/\/$/, "");
  }

  /** Asks once. Never rejects; an answer that takes too long counts as a passing fault. */
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
