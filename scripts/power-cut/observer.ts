import { setTimeout as sleep } from "node:timers/promises";

import { z } from "zod";

import type { Answer, CarefulRequest, DaemonAddress } from "../kit/client.ts";
import type { HistoryEntry } from "./history.ts";

const finishedTask = z.object({ tasks: z.tuple([z.object({ state: z.string() })]) });
const deliveryList = z.object({
  deliveries: z.array(z.object({ delivery_id: z.string(), state: z.string() })),
});
const madeKey = z.object({ key: z.object({ key_id: z.string(), key: z.string() }) });

const LANES = 4;
const IDLE_MS = 5;
const LOOK_AGAIN_MS = 100;
const KEY_PAUSE_MS = 20;
const KEYS = "/v1/appendix/keys";

/**
 * A client that looks at what became of tasks, collects every second one, and makes and revokes keys. It keeps what it
 * was told: what was shown once stays so.
 */
export class Observer {
  readonly #address: DaemonAddress;
  readonly #apiKey: string;
  readonly #history: HistoryEntry[];
  readonly #ids: string[] = [];
  /** Finished tasks whose webhooks had not all arrived at the last look, the earliest look first. */
  readonly #undelivered: { readonly id: string; readonly lookedAt: number }[] = [];
  #looks = 0;

  constructor(deps: {
    readonly address: DaemonAddress;
    readonly apiKey: string;
    readonly history: HistoryEntry[];
  }) {
    this.#address = deps.address;
    this.#apiKey = deps.apiKey;
    this.#history = deps.history;
  }

  /** Tasks to look at. */
  note(ids: readonly string[]): void {
    this.#ids.push(...ids);
  }

  /** Looks at one task after the other, at whatever daemon there is, until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    const again = async (act: () => Promise<void>, pauseMs: number): Promise<void> => {
      for (; !signal.aborted; await sleep(pauseMs)) await act();
    };
    const looks = Array.from({ length: LANES }, () => again(() => this.#lookAtNext(), IDLE_MS));
    await Promise.all([...looks, again(() => this.#changeKeys(), KEY_PAUSE_MS)]);
  }

  async #lookAtNext(): Promise<void> {
    const [first] = this.#undelivered;
    if (first !== undefined && first.lookedAt < performance.now() - LOOK_AGAIN_MS) {
      this.#undelivered.shift();
      await this.#lookAtDeliveries(first.id);
      return;
    }
    // The newest, because there are more than can be looked at.
    const id = this.#ids.pop();
    if (id === undefined) return;
    const isCollected = this.#looks++ % 2 === 0;
    const query = isCollected ? "" : "?collect=false";
    const headers = { prefer: "wait=5" };
    const task = await this.#call(`/v1/tasks/task_get/${id}${query}`, { method: "GET", headers });
    if (task === null) return;
    const { text, requestId } = task;
    const [{ state }] = finishedTask.parse(JSON.parse(text)).tasks;
    if (state !== "completed") return;
    this.#history.push({ kind: "finished", id, text, isCollected, requestId });
    this.#undelivered.push({ id, lookedAt: performance.now() });
  }

  async #lookAtDeliveries(id: string): Promise<void> {
    const list = await this.#call(`/v1/tasks/deliveries/${id}`, { method: "GET" });
    if (list === null) return;
    const { requestId } = list;
    const { deliveries } = deliveryList.parse(JSON.parse(list.text));
    for (const { delivery_id: webhookId, state } of deliveries) {
      if (state === "delivered") this.#history.push({ kind: "delivered", webhookId, requestId });
    }
    if (deliveries.some(({ state }) => state !== "delivered"))
      this.#undelivered.push({ id, lookedAt: performance.now() });
  }

  async #changeKeys(): Promise<void> {
    const made = await this.#call(KEYS, { body: "{}" });
    if (made === null) return;
    const { key_id: keyId, key } = madeKey.parse(JSON.parse(made.text)).key;
    this.#history.push({ kind: "key-made", key, requestId: made.requestId });
    await sleep(KEY_PAUSE_MS);
    this.#history.push({ kind: "key-revocation", key, sentAt: Date.now() });
    const revoked = await this.#call(`${KEYS}/${keyId}`, { method: "DELETE" });
    if (revoked === null) return;
    this.#history.push({ kind: "key-revoked", key, requestId: revoked.requestId });
  }

  /** Null when the connection broke. */
  async #call(path: string, request: Omit<CarefulRequest, "secret">): Promise<Answer | null> {
    const answer = await this.#address.try(path, { ...request, secret: this.#apiKey });
    if (answer === null || answer.status === 200) return answer;
    throw new Error(`${path} answered ${answer.status}: ${answer.text}`);
  }
}
