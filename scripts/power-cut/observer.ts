import { setTimeout as sleep } from "node:timers/promises";

import { z } from "zod";

import { servedCall, type CarefulAnswer, type CarefulRequest } from "../kit/careful-call.ts";
import type { HistoryEntry } from "./client-history.ts";

const finishedTask = z.object({ tasks: z.tuple([z.object({ state: z.string() })]) });
const deliveryList = z.object({
  deliveries: z.array(z.object({ delivery_id: z.string(), state: z.string() })),
});
const madeKey = z.object({ key: z.object({ key_id: z.string(), key: z.string() }) });

const LANES = 4;
const IDLE_MS = 5;
const LOOK_AGAIN_MS = 100;
const KEY_PAUSE_MS = 20;

/**
 * A client that looks at what became of tasks, collects every second one, and makes and revokes keys. It keeps what it was
 * told: what was shown once stays so.
 */
export class Observer {
  readonly #apiKey: string;
  readonly #history: HistoryEntry[];
  readonly #ids: string[] = [];
  /** Finished tasks whose webhooks had not all arrived at the last look, the earliest look first. */
  readonly #undelivered: { readonly id: string; readonly lookedAt: number }[] = [];
  #looks = 0;

  constructor(deps: { readonly apiKey: string; readonly history: HistoryEntry[] }) {
    this.#apiKey = deps.apiKey;
    this.#history = deps.history;
  }

  /** Tasks to look at. */
  note(ids: readonly string[]): void {
    this.#ids.push(...ids);
  }

  /** Looks at one task after the other until `goesOn` says no or the connection breaks. */
  async run(url: string, goesOn: () => boolean): Promise<void> {
    const looks = Array.from({ length: LANES }, async () => {
      while (goesOn() && (await this.#lookAtNext(url))) continue;
    });
    const keys = async (): Promise<void> => {
      while (goesOn() && (await this.#changeKeys(url))) await sleep(KEY_PAUSE_MS);
    };
    await Promise.all([...looks, keys()]);
  }

  /** False when the connection broke. */
  async #lookAtNext(url: string): Promise<boolean> {
    const [first] = this.#undelivered;
    if (first !== undefined && first.lookedAt < performance.now() - LOOK_AGAIN_MS) {
      this.#undelivered.shift();
      return await this.#lookAtDeliveries(url, first.id);
    }
    // The newest, because there are more than can be looked at.
    const id = this.#ids.pop();
    if (id === undefined) {
      await sleep(IDLE_MS);
      return true;
    }
    const isCollected = this.#looks++ % 2 === 0;
    const query = isCollected ? "" : "?collect=false";
    const task = await this.#call(`${url}/v1/tasks/task_get/${id}${query}`, {
      method: "GET",
      headers: { prefer: "wait=5" },
    });
    if (task === null) return false;
    const { text, requestId } = task;
    const [{ state }] = finishedTask.parse(JSON.parse(text)).tasks;
    if (state !== "completed") return true;
    this.#history.push({ kind: "finished", id, text, isCollected, requestId });
    this.#undelivered.push({ id, lookedAt: performance.now() });
    return true;
  }

  async #lookAtDeliveries(url: string, id: string): Promise<boolean> {
    const list = await this.#call(`${url}/v1/tasks/deliveries/${id}`, { method: "GET" });
    if (list === null) return false;
    const { requestId } = list;
    const { deliveries } = deliveryList.parse(JSON.parse(list.text));
    for (const { delivery_id: webhookId, state } of deliveries) {
      if (state === "delivered") this.#history.push({ kind: "delivered", webhookId, requestId });
    }
    if (deliveries.some(({ state }) => state !== "delivered"))
      this.#undelivered.push({ id, lookedAt: performance.now() });
    return true;
  }

  async #changeKeys(url: string): Promise<boolean> {
    const keys = `${url}/v1/appendix/keys`;
    const made = await this.#call(keys, { body: "{}" });
    if (made === null) return false;
    const { key_id: keyId, key } = madeKey.parse(JSON.parse(made.text)).key;
    this.#history.push({ kind: "key-made", key, requestId: made.requestId });
    await sleep(KEY_PAUSE_MS);
    this.#history.push({ kind: "key-revocation", key, sentAt: Date.now() });
    const revoked = await this.#call(`${keys}/${keyId}`, { method: "DELETE" });
    if (revoked === null) return false;
    this.#history.push({ kind: "key-revoked", key, requestId: revoked.requestId });
    return true;
  }

  #call(url: string, request: Omit<CarefulRequest, "secret">): Promise<CarefulAnswer | null> {
    return servedCall(url, { ...request, secret: this.#apiKey });
  }
}
