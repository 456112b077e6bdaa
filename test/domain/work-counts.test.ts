import assert from "node:assert/strict";
import { test } from "node:test";

import type { EndedAttempt, TasksChange } from "../../src/domain/stats/traffic-tally.ts";
import {
  CountTally,
  type CountWriter,
  HostTally,
  type WorkChanges,
  countAttempt,
  countCancelled,
  countClaimed,
  countCollected,
  countFinished,
  countNewSeries,
  countPost,
  toWorkCounts,
} from "../../src/domain/stats/work-counts.ts";
import type { NewTask } from "../../src/domain/task/task.ts";
import { type DeliveryDecision, isUndelivered } from "../../src/domain/webhook/delivery.ts";

const NOW = 1_900_000_000_000;
const ACCOUNT = { accountId: 7 };

/** Records the changes. */
function recorded(change: (changes: WorkChanges) => void) {
  const counts: Record<string, number> = {};
  const tasks: TasksChange[] = [];
  const attempts: EndedAttempt[] = [];
  const add = (accountId: number, word: string, count: number): void => {
    assert.equal(accountId, ACCOUNT.accountId);
    if (count !== 0) counts[word] = (counts[word] ?? 0) + count;
  };
  const countChanges: WorkChanges["counts"] = {
    add,
    move(accountId, from, to) {
      add(accountId, from, -1);
      add(accountId, to, 1);
    },
  };
  change({
    counts: countChanges,
    hosts: new HostTally(countChanges),
    traffic: {
      addTasks: (change) => void tasks.push(change),
      addAttempt: (record) => void attempts.push(record),
    },
  });
  return { counts, tasks, attempts };
}

function newTask(fields: Partial<NewTask> = {}): NewTask {
  const texts = { dataText: "{}", inputText: null };
  const hooks = { postback: null, pingback: null };
  const words = { id: "t", type: "echo", tag: null, marketplace: null };
  return { ...words, priority: 0, startAt: null, ...hooks, ...texts, ...fields };
}

const HOOK = { url: "https://a.example/", host: "a.example" };

test("a post counts each task by its first state, and all tasks as posted", () => {
  const accepted = [
    newTask(),
    newTask({ startAt: NOW }),
    newTask({ startAt: NOW + 1 }),
    newTask({ pingback: HOOK }),
  ];
  const of = { accountId: ACCOUNT.accountId, createdAt: NOW, accepted };
  const post = { ...of, started: 1, refused: [{}, {}] };

  assert.deepEqual(
    recorded((changes) => countPost(changes, post, 90)),
    {
      counts: { queued: 2, running: 1, delayed: 1, failed: 2, bytes: 90 },
      tasks: [{ ...ACCOUNT, at: NOW, posted: 6, failed: 2 }],
      attempts: [],
    },
  );
});

test("a finished task is ready and counts its bytes, in the minute of its end", () => {
  for (const from of ["running", "queued"] as const) {
    for (const state of ["completed", "failed"] as const) {
      const end = { ...ACCOUNT, from, state, endedAt: NOW, bytes: 12 };

      const { counts, tasks } = recorded((changes) => countFinished(changes, end));

      assert.deepEqual(counts, { [from]: -1, [state]: 1, ready: 1, bytes: 12 });
      assert.deepEqual(tasks, [{ ...ACCOUNT, at: NOW, [state]: 1 }]);
    }
  }
});

test("a cancelled task is not ready", () => {
  for (const from of ["delayed", "queued", "running"] as const) {
    const { counts, tasks } = recorded((changes) =>
      countCancelled(changes, { ...ACCOUNT, from, cancelledAt: NOW }),
    );

    assert.deepEqual(counts, { [from]: -1, cancelled: 1 });
    assert.deepEqual(tasks, [{ ...ACCOUNT, at: NOW, cancelled: 1 }]);
  }
});

test("claims and collects change counts, and are not traffic", () => {
  const claimed = recorded((changes) => countClaimed(changes, { ...ACCOUNT, tasks: 3 }));
  const collected = recorded((changes) => countCollected(changes, ACCOUNT.accountId));

  assert.deepEqual(claimed.counts, { queued: -3, running: 3 });
  assert.deepEqual(collected.counts, { ready: -1 });
  for (const { tasks } of [claimed, collected]) assert.deepEqual(tasks, []);
});

function scheduled(retry: number): DeliveryDecision {
  return { state: "scheduled", dueAt: NOW, retry };
}

