import assert from "node:assert/strict";

import { newWorkerToken } from "../../src/domain/account/key.ts";
import { openAdminStore } from "../helpers/daemon.ts";
import type { RawRequest } from "../helpers/raw-http.ts";
import { ask, JSON_TYPE, type Answer } from "./answer.ts";

/** What a worker may ask (contract §7). */
export const WORKER_OPERATIONS = ["claim", "heartbeat", "complete", "fail", "release"] as const;

export type WorkerOperation = (typeof WORKER_OPERATIONS)[number];

/** A task as a worker is given it. */
export interface ClaimedTask {
  readonly id: string;
  readonly type: string;
  readonly tag: string | null;
  readonly marketplace: string | null;
  readonly input: unknown;
  readonly lease_id: string;
  readonly lease_expires_at: string;
  readonly run: number;
}

/** What a worker is told of a lease. */
export interface ShownOutcome {
  readonly id: string | null;
  readonly outcome: string;
  readonly detail?: string;
}

export interface Called {
  readonly url: string;
  readonly token: string;
}

/** The path of an operation of workers. */
export function workerPath(operation: WorkerOperation): string {
  return `/v1/worker/${operation}`;
}

/** A request of a worker; a text goes out as it is, anything else as JSON. */
export function workerPost(
  { token }: Pick<Called, "token">,
  { operation, body }: { readonly operation: WorkerOperation; readonly body: unknown },
): RawRequest {
  const isRaw = typeof body === "string" || body instanceof Uint8Array;
  return {
    ...{ method: "POST", target: workerPath(operation) },
    headers: [`Authorization: Bearer ${token}`, JSON_TYPE],
    body: isRaw ? body : JSON.stringify(body),
  };
}

/** Asks as a worker. */
export function askAsWorker(
  called: Called,
  operation: WorkerOperation,
  body: unknown,
): Promise<Answer> {
  return ask(called.url, workerPost(called, { operation, body }));
}

/** What a claim brought, its envelope held against the contract. */
export async function claim(called: Called, body: unknown): Promise<readonly ClaimedTask[]> {
  return tasksOf<ClaimedTask>(await askAsWorker(called, "claim", body));
}

/** What is told of each lease, its envelope held against the contract. */
export async function outcomesOf(
  called: Called,
  operation: WorkerOperation,
  body: unknown,
): Promise<readonly ShownOutcome[]> {
  return tasksOf<ShownOutcome>(await askAsWorker(called, operation, body));
}

/** The tasks of a worker's answer; the shape is the contract's, which the test holds it to. */
export function tasksOf<Shown>({ code, response }: Pick<Answer, "code" | "response">) {
  const text = response.body.toString();
  assert.equal(code, 20000, text);
  const { tasks, tasks_count, tasks_error } = JSON.parse(text) as {
    readonly tasks: readonly Shown[];
    readonly tasks_count: number;
    readonly tasks_error: number;
  };
  assert.deepEqual([tasks_count, tasks_error], [tasks.length, 0]);
  return tasks;
}

/** Makes a worker in a database file, as the command line does, and answers its token. */
export async function createTestWorker(
  file: string,
  types: readonly string[],
  name = "press",
): Promise<string> {
  const store = await openAdminStore(file);
  const { key, hash, lastFour } = newWorkerToken();
  const outcome = await store.createWorker({ name, hash, lastFour, types, createdAt: Date.now() });
  await store.close();
  assert.equal(outcome, "created");
  return key;
}
