import assert from "node:assert/strict";
import { test } from "node:test";

import { entityTag } from "../../src/domain/id.ts";
import { taskEnvelope } from "../../src/domain/task/envelope.ts";
import type { FoundTask, Store } from "../../src/store/store.ts";
import {
  claimAttempt,
  claimOne,
  newFinish,
  newPost,
  newRefusedTask,
  newTask,
  newTaskId,
  taskQuery,
  retainedUntil,
  RETENTION_MS,
  seedAccount,
  seedFinished,
  T0,
  webhook,
  pluck,
  withAccount,
  withAccounts,
  postTask,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

/** What a client is answered of a task. */
function envelopeOf({ task, envelope }: FoundTask): string {
  return envelope === undefined ? taskEnvelope(task) : Buffer.from(envelope.bytes).toString();
}

/** The part of the conformance suite that is about taking tasks in and reading them. */
export function exercisePosting(open: OpenStore): void {
  test("takes in accepted and refused tasks of one post", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const accepted = newTask({ inputText: `{"n":1}`, dataText: `{"type":"echo","tag":"a"}` });
    const refused = newRefusedTask({ inputText: `"x"`, tag: "b" });
    const expiry = { refusedUntil: retainedUntil(T0 + 77) };

    await store.insertTasks(newPost(accountId, [accepted], { refused: [refused], ...expiry }));

    const common = { createdAt: T0, startedAt: null, runs: 0, resultText: null };
    assert.deepEqual(await store.findTask({ accountId, id: accepted.id }), {
      isReady: false,
      task: {
        ...common,
        id: accepted.id,
        state: "queued",
        statusCode: 40602,
        statusMessage: null,
        type: "echo",
        completedAt: null,
        expiresAt: null,
        dataText: accepted.dataText,
        inputText: `{"n":1}`,
        errorText: null,
      },
    });
    assert.deepEqual(await store.findTask({ accountId, id: refused.id }), {
      isReady: false,
      task: {
        ...common,
        id: refused.id,
        state: "failed",
        statusCode: 40506,
        statusMessage: refused.message,
        type: "echo",
        completedAt: T0,
        expiresAt: T0 + 77,
        dataText: refused.dataText,
        inputText: `"x"`,
        errorText: refused.errorText,
      },
    });
  });

  test("never runs a refused task, and never shows it as ready", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const refused = newRefusedTask({ tag: "a" });
    await store.insertTasks(newPost(accountId, [], { refused: [refused] }));

    assert.deepEqual(await store.claimTasks({ type: "echo", max: 10, now: T0 }), []);
    for (const filter of [{}, { tag: "a" }, { type: "echo" }, { tag: "a", type: "echo" }]) {
      assert.deepEqual((await store.listReady(taskQuery(accountId, filter))).tasks, []);
    }
    assert.deepEqual(await store.listDeliveries({ accountId, id: refused.id }), []);
  });

  test("answers null for another account's task as for an unknown one", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    const task = await postTask(store, ada);

    assert.equal(await store.findTask({ accountId: bob, id: task.id }), null);
    assert.equal(await store.findTask({ accountId: ada, id: newTaskId() }), null);
    assert.equal(await store.listDeliveries({ accountId: bob, id: task.id }), null);
    assert.equal((await store.findTask({ accountId: ada, id: task.id }))?.task.id, task.id);
  });

  const texts = [
    ["a megabyte", JSON.stringify("x".repeat(1_000_000))],
    ["characters beyond the basic plane", `"\u{1F600} \u00e4\u00f6 \u4e2d \u202e"`],
    ["a NUL character, as JSON writes it", String.raw`"a\u0000b"`],
    ["escaped lone surrogates", String.raw`{"\udead":"\ud800 \uDBFF"}`],
    ["digits that a double would lose", `[1.0,12345678901234567890,1E400,-0]`],
    ["JSON null, which is no absence", "null"],
  ] as const;
  test("keeps inputs, results and data as they came, whatever they hold", async (t) => {
    const { store, accountId } = await withAccount(open(t));

    for (const [what, text] of texts) {
      const task = await postTask(store, accountId, { inputText: text, dataText: `{"x":${text}}` });
      const claimed = await claimOne(store);
      await store.finishTask(newFinish(claimed, { resultText: text, errorText: text }));

      const found = await store.findTask({ accountId, id: task.id });
      assert(found !== null);
      const texts = { inputText: text, resultText: text, errorText: text };
      // Compared here, because a failure would print a megabyte.
      assert(claimed.inputText === text, what);
      const whole = taskEnvelope({ ...found.task, ...texts, dataText: `{"x":${text}}` });
      assert(envelopeOf(found) === whole, what);
    }
  });

  test("gives a task of more than 64 KiB as the bytes of its envelope, the same as of a smaller one", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const [inputText, dataText, errorText] = ["1", `{"tag":"\u00e4"}`, "2"];
    const start = '"\u00e4\u4e2d\u{1f600}';
    const others = Buffer.byteLength(`${inputText}${dataText}${errorText}${start}"`);
    for (const [bytes, isLarge] of [
      [64 * 1024, false],
      [64 * 1024 + 1, true],
    ] as const) {
      const resultText = `${start}${"x".repeat(bytes - others)}"`;
      const task = await postTask(store, accountId, { inputText, dataText });
      const claimed = await claimOne(store);
      await store.finishTask(newFinish(claimed, { resultText, errorText }));

      const found = await store.findTask({ accountId, id: task.id });

      assert(found !== null);
      assert.equal(found.envelope !== undefined, isLarge);
      const whole = taskEnvelope({ ...found.task, inputText, dataText, resultText, errorText });
      assert(envelopeOf(found) === whole);
      if (isLarge) assert.equal(found.envelope?.tag, entityTag(whole));
      assert.equal(found.isReady, true);
    }
  });

  test("shows in a large task that runs how far it has come", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const inputText = JSON.stringify("x".repeat(70_000));
    const task = await postTask(store, accountId, { inputText });
    await claimOne(store);
    const progress = { progress: 0.5, note: "halfway" };

    const found = await store.findTask({ accountId, id: task.id, progress });

    assert(found?.envelope !== undefined);
    const whole = taskEnvelope({ ...found.task, inputText, dataText: task.dataText }, progress);
    assert(envelopeOf(found) === whole);
    assert.match(whole, /"note":"halfway"/);
  });

  test("refuses posts while the backlog is full, and takes the engine's work all the same", async (t) => {
    const { store, accountId } = await withAccount(open(t, { backlogMax: 2 }));
    const [first, second, late] = [newTask(), newTask(), newTask()];

    const accepted = store.insertTasks(newPost(accountId, [first, second]));
    const shed = store.insertTasks(newPost(accountId, [late]));
    const claimed = store.claimTasks({ type: "echo", max: 10, now: T0 });

    await assert.rejects(shed, { name: "StoreError", kind: "overloaded", isPassing: true });
    await accepted;
    assert.equal((await claimed).length, 2);
    assert.equal(await store.findTask({ accountId, id: late.id }), null);
    assert.equal(store.fault(), null);
    await store.insertTasks(newPost(accountId, [late]));
    assert.notEqual(await store.findTask({ accountId, id: late.id }), null);
  });
}