const ATTEMPTS: readonly (readonly [number, DeliveryDecision, object])[] = [
  [0, { state: "delivered" }, {}],
  [0, scheduled(0), {}],
  [0, scheduled(1), { retrying: 1 }],
  [1, scheduled(1), {}],
  [1, scheduled(2), {}],
  [2, { state: "delivered" }, { retrying: -1 }],
  [3, { state: "given_up" }, { retrying: -1, undelivered: 1 }],
  [0, { state: "given_up" }, { undelivered: 1 }],
  [0, { state: "refused" }, { undelivered: 1 }],
];

test("an attempt changes the counts by its retry and by the decision after it", () => {
  for (const [retry, decision, counts] of ATTEMPTS) {
    const attempt = { accountId: 7, taskSeq: 1, host: "a.example", retry, startedAt: NOW };
    const result = { outcome: "failed", error: null, httpStatus: null } as const;
    const record = { attempt, result, endedAt: NOW, decision };

    const all = recorded((changes) => countAttempt(changes, record, 200));

    assert.deepEqual(all, { counts: { bytes: 200, ...counts }, tasks: [], attempts: [record] });
  }
});

test("a new series of an undelivered delivery lowers the undelivered count", () => {
  for (const state of ["delivered", "given_up", "refused"] as const) {
    const { counts } = recorded((changes) =>
      countNewSeries(changes, { ...ACCOUNT, host: "a.example", state }),
    );
    assert.deepEqual(counts, isUndelivered(state) ? { undelivered: -1 } : {});
  }
});

function written(tally: CountTally, changed = new Set<number>()): readonly unknown[] {
  const all: unknown[] = [];
  const writer: CountWriter = {
    add: (accountId, word, count) => void all.push([accountId, word, count]),
  };
  tally.write(writer, changed);
  return all;
}

test("a batch's changes are written once, summed, without undone changes and zeros", () => {
  const tally = new CountTally();
  tally.add(3, "ready", 1);
  tally.reset();
  tally.move(1, "queued", "running");
  tally.move(1, "queued", "running");
  tally.add(2, "ready", 1);
  tally.add(2, "ready", -1);

  const changed = new Set<number>();
  assert.deepEqual(written(tally, changed), [
    [1, "queued", -2],
    [1, "running", 2],
  ]);
  assert.deepEqual([...changed], [1, 2]);
  assert.deepEqual(written(tally), []);
});

test("an account's usage includes the bytes and open tasks of its batch", () => {
  const tally = new CountTally();
  const before = { bytes: 100, openTasks: 4 };
  tally.add(1, "queued", 2);
  tally.add(1, "delayed", 1);
  tally.add(1, "bytes", 50);
  tally.move(1, "running", "completed");
  tally.add(1, "ready", 1);

  assert.deepEqual(tally.usageAfter(1, before), { bytes: 150, openTasks: 6 });
  assert.deepEqual(tally.usageAfter(2, before), before);
});

test("a missing count is 0, and an unknown count is ignored", () => {
  const counts = toWorkCounts([
    { word: "queued", count: 3 },
    { word: "ever_webhook", count: 1 },
  ]);

  assert.equal(counts.queued, 3);
  assert.equal(counts.bytes, 0);
  assert(!("ever_webhook" in counts));
});

function writtenHosts(tally: HostTally): readonly unknown[] {
  const all: unknown[] = [];
  tally.write((accountId, host, sums) => void all.push([accountId, host, { ...sums }]));
  return all;
}

test("a host's changes are written once for a batch, summed, without undone changes and zeros", () => {
  const tally = new HostTally(new CountTally());
  const to = { accountId: 1, host: "a.example" };
  tally.add({ accountId: 3, host: "undone.example", word: "given_up", count: 1 });
  tally.reset();
  tally.add({ ...to, word: "retrying", count: 1 });
  tally.add({ ...to, word: "retrying", count: -1 });
  tally.add({ ...to, word: "given_up", count: 1 });
  tally.add({ accountId: 2, host: "a.example", word: "refused", count: -3 });
  tally.add({ accountId: 1, host: "nothing.example", word: "given_up", count: 1 });
  tally.add({ accountId: 1, host: "nothing.example", word: "given_up", count: -1 });

  assert.deepEqual(writtenHosts(tally), [
    [1, "a.example", { given_up: 1, refused: 0, retrying: 0 }],
    [2, "a.example", { given_up: 0, refused: -3, retrying: 0 }],
  ]);
  assert.deepEqual(writtenHosts(tally), []);
});
