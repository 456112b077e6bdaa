import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import {
  ANSWER_OVERHEAD_BYTES,
  ATTEMPT_OVERHEAD_BYTES,
  TASK_OVERHEAD_BYTES,
} from "../../src/store/common/large-task.ts";
import type { Attempt, FoundTask, WorkCounts } from "../../src/store/store.ts";
import { giveUpAll, taskQuery, RETENTION_MS, T0, withAccount } from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";
import {
  ALL_REASONS,
  idempotencyKeyOf,
  liveRound,
  newWorld,
  randomLife,
  type World,
} from "./random-life.ts";

const STATES = ["queued", "running", "completed", "failed", "cancelled"] as const;

const NOTHING: WorkCounts = {
  queued: 0,
  delayed: 0,
  running: 0,
  completed: 0,
  failed: 0,
  cancelled: 0,
  ready: 0,
  retrying: 0,
  undelivered: 0,
  bytes: 0,
};

export function exerciseCounts(open: OpenStore): void {
  test("all counts of an account without tasks are zero", async (t) => {
    const { store, accountId } = await withAccount(open(t));

    assert.deepEqual(await store.countWork(accountId), NOTHING);
    assert.deepEqual(await store.countWork(null), NOTHING);
    const data = await store.findAccountData({ accountId, revokedMax: 0 });
    assert.deepEqual(data?.taskCounts, statesOf(NOTHING));
  });

  test("counts equal the lists after random writes", async (t) => {
    const { store, again } = await open(t);
    const world = await newWorld(store);
    const { accounts } = world;
    const undone = new Set<string>();
    const seen = new Set<string>();

    const property = fc.asyncProperty(randomLife({ erases: true }), async (rounds) => {
      for (const round of rounds) {
        for (const reason of await liveRound(world, round)) undone.add(reason);
      }
      for (const accountId of accounts) {
        const counts = await store.countWork(accountId);
        assert.deepEqual(counts, await recount(world, accountId));
        for (const [word, count] of Object.entries(counts)) if (count > 0) seen.add(word);
        const data = await store.findAccountData({ accountId, revokedMax: 0 });
        assert.deepEqual(data?.taskCounts, statesOf(counts));
      }
    });
    await fc.assert(property, { numRuns: 60, seed: 2 });

    assert.deepEqual(undone, ALL_REASONS);
    assert.deepEqual([...seen].sort(), Object.keys(NOTHING).sort());
    const before = await Promise.all(accounts.map((id) => store.countWork(id)));
    assert.deepEqual(await store.countWork(null), sumOf(before));
    await store.close();
    const reopened = await again();
    assert.deepEqual(await Promise.all(accounts.map((id) => reopened.countWork(id))), before);
    await giveUpAll(reopened);
    while ((await reopened.eraseExpired({ now: T0 + 9 * RETENTION_MS, max: 100 })).looked > 0)
      continue;
    const { ready, retrying, undelivered, bytes } = await reopened.countWork(null);
    assert.deepEqual([ready, retrying, undelivered], [0, 0, 0]);
    const after = { ...world, store: reopened };
    const left = sumOf(await Promise.all(accounts.map((id) => recount(after, id))));
    assert.equal(bytes, left.bytes);
  });
}

/** As clients see them: a delayed task is queued. */
function statesOf(counts: WorkCounts): Partial<WorkCounts> {
  const states = Object.fromEntries(STATES.map((state) => [state, counts[state]]));
  return { ...states, queued: counts.queued + counts.delayed };
}

/** The same, counted one by one. */
async function recount({ store, ids }: World, accountId: number): Promise<WorkCounts> {
  const counted = STATES.map(async (state) => {
    const { tasks, next } = await store.listTasks(
      taskQuery(accountId, { states: [state], limit: 10_000 }),
    );
    assert.equal(next, null);
    return [state, tasks.length] as const;
  });
  const delayed = await store.searchTasks(
    taskQuery(accountId, { states: ["delayed"], limit: 10_000 }),
  );
  assert.equal(delayed.next, null);
  const { tasks } = await store.listReady(taskQuery(accountId, { limit: 10_000 }));
  let retrying = 0;
  let undelivered = 0;
  let otherBytes = 0;
  const found = ids
    .filter((each) => each.accountId === accountId)
    .map(async (key) => {
      const answer = { accountId, key: idempotencyKeyOf(key), steadyAt: T0 };
      return Promise.all([store.findKeptAnswer(answer), store.listDeliveries(key)]);
    });
  for (const [kept, deliveries] of await Promise.all(found)) {
    if (kept !== null) otherBytes += ANSWER_OVERHEAD_BYTES + kept.answerText.length;
    for (const { state, attempts } of deliveries ?? []) {
      const isOpen = state === "scheduled" || state === "in_flight";
      if (isOpen && retryOf(attempts, attempts.length - 1) > 0) retrying++;
      if (state === "given_up" || state === "refused") undelivered++;
      for (const attempt of attempts) otherBytes += sizeOfAttempt(attempt);
    }
  }
  const states: Partial<WorkCounts> = Object.fromEntries(await Promise.all(counted));
  const all = await store.listTasks(taskQuery(accountId, { limit: 10_000 }));
  const sizes = all.tasks.map(async ({ id }) => sizeOf(await store.findTask({ accountId, id })));
  return {
    ...NOTHING,
    ...states,
    queued: (states.queued ?? 0) - delayed.tasks.length,
    delayed: delayed.tasks.length,
    ready: tasks.length,
    retrying,
    undelivered,
    bytes: (await Promise.all(sizes)).reduce((sum, size) => sum + size, otherBytes),
  };
}

function sizeOf(found: FoundTask | null): number {
  assert(found !== null);
  const { dataText, inputText, resultText, errorText } = found.task;
  const texts = [dataText, inputText ?? "", resultText ?? "", errorText ?? ""];
  return TASK_OVERHEAD_BYTES + Buffer.byteLength(texts.join(""));
}

function sizeOfAttempt({ endedAt, error, responseExcerpt, refusal, retryAfter }: Attempt): number {
  if (endedAt === null) return 0;
  const refusalText = refusal === null ? "" : JSON.stringify(refusal);
  const texts = [error ?? "", responseExcerpt ?? "", refusalText, retryAfter ?? ""];
  return ATTEMPT_OVERHEAD_BYTES + Buffer.byteLength(texts.join(""));
}

/** How many retries of its series an attempt had used up when it started: interrupted ones use none. */
export function retryOf(attempts: readonly Attempt[], place: number): number {
  const series = attempts.slice(0, place + 1);
  const first = series.findLastIndex(({ number }) => number === 1);
  return series.slice(first, place).filter(({ outcome }) => outcome !== "interrupted").length;
}

function sumOf(counts: readonly WorkCounts[]): WorkCounts {
  const words = Object.keys(NOTHING) as (keyof WorkCounts)[];
  return Object.fromEntries(
    words.map((word) => [word, counts.reduce((sum, each) => sum + each[word], 0)]),
  ) as unknown as WorkCounts;
}
