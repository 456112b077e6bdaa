import assert from "node:assert/strict";

import type { LeasedTask, LeaseOutcome } from "../../src/api/lease.ts";
import { newWorkerToken } from "../../src/domain/account/key.ts";
import { openAdminStore } from "../helpers/daemon.ts";
import type { RawRequest } from "../helpers/raw-http.ts";
import { ask, JSON_TYPE, type Answer } from "./answer.ts";

/** The operations of workers (worker-protocol.md). */
export const WORKER_OPERATIONS = ["claim", "heartbeat", "complete", "fail", "release"] as const;

export type WorkerOperation = (typeof WORKER_OPERATIONS)[number];

export type { LeasedTask as ClaimedTask, LeaseOutcome as ShownOutcome };

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

/** Sends a request of a worker. */
export function askAsWorker(
  called: Called,
  operation: WorkerOperation,
  body: unknown,
): Promise<Answer> {
  return ask(called.url, workerPost(called, { operation, body }));
}

/** The tasks of a claim that must succeed. */
export async function claim(called: Called, body: unknown): Promise<readonly LeasedTask[]> {
  return tasksOf<LeasedTask>(await askAsWorker(called, "claim", body));
}

/** The outcome of each lease of a request that must succeed. */
export async function outcomesOf(
  called: Called,
  operation: WorkerOperation,
  body: unknown,
): Promise<readonly LeaseOutcome[]> {
  return tasksOf<LeaseOutcome>(await askAsWorker(called, operation, body));
}

/** The tasks of a response to a worker. */
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

/** Makes a worker in a database file; returns its token. */
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
