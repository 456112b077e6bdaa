import assert from "node:assert/strict";

import type { NewTask } from "../../src/domain/task/task.ts";
import type { AttemptResult, DeliveryFilter } from "../../src/domain/webhook/delivery.ts";
import type { NewRedeliveryOrder, RedeliveryOrder, Store } from "../../src/store/store.ts";
import {
  claimLanes,
  newAttemptRecord,
  newAttemptResult,
  newFinish,
  newPost,
  newTask,
  newTaskId,
  T0,
  webhook,
} from "./store.ts";

/** By default a filter that every delivery passes. */
export function deliveryFilter(overrides: Partial<DeliveryFilter> = {}): DeliveryFilter {
  return {
    ...{ login: null, taskId: null, kind: null, host: null, states: null, outcome: null },
    ...{ since: null, until: null },
    ...overrides,
  };
}

/** A bulk redelivery of everything that ended before {@link ORDERED_AT}. */
export function newOrder(overrides: Partial<NewRedeliveryOrder> = {}): NewRedeliveryOrder {
  const filter = deliveryFilter();
  return { id: newTaskId(), filter, perSecond: 10, createdAt: ORDERED_AT, ...overrides };
}

/** Stores a bulk redelivery without a limit of open ones. */
export async function placeOrder(
  store: Pick<Store, "orderRedelivery">,
  order: NewRedeliveryOrder,
): Promise<RedeliveryOrder> {
  const kept = await store.orderRedelivery({ ...order, openMax: null });
  assert(kept !== "busy");
  return kept;
}

/** The default end of seeded deliveries. */
export const ENDED_AT = T0 + 2000;

/** Later than all seeded times. */
export const ORDERED_AT = T0 + 5000;

export interface SeededEnd {
  readonly state?: "delivered" | "given_up" | "refused";
  readonly result?: Partial<AttemptResult>;
  readonly endedAt?: number;
}

/** Creates a finished task with a postback for each host, all due at T0 + 1000. */
export async function seedDue(
  store: Store,
  accountId: number,
  hosts: readonly string[],
): Promise<readonly NewTask[]> {
  const tasks = hosts.map((host) => newTask({ postback: webhook(host) }));
  await store.insertTasks(newPost(accountId, tasks));
  const runs = await store.claimTasks({ type: "echo", max: hosts.length, now: T0 });
  await Promise.all(runs.map((run) => store.finishTask(newFinish(run))));
  return tasks;
}

/** As {@link seedDue}, with the only attempt of each ended. */
export async function seedEnded(
  store: Store,
  accountId: number,
  { hosts, ...end }: SeededEnd & { readonly hosts: readonly string[] },
): Promise<readonly NewTask[]> {
  const tasks = await seedDue(store, accountId, hosts);
  await endDue(store, hosts, end);
  return tasks;
}

/** Ends the attempts that are due on these hosts at `now`. */
export async function endDue(
  store: Store,
  hosts: readonly string[],
  {
    state = "given_up",
    result = {},
    endedAt = ENDED_AT,
    now = T0 + 1000,
  }: SeededEnd & { now?: number },
): Promise<void> {
  const attempts = await claimLanes(store, [...new Set(hosts)], { max: hosts.length, now });
  const ended = { decision: { state }, result: newAttemptResult(result), endedAt };
  await Promise.all(
    attempts.map((attempt) => store.recordAttempt(newAttemptRecord(attempt, ended))),
  );
}