/** The part of the conformance suite that is about the list of ready tasks. */
export function exerciseReady(open: OpenStore): void {
  test("lists finished tasks, oldest completion first, completed and failed ones alike", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const tasks = [newTask(), newTask(), newTask()];
    await store.insertTasks(newPost(accountId, tasks));
    const claimed = await store.claimTasks({ type: "echo", max: 3, now: T0 });
    const [a, b, c] = claimed;
    assert(a !== undefined && b !== undefined && c !== undefined);

    await store.finishTask(newFinish(a, { endedAt: T0 + 3000 }));
    await store.finishTask(newFinish(c, { endedAt: T0 + 1000 }));
    const failure = { state: "failed", code: 50010, errorText: `{"message":"x"}` } as const;
    await store.finishTask(newFinish(b, { ...failure, endedAt: T0 + 2000 }));

    const { tasks: ready, next } = await store.listReady(taskQuery(accountId));
    assert.deepEqual(pluck(ready, "id"), [c.id, b.id, a.id]);
    assert.equal(next, null);
    assert.deepEqual(ready[1], {
      id: b.id,
      state: "failed",
      statusCode: 50010,
      statusMessage: null,
      type: "echo",
      createdAt: T0,
      startedAt: T0,
      completedAt: T0 + 2000,
      expiresAt: T0 + 2000 + RETENTION_MS,
      runs: 1,
      dataText: `{"type":"echo"}`,
    });
  });

  test("takes a collected task off the list for good, and only its own account does that", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    const [task, kept] = [newTask(), newTask()];
    await seedFinished(store, ada, { tasks: [task, kept] });
    const readyIds = async (accountId: number): Promise<readonly string[]> =>
      (await store.listReady(taskQuery(accountId))).tasks.map(({ id }) => id);

    await store.collectTask({ accountId: bob, id: task.id });
    assert.equal((await store.findTask({ accountId: ada, id: task.id }))?.isReady, true);
    await store.collectTask({ accountId: ada, id: task.id });
    assert.equal((await store.findTask({ accountId: ada, id: task.id }))?.isReady, false);
    await store.collectTask({ accountId: ada, id: task.id });
    await store.collectTask({ accountId: ada, id: newTaskId() });

    assert.deepEqual(await readyIds(ada), [kept.id]);
    assert.deepEqual(await readyIds(bob), []);
  });

  test("collects nothing before a task has finished", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const task = await postTask(store, accountId);
    await store.collectTask({ accountId, id: task.id });
    const claimed = await claimOne(store);
    await store.collectTask({ accountId, id: task.id });

    await store.finishTask(newFinish(claimed));

    assert.equal((await store.findTask({ accountId, id: task.id }))?.isReady, true);
  });

  // Three completions at one time, an order that is not the order of posting, and a full last page: the
  // places where paging goes wrong.
  test("pages through every task once, whatever completed at the same time", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const waits = [4000, 2000, 3000, 2000, 1000, 2000];
    await store.insertTasks(
      newPost(
        accountId,
        waits.map(() => newTask()),
      ),
    );
    const claimed = await store.claimTasks({ type: "echo", max: 10, now: T0 });
    const ends = claimed.map((task, i) => newFinish(task, { endedAt: T0 + (waits[i] ?? 0) }));
    for (const end of ends.toReversed()) await store.finishTask(end);
    const expected = [4, 1, 3, 5, 2, 0].map((place) => claimed[place]?.id);

    for (const limit of [1, 2, 3, 5, 6, 7]) {
      const { ids, pages } = await readAll(store, taskQuery(accountId, { limit }));
      assert.deepEqual(ids, expected);
      assert.equal(pages, Math.ceil(expected.length / limit));
    }
  });

  test("goes on after its cursor when tasks finish and are collected between pages", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const [a, b, c, d] = [newTask(), newTask(), newTask(), newTask()];
    await seedFinished(store, accountId, { tasks: [a, b, c] });
    const first = await store.listReady(taskQuery(accountId, { limit: 2 }));

    for (const { id } of [a, b]) await store.collectTask({ accountId, id });
    await seedFinished(store, accountId, { tasks: [d], endedAt: T0 + 5000 });

    const second = await store.listReady(taskQuery(accountId, { limit: 2, after: first.next }));
    assert.deepEqual(pluck(second.tasks, "id"), [c.id, d.id]);
    assert.equal(second.next, null);
  });

  test("filters by tag, by type and by both, page by page", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const other = await seedAccount(store, "bob");
    const kinds = [
      ["echo", "x"],
      ["hash", "x"],
      ["echo", "y"],
      ["echo", null],
      ["hash", "y"],
      ["echo", "x"],
    ] as const;
    const tasks = kinds.map(([type, tag]) => newTask({ type, tag }));
    await seedFinished(store, accountId, { tasks });
    await seedFinished(store, other, { tasks: [newTask({ type: "echo", tag: "x" })] });
    const idsAt = (...places: number[]) => places.map((place) => tasks[place]?.id);

    const cases = [
      [{ tag: "x" }, idsAt(0, 1, 5)],
      [{ type: "echo" }, idsAt(0, 2, 3, 5)],
      [{ tag: "x", type: "echo" }, idsAt(0, 5)],
      [{ tag: "X" }, []],
      [{ tag: "" }, []],
      [{ type: "none" }, []],
    ] as const;
    for (const [filter, ids] of cases) {
      const read = await readAll(store, taskQuery(accountId, { limit: 2, ...filter }));
      assert.deepEqual(read.ids, ids, JSON.stringify(filter));
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
    ids.push(...page.tasks.map(({ id }) => id));
    if (page.next === null) return { ids, pages };
    after = page.next;
  }
}

