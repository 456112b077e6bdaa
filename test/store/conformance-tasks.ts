import assert from "node:assert/strict";
import { test } from "node:test";

import { entityTag } from "../../src/domain/id.ts";
import { taskEnvelope } from "../../src/domain/task/envelope.ts";
import type { NewTask, RefusedTask } from "../../src/domain/task/task.ts";
import type { FoundTask, Store } from "../../src/store/store.ts";
import {
  RETENTION_MS,
  T0,
  claimAttempt,
  claimOne,
  newFinish,
  newPost,
  newRefusedTask,
  newTask,
  newTaskId,
  pluck,
  postTask,
  retainedUntil,
  seedFinished,
  taskQuery,
  webhook,
  withAccount,
  withAccounts,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

/** The response of a task. */
function envelopeOf({ task, envelope }: FoundTask): string {
  return envelope === undefined ? taskEnvelope(task) : Buffer.from(envelope.bytes).toString();
}

const LARGE = JSON.stringify("x".repeat(70_000));

export function exercisePosting(open: OpenStore): void {
  test("a post stores its accepted and its refused tasks", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const accepted = newTask({ inputText: `{"n":1}`, dataText: `{"type":"echo","tag":"a"}` });
    const { dataText, message, errorText, ...refused } = newRefusedTask({ inputText: `"x"` });
    const [bare, broken] = [newRefusedTask({ type: null }), newRefusedTask({ type: "a\0b" })];
    const all = [{ ...refused, dataText, message, errorText, tag: "b" }, bare, broken];
    const expiry = { refusedUntil: retainedUntil(T0 + 77) };

    await store.insertTasks(newPost(accountId, [accepted], { refused: all, ...expiry }));

    const common = { createdAt: T0, startedAt: null, runs: 0, resultText: null, type: "echo" };
    assert.deepEqual(await store.findTask({ accountId, id: accepted.id }), {
      isReady: false,
      task: {
        ...{ ...common, id: accepted.id, state: "queued", statusCode: 40602, statusMessage: null },
        ...{ completedAt: null, expiresAt: null, errorText: null },
        ...{ dataText: accepted.dataText, inputText: `{"n":1}` },
      },
    });
    assert.deepEqual(await store.findTask({ accountId, id: refused.id }), {
      isReady: false,
      task: {
        ...{
          ...common,
          id: refused.id,
          state: "failed",
          statusCode: 40506,
          statusMessage: message,
        },
        ...{ completedAt: T0, expiresAt: T0 + 77, dataText, inputText: `"x"`, errorText },
      },
    });
    const found = async ({ id }: NewTask | RefusedTask) =>
      (await store.findTask({ accountId, id }))?.task;
    assert.deepEqual(pluck([(await found(bare)) ?? assert.fail()], "type", "inputText"), [
      [null, null],
    ]);
    // PostgreSQL has no NUL in texts.
    assert.match((await found(broken))?.type ?? "", /^a[\0\x1a]b$/);
  });

  test("a refused task is never run, ready or delivered", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const refused = newRefusedTask({ tag: "a" });
    await store.insertTasks(newPost(accountId, [], { refused: [refused] }));
    assert.deepEqual(await store.claimTasks({ type: "echo", max: 10, now: T0 }), []);
    for (const filter of [{}, { tag: "a" }, { type: "echo" }, { tag: "a", type: "echo" }]) {
      assert.deepEqual((await store.listReady(taskQuery(accountId, filter))).tasks, []);
    }
    assert.deepEqual(await store.listDeliveries({ accountId, id: refused.id }), []);
  });

  test("a task of another account is unknown, also a large one", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    for (const inputText of ["1", LARGE]) {
      const { id } = await postTask(store, ada, { inputText });
      assert.equal(await store.findTask({ accountId: bob, id }), null);
      assert.equal(await store.findTask({ accountId: ada, id: newTaskId() }), null);
      assert.equal(await store.listDeliveries({ accountId: bob, id }), null);
      assert.equal((await store.findTask({ accountId: ada, id }))?.task.id, id);
    }
  });

  const texts = {
    "a megabyte": JSON.stringify("x".repeat(1_000_000)),
    "characters beyond the basic plane": `"\u{1F600} \u00e4\u00f6 \u4e2d \u202e"`,
    "an escaped NUL": String.raw`"a\u0000b"`,
    "escaped lone surrogates": String.raw`{"\udead":"\ud800 \uDBFF"}`,
    "digits that a double would lose": `[1.0,12345678901234567890,1E400,-0]`,
    "JSON null": "null",
  };
  test("inputs, results, errors and data stay the same to the byte", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    for (const [what, text] of Object.entries(texts)) {
      const dataText = `{"x":${text}}`;
      const { id } = await postTask(store, accountId, { inputText: text, dataText });
      const claimed = await claimOne(store);
      await store.finishTask(newFinish(claimed, { resultText: text, errorText: text }));

      const found = await store.findTask({ accountId, id });
      assert(found !== null);
      const whole = { inputText: text, resultText: text, errorText: text, dataText };
      // Compared here: a failed assertion would print a megabyte.
      assert(claimed.inputText === text, what);
      assert(envelopeOf(found) === taskEnvelope({ ...found.task, ...whole }), what);
    }
  });

  test("a task over 64 KiB is found as the bytes of its envelope, with the same content", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const [inputText, dataText, errorText] = ["1", `{"tag":"\u00e4"}`, "2"];
    const start = '"\u00e4\u4e2d\u{1f600}';
    const others = Buffer.byteLength(`${inputText}${dataText}${errorText}${start}"`);
    for (const bytes of [64 * 1024, 64 * 1024 + 1]) {
      const resultText = `${start}${"x".repeat(bytes - others)}"`;
      const { id } = await postTask(store, accountId, { inputText, dataText });
      await store.finishTask(newFinish(await claimOne(store), { resultText, errorText }));

      const found = await store.findTask({ accountId, id });

      assert(found !== null);
      const whole = taskEnvelope({ ...found.task, inputText, dataText, resultText, errorText });
      assert(envelopeOf(found) === whole);
      const tag = bytes > 64 * 1024 ? entityTag(whole) : undefined;
      assert.deepEqual([found.envelope?.tag, found.isReady], [tag, true]);
    }
  });

  test("a large task shows the progress of its run", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const { id, dataText } = await postTask(store, accountId, { inputText: LARGE });
    await claimOne(store);
    const progress = { progress: 0.5, note: "halfway" };
    const found = await store.findTask({ accountId, id, progress });
    assert(found?.envelope !== undefined);
    const whole = taskEnvelope({ ...found.task, inputText: LARGE, dataText }, progress);
    assert(envelopeOf(found) === whole);
    assert.match(whole, /"note":"halfway"/);
  });

  test("a full backlog refuses posts and accepts the work of the engine", async (t) => {
    const { store, accountId } = await withAccount(open(t, { backlogMax: 2 }));
    const [first, second, late] = [newTask(), newTask(), newTask()];
    const isStored = async () => (await store.findTask({ accountId, id: late.id })) !== null;
    const accepted = store.insertTasks(newPost(accountId, [first, second]));
    const shed = store.insertTasks(newPost(accountId, [late]));
    const claimed = store.claimTasks({ type: "echo", max: 10, now: T0 });
    await assert.rejects(shed, { name: "StoreError", kind: "overloaded", isPassing: true });
    await accepted;
    assert.equal((await claimed).length, 2);
    assert.deepEqual([await isStored(), store.fault()], [false, null]);
    await store.insertTasks(newPost(accountId, [late]));
    assert(await isStored());
  });
}

