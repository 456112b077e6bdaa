import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

import { carefulCall } from "../kit/careful-call.ts";
import type { MessageServer } from "../kit/message-server.ts";
import { acceptedIds } from "../kit/request.ts";
import { fileTask, kindOf } from "./file-task.ts";

/** A task that was acknowledged. */
export interface PostedTask {
  readonly id: string;
  readonly file: string;
  /** Epoch milliseconds of the acknowledgement. */
  readonly postedAt: number;
}

interface ClientParts {
  readonly url: string;
  readonly key: string;
  readonly receiver: MessageServer;
  /** A task is posted for each, from the first again after the last. */
  readonly files: readonly string[];
}

const TASKS_PER_POST = 5;
const PAUSE_MS = 500;
const REPEAT_MS = 100;
const REFUSED_MS_MAX = 30_000;

/**
 * Posts tasks all the time, as a careful client does: every request has an Idempotency-Key and is repeated until it is
 * answered 200. So a request whose answer was lost posts nothing twice.
 */
export class SteadyClient {
  /** All that was acknowledged, in this order. */
  readonly posted: PostedTask[] = [];
  /** Requests that were not answered 200, and were repeated. */
  repeated = 0;
  readonly #parts: ClientParts;
  #asked = 0;

  constructor(parts: ClientParts) {
    this.#parts = parts;
  }

  /** Goes on until then. Rejects when nothing is taken for half a minute. */
  async run({ signal }: { readonly signal: AbortSignal }): Promise<void> {
    while (!signal.aborted) {
      await this.#post(TASKS_PER_POST);
      await sleep(PAUSE_MS);
    }
  }

  async #post(count: number): Promise<void> {
    const { files, receiver } = this.#parts;
    const asked = Array.from({ length: count }, () => {
      const index = this.#asked++;
      return { file: files[index % files.length] ?? "", kind: kindOf(index) };
    });
    const body = asked.map(({ file, kind }) => fileTask(file, { receiver, kind }));
    const ids = acceptedIds(await this.#untilTaken(JSON.stringify(body)));
    const postedAt = Date.now();
    for (const [i, { file }] of asked.entries()) {
      this.posted.push({ id: ids[i] ?? "", file, postedAt });
    }
  }

  /** Answers what the request was answered in the end. */
  async #untilTaken(body: string): Promise<string> {
    const { url, key } = this.#parts;
    const headers = { "idempotency-key": randomUUID() };
    const startedAt = performance.now();
    for (;;) {
      const answer = await carefulCall(`${url}/v1/tasks/task_post`, { secret: key, headers, body });
      if (answer?.status === 200) return answer.text;
      if (performance.now() - startedAt > REFUSED_MS_MAX) {
        throw new Error(`nothing was taken for ${REFUSED_MS_MAX} ms: ${answer?.text}`);
      }
      this.repeated++;
      await sleep(REPEAT_MS);
    }
  }
}
