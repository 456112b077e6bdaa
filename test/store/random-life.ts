import fc from "fast-check";

import { decideDelivery, type AttemptOutcome } from "../../src/domain/webhook/delivery.ts";
import type { Attempt, AttemptRecord, ClaimedAttempt, Store } from "../../src/store/store.ts";
import { deliveryFilter, newOrder, placeOrder } from "../helpers/delivery.ts";
import {
  claimLanes,
  newAttemptResult,
  newFinish,
  newPost,
  newRefusedTask,
  newTask,
  retainedUntil,
  RETENTION_MS,
  seedAccount,
  T0,
  webhook,
} from "../helpers/store.ts";

/** The results of the random steps so far. */
export interface World {
  readonly store: Store;
  readonly accounts: readonly number[];
  readonly ids: { readonly accountId: number; readonly id: string }[];
  readonly seqs: number[];
  readonly attempts: ClaimedAttempt[];
}

export const HOSTS = ["a.example", "b.example"] as const;

/** The waits between attempts; after the last wait a delivery is given up. */
export const WAITS_MS = [1000, 2000];

// Behind everything else, so that all attempts are due.
const SENT_AT = T0 + 10 * 3600_000;

// Steps choose among the last items: most earlier items have ended.
const RECENT = 6;

/** The idempotency key of a task that was posted again. */
export function idempotencyKeyOf({ id }: { readonly id: string }): string {
  return `key of ${id}`;
}

const OUTCOMES: readonly AttemptOutcome[] = [
  ...(["delivered", "failed", "timed_out", "refused", "interrupted"] as const),
  ...(["failed", "timed_out", "failed", "failed"] as const),
];

/** The writes to tasks and deliveries; `pick` chooses the object and the time. */
const STEPS = {
  async post({ store, accounts, ids }, pick) {
    const accountId = chosen(accounts, pick);
    const [postback, pingback] = [webhook(HOSTS[0]), webhook(HOSTS[1])];
    const sent = newTask(pick % 5 < 3 ? { postback, pingback } : { postback });
    const later = newTask({ startAt: timeOf(pick) + 1000 });
    const accepted = [newTask(), sent, ...(pick % 3 === 0 ? [later] : [])];
    const refused = pick % 7 < 3 ? [newRefusedTask()] : [];
    const createdAt = timeOf(pick);
    await store.insertTasks(newPost(accountId, accepted, { refused, createdAt }));
    ids.push(...accepted.map(({ id }) => ({ accountId, id })));
  },
  // Stored once, replied twice.
  async postAgain({ store, accounts, ids }, pick) {
    const accountId = chosen(accounts, pick);
    const [task, twin] = [newTask(), newTask()];
    // Before the posts: a response may be stored although its post was rejected.
    ids.push({ accountId, id: task.id });
    const key = idempotencyKeyOf(task);
    const idempotency = { key, bodyHash: "hash", answerText: "{}", steadyAt: T0, eraseAt: T0 };
    const posts = [task, twin].map((each) => newPost(accountId, [each], { idempotency }));
    await Promise.all(posts.map((post) => store.insertTasks(post)));
  },
  // Fails after some of its tasks were inserted, and takes none of its neighbours along.
  async postTwins({ store, accounts }, pick) {
    const [task, twin] = [newTask(), newTask()];
    await store.insertTasks(newPost(chosen(accounts, pick), [task, twin, twin]));
  },
  async claim({ store, seqs }, pick) {
    const max = (pick % 4) + 1;
    const claimed = await store.claimTasks({ type: "echo", max, now: timeOf(pick) });
    seqs.push(...claimed.map(({ seq }) => seq));
  },
  async finish({ store, seqs }, pick) {
    const state = pick % 2 === 0 ? "completed" : "failed";
    const finish = newFinish(
      { seq: chosen(seqs.slice(-RECENT), pick) },
      { state, endedAt: timeOf(pick) },
    );
    await Promise.all([store.finishTask(finish), store.finishTask(finish)]);
  },
  // Fails after the row was changed: SQLite stores no bytes as text, and codes of PostgreSQL are smaller.
  async finishBroken({ store, seqs }, pick) {
    const faults = { resultText: new Uint8Array(1), code: 2 ** 40 };
    const broken = { ...newFinish({ seq: chosen(seqs, pick) }), ...faults };
    await store.finishTask(broken as unknown as Parameters<Store["finishTask"]>[0]);
  },
  async retry({ store, seqs }, pick) {
    await store.retryTask({ seq: chosen(seqs, pick), startAt: T0 + 1000 });
  },
  async requeue({ store, seqs }, pick) {
    await store.requeueTasks(
      pick % 10 === 0 ? { of: "earlier life" } : { seq: chosen(seqs, pick) },
    );
  },
  async release({ store }, pick) {
    await store.releaseDelayed({ now: SENT_AT, max: (pick % 3) + 1 });
  },
  async cancel({ store, ids }, pick) {
    const cancelledAt = timeOf(pick);
    const times = { cancelledAt, ...retainedUntil(cancelledAt + RETENTION_MS) };
    await store.cancelTask({ ...chosen(ids, pick), ...times });
  },
  async collect({ store, ids }, pick) {
    await Promise.all([store.collectTask(chosen(ids, pick)), store.collectTask(chosen(ids, pick))]);
  },
  async send({ store, attempts }, pick) {
    const max = (pick % 3) + 1;
    // One host at a time, at which each account has a lane: what is recorded later is among the newest.
    const host = HOSTS[pick % HOSTS.length] ?? "";
    const now = SENT_AT + attempts.length * 500_000;
    attempts.push(...(await claimLanes(store, [host], { max, now })));
  },
  async record({ store, attempts }, pick) {
    const record = recordOf(chosen(attempts.slice(-RECENT), pick), pick);
    await Promise.all([store.recordAttempt(record), store.recordAttempt(record)]);
  },
  // Fails after the attempt was ended: no time is stored as bytes.
  async recordBroken({ store, attempts }, pick) {
    const { decision, ...record } = recordOf(chosen(attempts, pick), 1);
    const broken = { ...record, decision: { ...decision, dueAt: new Uint8Array(1) } };
    await store.recordAttempt(broken as unknown as AttemptRecord);
  },
  async redeliver({ store, ids }, pick) {
    await store.redeliver({ ...chosen(ids, pick), kind: null, states: null, now: T0 });
  },
  // Few at a time: fresh series are sent first, and what is retried would never come to its end.
  async redeliverMany({ store }, pick) {
    if (pick % 4 > 0) return;
    const filter = deliveryFilter({ states: pick % 8 > 0 ? ["given_up", "refused"] : null });
    const order = newOrder({ filter, createdAt: Number.MAX_SAFE_INTEGER });
    await placeOrder(store, order);
    await store.stepRedeliveryOrder({ id: order.id, max: 1, now: T0 });
  },
} satisfies Record<string, (world: World, pick: number) => Promise<void>>;