export function exerciseReady(open: OpenStore): void {
  test("ready tasks are listed by completion, completed and failed tasks together", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    await store.insertTasks(newPost(accountId, [newTask(), newTask(), newTask()]));
    const [a, b, c] = await store.claimTasks({ type: "echo", max: 3, now: T0 });
    assert(a !== undefined && b !== undefined && c !== undefined);

    await store.finishTask(newFinish(a, { endedAt: T0 + 3000 }));
    await store.finishTask(newFinish(c, { endedAt: T0 + 1000 }));
    const failure = { state: "failed", code: 50010, errorText: `{"message":"x"}` } as const;
    await store.finishTask(newFinish(b, { ...failure, endedAt: T0 + 2000 }));

    const { tasks, next } = await store.listReady(taskQuery(accountId));
    assert.deepEqual([pluck(tasks, "id"), next], [[c.id, b.id, a.id], null]);
    assert.deepEqual(tasks[1], {
      ...{ id: b.id, state: "failed", statusCode: 50010, statusMessage: null, type: "echo" },
      ...{ createdAt: T0, startedAt: T0, completedAt: T0 + 2000, runs: 1 },
      ...{ expiresAt: T0 + 2000 + RETENTION_MS, dataText: `{"type":"echo"}` },
    });
  });

  test("a task that its account collected is never ready again", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    const [task, kept] = [newTask(), newTask()];
    await seedFinished(store, ada, { tasks: [task, kept] });
    const ready = async (accountId: number) =>
      pluck((await store.listReady(taskQuery(accountId))).tasks, "id");

    for (const [accountId, isReady] of [
      [bob, true],
      [ada, false],
      [ada, false],
    ] as const) {
      await store.collectTask({ accountId, id: task.id });
      assert.equal((await store.findTask({ accountId: ada, id: task.id }))?.isReady, isReady);
    }
    await store.collectTask({ accountId: ada, id: newTaskId() });
    assert.deepEqual([await ready(ada), await ready(bob)], [[kept.id], []]);
  });

  test("a collect before the end of a task has no effect", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const { id } = await postTask(store, accountId);
    await store.collectTask({ accountId, id });
    const claimed = await claimOne(store);
    await store.collectTask({ accountId, id });
    await store.finishTask(newFinish(claimed));
    assert.equal((await store.findTask({ accountId, id }))?.isReady, true);
  });

  // Three tasks complete at one time, in another order than they were posted; one last page is full.
  test("pages of ready tasks have each task once, also tasks of one completion time", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const waits = [4000, 2000, 3000, 2000, 1000, 2000];
    const tasks = waits.map(() => newTask());
    await store.insertTasks(newPost(accountId, tasks));
    const claimed = await store.claimTasks({ type: "echo", max: 10, now: T0 });
    const ends = claimed.map((task, i) => newFinish(task, { endedAt: T0 + (waits[i] ?? 0) }));
    for (const end of ends.toReversed()) await store.finishTask(end);
    const expected = [4, 1, 3, 5, 2, 0].map((place) => claimed[place]?.id);
    for (const limit of [1, 2, 3, 5, 6, 7]) {
      const { ids, pages } = await readAll(store, taskQuery(accountId, { limit }));
      assert.deepEqual([ids, pages], [expected, Math.ceil(expected.length / limit)]);
    }
  });

  test("a page continues after its cursor when tasks finish and are collected between pages", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const [a, b, c, d] = [newTask(), newTask(), newTask(), newTask()];
    await seedFinished(store, accountId, { tasks: [a, b, c] });
    const first = await store.listReady(taskQuery(accountId, { limit: 2 }));
    for (const { id } of [a, b]) await store.collectTask({ accountId, id });
    await seedFinished(store, accountId, { tasks: [d], endedAt: T0 + 5000 });
    const second = await store.listReady(taskQuery(accountId, { limit: 2, after: first.next }));
    assert.deepEqual([pluck(second.tasks, "id"), second.next], [pluck([c, d], "id"), null]);
  });

  test("ready tasks are filtered by tag, by type and by both", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    const kinds = ["echo x", "hash x", "echo y", "echo", "hash y", "echo x"];
    const tasks = kinds.map((kind) => {
      const [type = "", tag = null] = kind.split(" ");
      return newTask({ type, tag });
    });
    await seedFinished(store, ada, { tasks });
    await seedFinished(store, bob, { tasks: [newTask({ tag: "x" })] });

    for (const [filter, places] of [
      [{ tag: "x" }, [0, 1, 5]],
      [{ type: "echo" }, [0, 2, 3, 5]],
      [{ tag: "x", type: "echo" }, [0, 5]],
      [{ tag: "X" }, []],
      [{ tag: "" }, []],
      [{ type: "none" }, []],
    ] as const) {
      const { ids } = await readAll(store, taskQuery(ada, { limit: 2, ...filter }));
      const expected = places.map((place) => tasks[place]?.id);
      assert.deepEqual(ids, expected, JSON.stringify(filter));
    }
  });
}