/** The part of the conformance suite that is about starting tasks and ending their runs. */
export function exerciseRunning(open: OpenStore): void {
  test("hands over what a runner needs, counts the run and shows the task as running", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const task = newTask({ type: "hash", tag: "t", marketplace: "us", inputText: "[1]" });
    await store.insertTasks(newPost(accountId, [task, newTask({ type: "echo" })]));

    const [claimed, ...others] = await store.claimTasks({ type: "hash", max: 5, now: T0 + 5 });

    assert.deepEqual(claimed, {
      seq: claimed?.seq,
      id: task.id,
      accountId,
      type: "hash",
      tag: "t",
      marketplace: "us",
      inputText: "[1]",
      queuedAt: T0,
      traceText: null,
      runs: 1,
      failures: 0,
    });
    assert.deepEqual(others, []);
    const found = (await store.findTask({ accountId, id: task.id }))?.task;
    assert.equal(found?.state, "running");
    assert.equal(found.statusCode, 40601);
    assert.equal(found.startedAt, T0 + 5);
    assert.equal(found.runs, 1);
  });

  test("starts a delayed task no sooner than it was let into the queue", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const startAt = T0 + 60_000;
    const task = await postTask(store, accountId, { startAt });
    const claim = async () =>
      (await store.claimTasks({ type: "echo", max: 5, now: startAt + 1 })).length;

    assert.equal((await store.findTask({ accountId, id: task.id }))?.task.state, "queued");
    assert.equal(await claim(), 0);
    assert.equal(await store.releaseDelayed({ now: startAt - 1, max: 10 }), 0);
    assert.equal(await claim(), 0);
    assert.equal(await store.releaseDelayed({ now: startAt, max: 10 }), 1);
    assert.equal(await store.releaseDelayed({ now: startAt, max: 10 }), 0);
    assert.equal(await claim(), 1);
  });

  test("lets no more delayed tasks into the queue than asked for, the earliest first", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const tasks = [3, 1, 2].map((seconds) => newTask({ startAt: T0 + seconds * 1000 }));
    await store.insertTasks(newPost(accountId, tasks));

    assert.equal(await store.releaseDelayed({ now: T0 + 5000, max: 2 }), 2);
    const ids = (await store.claimTasks({ type: "echo", max: 5, now: T0 + 5000 })).map(
      ({ id }) => id,
    );
    assert.deepEqual(ids, [tasks[1]?.id, tasks[2]?.id]);
    assert.equal(await store.releaseDelayed({ now: T0 + 5000, max: 2 }), 1);
  });

  test("records how a run ended", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const ends = [
      { state: "completed", code: 20000, resultText: `{"a":1}`, errorText: null },
      { state: "failed", code: 50010, resultText: null, errorText: `{"message":"m"}` },
      { state: "failed", code: 50401, resultText: null, errorText: `{"message":"t"}` },
    ] as const;

    for (const end of ends) {
      const task = await postTask(store, accountId);
      const times = { endedAt: T0 + 9, expiresAt: T0 + 99 };
      await store.finishTask(newFinish(await claimOne(store), { ...end, ...times }));

      const found = await store.findTask({ accountId, id: task.id });
      assert.equal(found?.isReady, true);
      assert.equal(found.task.state, end.state);
      assert.equal(found.task.statusCode, end.code);
      assert.equal(found.task.resultText, end.resultText);
      assert.equal(found.task.errorText, end.errorText);
      assert.equal(found.task.completedAt, T0 + 9);
      assert.equal(found.task.expiresAt, T0 + 99);
    }
  });

  test("changes nothing when a task that is not running is finished, retried or requeued", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const task = await postTask(store, accountId, { postback: webhook("a.example") });
    const read = () => store.findTask({ accountId, id: task.id });
    const { seq } = await claimOne(store);
    await store.requeueTasks({ seq });
    const touch = async (): Promise<void> => {
      const late = { resultText: `"late"`, endedAt: T0 + 5000 };
      assert.equal(await store.finishTask(newFinish({ seq }, late)), null);
      await store.retryTask({ seq, startAt: T0 + 5000 });
      assert.equal(await store.requeueTasks({ seq }), 0);
      assert.equal(await store.requeueTasks({ of: "earlier life" }), 0);
    };

    const queued = await read();
    await touch();
    assert.deepEqual(await read(), queued);
    assert.deepEqual(await store.listLanes({ accountId: "all" }), []);

    const claimed = await claimOne(store);
    assert.deepEqual(await store.finishTask(newFinish(claimed)), [
      { accountId, host: "a.example" },
    ]);
    const finished = await read();
    const deliveries = await store.listDeliveries({ accountId, id: task.id });
    await touch();
    assert.deepEqual(await read(), finished);
    assert.deepEqual(await store.listDeliveries({ accountId, id: task.id }), deliveries);
  });

  test("makes the first attempt of each webhook due at the end of the run, and not before", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const webhooks = { postback: webhook("b.example", "/p"), pingback: webhook("a.example", "/g") };
    const task = await postTask(store, accountId, webhooks);
    const claimed = await claimOne(store);
    assert.deepEqual(await store.listLanes({ accountId: "all" }), []);
    assert.deepEqual(await store.listDeliveries({ accountId, id: task.id }), []);

    const lanes = await store.finishTask(newFinish(claimed, { endedAt: T0 + 7000 }));

    assert.deepEqual(
      lanes?.map((lane) => `${lane.accountId} ${lane.host}`).toSorted(),
      ["a.example", "b.example"].map((host) => `${accountId} ${host}`),
    );
    const deliveries = await store.listDeliveries({ accountId, id: task.id });
    assert.deepEqual(
      deliveries?.map(({ kind, url, state, attempts }) => ({ kind, url, state, attempts })),
      [
        { kind: "pingback", url: "https://a.example/g", state: "scheduled", attempts: [FIRST] },
        { kind: "postback", url: "https://b.example/p", state: "scheduled", attempts: [FIRST] },
      ],
    );
  });

  test("names a lane once that both webhooks of a task go to", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const hook = webhook("a.example");
    await postTask(store, accountId, { postback: hook, pingback: hook });

    const lanes = await store.finishTask(newFinish(await claimOne(store)));

    assert.deepEqual([...new Set(pluck(lanes, "host"))], ["a.example"]);
    assert.deepEqual(await store.listLanes({ accountId: "all" }), [
      { accountId, host: "a.example", freshDueAt: T0 + 1000, retryDueAt: null },
    ]);
  });

  test("the trace of a post stays with its tasks, for their runs and their webhooks", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const traceText = '{"traceparent":"00-x","tracestate":null}';
    const postback = webhook("a.example");
    const task = newTask({ postback });
    await store.insertTasks(newPost(accountId, [task], { traceText }));

    const claimed = await claimOne(store);
    await store.finishTask(newFinish(claimed));
    const attempt = await claimAttempt(store);

    assert.equal(claimed.traceText, traceText);
    assert.equal(attempt.traceText, traceText);
    assert.equal((await store.findTaskDeliveries(task.id))?.traceText, traceText);
    assert.equal((await store.findTimeline({ id: task.id, scope: null }))?.traceText, traceText);
  });

  test("a claim tells when each task could start: when it was posted, or at the time that it waited for", async (t) => {
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
    assert.deepEqual(times, [T0, T0 + 500, T0]);
    assert.equal(again.queuedAt, T0 + 900);
  });

  test("puts a failed run back into the queue for its time, and counts the failure", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const task = await postTask(store, accountId, { inputText: "7" });
    const { seq } = await claimOne(store);

    await store.retryTask({ seq, startAt: T0 + 1000 });

    const waiting = (await store.findTask({ accountId, id: task.id }))?.task;
    assert.equal(waiting?.state, "queued");
    assert.equal(waiting.statusCode, 40602);
    assert.equal(waiting.startedAt, null);
    assert.equal(waiting.runs, 1);
    assert.deepEqual(await store.claimTasks({ type: "echo", max: 5, now: T0 + 999 }), []);
    await store.releaseDelayed({ now: T0 + 1000, max: 5 });
    const again = await claimOne(store);
    assert.equal(again.failures, 1);
    assert.equal(again.inputText, "7");
    assert.equal((await store.findTask({ accountId, id: task.id }))?.task.runs, 2);
  });

  test("an end of a claim counts no more once its task was put back and claimed again", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const { id } = newTask();
    await store.insertTasks(newPost(accountId, [newTask({ id })]));
    const { seq, runs: run } = await claimOne(store);
    await store.requeueTasks({ seq });
    const later = await claimOne(store);

    assert.equal(await store.finishTask({ ...newFinish({ seq }), id, run }), null);
    await store.retryTask({ seq, id, run, startAt: T0 });
    await store.releaseTask({ seq, id, run });
    assert.equal(await store.requeueTasks({ seq, id, run }), 0);
    assert.equal((await store.findTask({ accountId, id }))?.task.state, "running");

    await store.finishTask({ ...newFinish(later), id, run: later.runs });
    assert.equal((await store.findTask({ accountId, id }))?.task.state, "completed");
  });

  test("requeues one running task or all, with their runs counted and no failure", async (t) => {
    const { store: first, again: reopen } = await open(t);
    const accountId = await seedAccount(first);
    const tasks = [newTask(), newTask({ priority: 3 }), newTask()];
    await first.insertTasks(newPost(accountId, tasks));
    const claimed = await first.claimTasks({ type: "echo", max: 5, now: T0 });
    const second = claimed.find(({ id }) => id === tasks[2]?.id);
    assert(second !== undefined);

    assert.equal(await first.requeueTasks({ seq: second.seq }), 1);
    await first.close();
    const store = await reopen();
    assert.equal(await store.requeueTasks({ of: "earlier life" }), 2);
    assert.equal(await store.requeueTasks({ of: "earlier life" }), 0);

    const shown = (await store.findTask({ accountId, id: second.id }))?.task;
    assert.equal(shown?.state, "queued");
    assert.equal(shown.statusCode, 40602);
    assert.equal(shown.startedAt, null);
    const again = await store.claimTasks({ type: "echo", max: 5, now: T0 + 1 });
    assert.deepEqual(
      pluck(again, "id", "failures"),
      [tasks[1], tasks[0], tasks[2]].map((task) => [task?.id, 0]),
    );
    assert.equal((await store.findTask({ accountId, id: second.id }))?.task.runs, 2);
  });
}

/** The first attempt of a webhook whose task ended seven seconds after {@link T0}, as it is shown. */
const FIRST = {
  number: 1,
  dueAt: T0 + 7000,
  startedAt: null,
  endedAt: null,
  outcome: null,
  httpStatus: null,
  error: null,
  address: null,
  phases: { dnsMs: null, connectMs: null, tlsMs: null, firstByteMs: null },
  responseExcerpt: null,
  refusal: null,
  retryAfter: null,
} as const;