const EVERY_STEP = {
  ...STEPS,
  async erase({ store }: World, pick: number) {
    await store.eraseExpired({ now: timeOf(pick) + RETENTION_MS, max: (pick % 3) + 1 });
  },
};

type Step = keyof typeof EVERY_STEP;

/** Two accounts to which nothing has happened. */
export async function newWorld(store: Store): Promise<World> {
  const accounts = [await seedAccount(store, "ada"), await seedAccount(store, "bob")];
  return { store, accounts, ids: [], seqs: [], attempts: [] };
}

/** Rounds of random steps; without `erases`, everything that happened is still to be seen at the end. */
export function randomLife({ erases }: { readonly erases: boolean }) {
  // The table's own keys.
  const kinds = Object.keys(erases ? EVERY_STEP : STEPS) as Step[];
  const step = fc.record({ kind: fc.constantFrom(...kinds), pick: fc.nat(1000) });
  return fc.array(fc.array(step, { minLength: 1, maxLength: 10 }), { maxLength: 16 });
}

/** Why a step may be rejected, in the words of any store. */
const REASONS = { broken: /BLOB|out of range/, twin: /unique/i, nothing: /nothing/ };

/** Every reason for which steps of a long life were rejected. */
export const ALL_REASONS: ReadonlySet<string> = new Set(Object.keys(REASONS));

/** Steps of one round run concurrently and share batches. Returns the reasons of rejected steps. */
export async function liveRound(
  world: World,
  round: readonly { readonly kind: Step; readonly pick: number }[],
): Promise<readonly string[]> {
  const results = await Promise.allSettled(
    round.map(async ({ kind, pick }) => EVERY_STEP[kind](world, pick)),
  );
  return results.flatMap((result) =>
    result.status === "rejected" ? [reasonOf(result.reason)] : [],
  );
}

function reasonOf(error: unknown): string {
  const text = String(error);
  return Object.entries(REASONS).find(([, words]) => words.test(text))?.[0] ?? text;
}

function timeOf(pick: number): number {
  return T0 + pick * 20_000;
}

function recordOf(attempt: ClaimedAttempt, pick: number): AttemptRecord {
  const outcome = chosen(OUTCOMES, Math.floor(pick / 7));
  const endedAt = attempt.startedAt + Math.floor((pick * pick) / 4);
  const facts = { endedAt, retriesUsed: attempt.retry, retryAfterMs: WAITS_MS };
  const decision = decideDelivery(outcome, facts);
  return { attempt, result: newAttemptResult({ outcome }), endedAt, decision };
}

/** One of them; rejects the step that has nothing to choose from. */
function chosen<Value>(values: readonly Value[], pick: number): Value {
  const value = values[pick % values.length];
  if (value === undefined) throw new Error("there is nothing to choose from");
  return value;
}

/** How many retries of its series an attempt had used up when it started: interrupted ones use none. */
export function retryOf(attempts: readonly Attempt[], place: number): number {
  const series = attempts.slice(0, place + 1);
  const first = series.findLastIndex(({ number }) => number === 1);
  return series.slice(first, place).filter(({ outcome }) => outcome !== "interrupted").length;
}