async function readAll(
  store: Store,
  query: Parameters<Store["listReady"]>[0],
): Promise<{ readonly ids: readonly string[]; readonly pages: number }> {
  const ids: string[] = [];
  let { after } = query;
  for (let pages = 1; ; pages++) {
    const page = await store.listReady({ ...query, after });
    ids.push(...pluck(page.tasks, "id"));
    if (page.next === null) return { ids, pages };
    after = page.next;
  }
}

export function exerciseRunning(open: OpenStore): void {
  test("a claim returns the fields for a runner, counts the run, and the task is running", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const fields = { type: "hash", tag: "t", marketplace: "us", inputText: "[1]" };
    const { id } = await postTask(store, accountId, fields);
    await postTask(store, accountId);
    const [claimed, ...others] = await store.claimTasks({ type: "hash", max: 5, now: T0 + 5 });
    const counted = { queuedAt: T0, traceText: null, runs: 1, failures: 0 };
    assert.deepEqual(claimed, { seq: claimed?.seq, id, accountId, ...fields, ...counted });
    assert.deepEqual(others, []);
    const found = (await store.findTask({ accountId, id }))?.task;
    const { state, statusCode, startedAt, runs } = found ?? assert.fail();
    assert.deepEqual([state, statusCode, startedAt, runs], ["running", 40601, T0 + 5, 1]);
  });

  test("a delayed task starts after it was released into the queue", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const startAt = T0 + 60_000;
    const { id } = await postTask(store, accountId, { startAt });
    const claim = async () =>
      (await store.claimTasks({ type: "echo", max: 5, now: startAt + 1 })).length;
    const release = (now: number) => store.releaseDelayed({ now, max: 10 });
    assert.equal((await store.findTask({ accountId, id }))?.task.state, "queued");
    assert.deepEqual([await claim(), await release(startAt - 1), await claim()], [0, 0, 0]);
    assert.deepEqual([await release(startAt), await release(startAt), await claim()], [1, 0, 1]);
  });

  test("the earliest delayed tasks are released, up to the limit", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const tasks = [3, 1, 2].map((seconds) => newTask({ startAt: T0 + seconds * 1000 }));
    await store.insertTasks(newPost(accountId, tasks));
    assert.equal(await store.releaseDelayed({ now: T0 + 5000, max: 2 }), 2);
    const claimed = await store.claimTasks({ type: "echo", max: 5, now: T0 + 5000 });
    assert.deepEqual(pluck(claimed, "id"), [tasks[1]?.id, tasks[2]?.id]);
    assert.equal(await store.releaseDelayed({ now: T0 + 5000, max: 2 }), 1);
  });

  test("the end of a run is recorded", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    for (const end of [
      { state: "completed", code: 20000, resultText: `{"a":1}`, errorText: null },
      { state: "failed", code: 50010, resultText: null, errorText: `{"message":"m"}` },
      { state: "failed", code: 50401, resultText: null, errorText: `{"message":"t"}` },
    ] as const) {
      const { id } = await postTask(store, accountId);
      const times = { endedAt: T0 + 9, expiresAt: T0 + 99 };
      await store.finishTask(newFinish(await claimOne(store), { ...end, ...times }));

      const found = await store.findTask({ accountId, id });
      const { state, statusCode: code, resultText, errorText } = found?.task ?? assert.fail();
      assert.deepEqual({ state, code, resultText, errorText }, end);
      const { completedAt, expiresAt } = found?.task ?? assert.fail();
      assert.deepEqual([found?.isReady, completedAt, expiresAt], [true, T0 + 9, T0 + 99]);
    }
  });

  test("an end, a retry and a requeue of a task that is not running have no effect", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const { id } = await postTask(store, accountId, { postback: webhook("a.example") });
    const read = async () => [
      await store.findTask({ accountId, id }),
      await store.listDeliveries({ accountId, id }),
      await store.listLanes({ accountId: "all" }),
    ];
    const { seq } = await claimOne(store);
    await store.requeueTasks({ seq });
    const assertNoEffect = async (): Promise<void> => {
      const before = await read();
      const late = { resultText: `"late"`, endedAt: T0 + 5000 };
      assert.equal(await store.finishTask(newFinish({ seq }, late)), null);
      await store.retryTask({ seq, startAt: T0 + 5000 });
      assert.equal(await store.requeueTasks({ seq }), 0);
      assert.equal(await store.requeueTasks({ of: "earlier life" }), 0);
      assert.deepEqual(await read(), before);
    };

    await assertNoEffect();
    const lanes = await store.finishTask(newFinish(await claimOne(store)));
    assert.deepEqual(lanes, [{ accountId, host: "a.example" }]);
    await assertNoEffect();
  });

  test("the first attempt of each webhook is due at the end of the run", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const webhooks = { postback: webhook("b.example", "/p"), pingback: webhook("a.example", "/g") };
    const { id } = await postTask(store, accountId, webhooks);
    const claimed = await claimOne(store);
    assert.deepEqual(await store.listLanes({ accountId: "all" }), []);
    assert.deepEqual(await store.listDeliveries({ accountId, id }), []);

    const lanes = await store.finishTask(newFinish(claimed, { endedAt: T0 + 7000 }));

    assert.deepEqual(pluck(lanes, "host").toSorted(), ["a.example", "b.example"]);
    assert.deepEqual(new Set(pluck(lanes, "accountId")), new Set([accountId]));
    const deliveries = await store.listDeliveries({ accountId, id });
    assert.deepEqual(pluck(deliveries, "kind", "url", "state", "attempts"), [
      ["pingback", "https://a.example/g", "scheduled", [FIRST]],
      ["postback", "https://b.example/p", "scheduled", [FIRST]],
    ]);
  });

  test("two webhooks of a task to one host have one lane", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const hook = webhook("a.example");
    await postTask(store, accountId, { postback: hook, pingback: hook });
    const lanes = await store.finishTask(newFinish(await claimOne(store)));
    assert.deepEqual([...new Set(pluck(lanes, "host"))], ["a.example"]);
    assert.deepEqual(await store.listLanes({ accountId: "all" }), [
      { accountId, host: "a.example", freshDueAt: T0 + 1000, retryDueAt: null },
    ]);
  });

  test("the trace of a post belongs to the runs and the webhooks of its tasks", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const traceText = '{"traceparent":"00-x","tracestate":null}';
    const task = newTask({ postback: webhook("a.example") });
    await store.insertTasks(newPost(accountId, [task], { traceText }));

    const claimed = await claimOne(store);
    await store.finishTask(newFinish(claimed));

    const timeline = await store.findTimeline({ id: task.id, scope: null });
    const found = await store.findTaskDeliveries(task.id);
    const all = [claimed, await claimAttempt(store), found, timeline];
    assert.deepEqual(
      all.map((each) => each?.traceText),
      all.map(() => traceText),
    );
  });

  test("a claim has the time at which each task could start", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const tasks = [newTask(), newTask({ startAt: T0 + 500 }), newTask({ startAt: T0 - 500 })];
    await store.insertTasks(newPost(accountId, tasks));
    await store.releaseDelayed({ now: T0 + 500, max: 10 });
    const claimed = await store.claimTasks({ type: "echo", max: 3, now: T0 + 700 });
    const retried = claimed[0] ?? assert.fail();
    await store.retryTask({ seq: retried.seq, startAt: T0 + 900 });
    await store.releaseDelayed({ now: T0 + 900, max: 10 });
    const again = await claimOne(store);
    const times = tasks.map(({ id }) => claimed.find((task) => task.id === id)?.queuedAt);
    assert.deepEqual([times, again.queuedAt], [[T0, T0 + 500, T0], T0 + 900]);
  });

  test("a retry queues the task for its time and counts the failure", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const { id } = await postTask(store, accountId, { inputText: "7" });
    const { seq } = await claimOne(store);
    await store.retryTask({ seq, startAt: T0 + 1000 });
    const waiting = (await store.findTask({ accountId, id }))?.task;
    const { state, statusCode, startedAt, runs } = waiting ?? assert.fail();
    assert.deepEqual([state, statusCode, startedAt, runs], ["queued", 40602, null, 1]);
    assert.deepEqual(await store.claimTasks({ type: "echo", max: 5, now: T0 + 999 }), []);
    await store.releaseDelayed({ now: T0 + 1000, max: 5 });
    const again = await claimOne(store);
    assert.deepEqual([again.failures, again.inputText, again.runs], [1, "7", 2]);
  });

  test("the end of a claim has no effect after the task was requeued and claimed again", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const { id } = await postTask(store, accountId);
    const { seq, runs: run } = await claimOne(store);
    await store.requeueTasks({ seq });
    const later = await claimOne(store);
    const state = async () => (await store.findTask({ accountId, id }))?.task.state;

    assert.equal(await store.finishTask({ ...newFinish({ seq }), id, run }), null);
    await store.retryTask({ seq, id, run, startAt: T0 });
    await store.releaseTask({ seq, id, run });
    assert.deepEqual([await store.requeueTasks({ seq, id, run }), await state()], [0, "running"]);

    await store.finishTask({ ...newFinish(later), id, run: later.runs });
    assert.equal(await state(), "completed");
  });

  test("one running task or all of them are requeued, with their runs and without a failure", async (t) => {
    const { store: first, again: reopen, accountId } = await withAccount(open(t));
    const tasks = [newTask(), newTask({ priority: 3 }), newTask()];
    await first.insertTasks(newPost(accountId, tasks));
    const claimed = await first.claimTasks({ type: "echo", max: 5, now: T0 });
    const second = claimed.find(({ id }) => id === tasks[2]?.id) ?? assert.fail();

    assert.equal(await first.requeueTasks({ seq: second.seq }), 1);
    await first.close();
    const store = await reopen();
    if (!store.cluster.isShared) assert.equal(await store.requeueTasks({ of: "ended nodes" }), 0);
    assert.equal(await store.requeueTasks({ of: "earlier life" }), 2);
    assert.equal(await store.requeueTasks({ of: "earlier life" }), 0);

    const shown = (await store.findTask({ accountId, id: second.id }))?.task;
    const { state, statusCode, startedAt } = shown ?? assert.fail();
    assert.deepEqual([state, statusCode, startedAt], ["queued", 40602, null]);
    const again = await store.claimTasks({ type: "echo", max: 5, now: T0 + 1 });
    assert.deepEqual(
      pluck(again, "id", "failures", "runs"),
      [tasks[1], tasks[0], tasks[2]].map((task) => [task?.id, 0, 2]),
    );
  });
}

/** The first attempt of a webhook whose task ended seven seconds after {@link T0}. */
const FIRST = {
  ...{ number: 1, dueAt: T0 + 7000, startedAt: null, endedAt: null, outcome: null },
  ...{ httpStatus: null, error: null, address: null, responseExcerpt: null, refusal: null },
  phases: { dnsMs: null, connectMs: null, tlsMs: null, firstByteMs: null },
  retryAfter: null,
} as const;
