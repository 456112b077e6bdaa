import assert from "node:assert/strict";
import { test } from "node:test";

import type { AttemptResult, DeliveryDecision } from "../../src/domain/webhook/delivery.ts";
import { webhookRequest } from "../../src/domain/webhook/webhook-request.ts";
import type { Delivery, LaneRef, LaneShare, Store } from "../../src/store/store.ts";
import {
  claimAttempt,
  claimLanes,
  claimOne,
  giveUpAll,
  newAttemptRecord,
  newAttemptResult,
  newFinish,
  newPost,
  newTask,
  newTaskId,
  seedAccount,
  seedDelivery,
  seedFinished,
  T0,
  webhook,
  pluck,
  withAccount,
  withAccounts,
  postTask,
} from "../helpers/store.ts";
import { exerciseLanes, lane } from "./conformance-lanes.ts";
import type { OpenStore } from "./conformance.ts";

const DUE = T0 + 1000;
// The account that a test makes first.
const FIRST = 1;

async function theDelivery(store: Store, accountId: number, id: string): Promise<Delivery> {
  const [delivery, ...others] = (await store.listDeliveries({ accountId, id })) ?? [];
  assert(delivery !== undefined && others.length === 0);
  return delivery;
}

function ref(host: string): LaneRef {
  return { accountId: FIRST, host };
}

function share(host: string, overrides: Partial<LaneShare> = {}): LaneShare {
  return { accountId: FIRST, host, fresh: 0, retries: 0, ...overrides };
}

/** The part of the conformance suite that is about lanes, attempts and what follows from them. */
export function exerciseDeliveries(open: OpenStore): void {
  exerciseLanes(open);
  exerciseClaims(open);
  exerciseRecords(open);
}

function exerciseClaims(open: OpenStore): void {
  test("hands over everything that sending an attempt needs", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const task = newTask({
      ...{ postback: webhook("a.example", "/p?q=1"), inputText: "[1]", tag: "t" },
      dataText: `{"type":"echo","tag":"t"}`,
    });
    await seedFinished(store, accountId, { tasks: [task] });

    const attempt = await claimAttempt(store);

    assert.deepEqual(attempt, {
      seq: attempt.seq,
      taskSeq: attempt.taskSeq,
      accountId,
      taskId: task.id,
      kind: "postback",
      number: 1,
      retry: 0,
      host: "a.example",
      dueAt: DUE,
      startedAt: T0 + 1000,
      url: "https://a.example/p?q=1",
      webhookSecret: "whsec_test",
      webhookSecretNext: null,
      traceText: null,
      task: (await store.findTask({ accountId, id: task.id }))?.task,
      largeBytes: null,
    });
    assert.equal(attempt.task.resultText, "1");
    const delivery = await theDelivery(store, accountId, task.id);
    assert.equal(delivery.state, "in_flight");
    assert.equal(delivery.attempts[0]?.startedAt, T0 + 1000);
    assert.equal(delivery.attempts[0].endedAt, null);
  });

  test("starts in each lane what is due, up to the lane's own limit, and never twice", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    for (const host of ["a.example", "b.example", "c.example"]) {
      for (let i = 0; i < 3; i++) await seedDelivery(store, accountId, { host });
    }
    const lanes = [
      share("a.example", { fresh: 2 }),
      share("b.example", { fresh: 9 }),
      share("none.example", { fresh: 9, retries: 9 }),
      share("c.example", { retries: 9 }),
    ];
    const hosts = async () =>
      (await store.claimAttempts({ lanes, now: DUE })).attempts.map(({ host }) => host).sort();

    assert.deepEqual(await hosts(), ["a.example", "a.example", ...Array(3).fill("b.example")]);
    assert.deepEqual(await hosts(), ["a.example"]);
    assert.deepEqual(await hosts(), []);
  });

  test("says of each lane asked for what is left in it", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    for (const dueAt of [DUE, DUE, DUE + 700]) await seedDelivery(store, accountId, { dueAt });
    const claim = (fresh: number) => {
      const lanes = ["a.example", "none.example"].map((host) => share(host, { fresh }));
      return store.claimAttempts({ lanes, now: DUE });
    };
    const none = lane({ host: "none.example" });

    assert.deepEqual((await claim(1)).lanes, [lane({ freshDueAt: DUE }), none]);
    assert.deepEqual((await claim(9)).lanes, [lane({ freshDueAt: DUE + 700 }), none]);
    assert.deepEqual((await store.claimAttempts({ lanes: [], now: DUE })).attempts, []);
  });

  test("starts as many of each class as its share says, and of retries those first that waited longest", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    for (let i = 0; i < 4; i++) await seedDelivery(store, accountId);
    const waits = [
      ...[
        { dueAt: DUE + 40, retry: 1 },
        { dueAt: DUE + 30, retry: 1 },
      ],
      ...[
        { dueAt: DUE + 20, retry: 3 },
        { dueAt: DUE + 10, retry: 2 },
      ],
    ];
    for (const [index, attempt] of (await claimLanes(store, ["a.example"])).entries()) {
      const decision = { state: "scheduled", ...(waits[index] ?? assert.fail()) } as const;
      await store.recordAttempt(newAttemptRecord(attempt, { decision }));
    }
    for (let i = 0; i < 2; i++) await seedDelivery(store, accountId, { dueAt: DUE + 500 });
    const claim = async (given: Partial<LaneShare>) => {
      const lanes = [share("a.example", given)];
      const { attempts } = await store.claimAttempts({ lanes, now: DUE + 1000 });
      return attempts.map(({ retry, dueAt }) => [retry, dueAt - DUE]);
    };

    assert.deepEqual(await claim({ fresh: 1, retries: 1 }), [
      [0, 500],
      [2, 10],
    ]);
    assert.deepEqual(await claim({ retries: 2 }), [
      [3, 20],
      [1, 30],
    ]);
    assert.deepEqual(await claim({ fresh: 9 }), [[0, 500]]);
    assert.deepEqual(await claim({ fresh: 9, retries: 9 }), [[1, 40]]);
  });

  test("leaves what is large to a later claim, so that one account does not take all the room of a claim", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    const large = ["large.example", "large.example", "also.example"].map(
      (host) => [ada, host] as const,
    );
    for (const [accountId, host] of [...large, [bob, "small.example"] as const]) {
      await store.insertTasks(newPost(accountId, [newTask({ postback: webhook(host) })]));
    }
    const resultText = JSON.stringify("x".repeat(5 * 1024 * 1024));
    for (const run of await store.claimTasks({ type: "echo", max: 4, now: T0 })) {
      await store.finishTask(newFinish(run, { resultText, endedAt: DUE }));
    }
    const lanes = [
      ...["large.example", "also.example"].map((host) => share(host, { fresh: 9 })),
      share("small.example", { accountId: bob, fresh: 9 }),
    ];

    const claimed = await store.claimAttempts({ lanes, now: DUE });

    const started = pluck(claimed.attempts, "host");
    assert.deepEqual(started, ["large.example", "small.example"]);
    assert.deepEqual(pluck(claimed.lanes, "freshDueAt"), [DUE, DUE, null]);
  });

  test("starts a large postback without its texts, and makes its request as any other's is made", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    await store.rotateSecret({ login: "ada", next: "whsec_BBBB" });
    const resultText = JSON.stringify("\u{1f600}\u00e9".repeat(40_000));
    const tasks = [newTask({ postback: webhook("large.example"), pingback: webhook("p.example") })];
    await store.insertTasks(newPost(accountId, tasks));
    const run = await claimOne(store);
    await store.finishTask(newFinish(run, { resultText, endedAt: DUE }));

    const pingback = await claimAttempt(store, "p.example", DUE);
    const large = await claimAttempt(store, "large.example", DUE);

    assert.equal(pingback.largeBytes, null);
    assert(large.largeBytes !== null && large.largeBytes > Buffer.byteLength(resultText));
    assert.deepEqual([large.task.inputText, large.task.resultText], [null, null]);
    const request = await store.makeLargePostback(large);
    const task = { ...large.task, dataText: tasks[0]?.dataText ?? "", resultText };
    const wanted = webhookRequest({ ...large, task });
    assert.deepEqual(request?.headers, wanted.headers);
    // Compared here, because a failure would print them.
    assert(Buffer.from(request.body ?? "").equals(Buffer.from(wanted.body ?? "")));

    assert.equal(await store.eraseTask({ id: large.taskId, hasWebhooks: true }), "erased");
    assert.equal(await store.makeLargePostback(large), null);
  });

  test("keeps the lanes of two accounts at one host apart", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    await seedDelivery(store, ada, { dueAt: DUE + 700 });
    await seedDelivery(store, bob);
    const both = [lane({ freshDueAt: DUE + 700 }), lane({ accountId: bob, freshDueAt: DUE })];
    assert.deepEqual(await store.listLanes({ accountId: "all" }), both);
    assert.deepEqual(await store.listLanes({ accountId: bob }), both.slice(1));

    const lanes = [ada, bob].map((accountId) => share("a.example", { accountId, fresh: 9 }));
    const claimed = await store.claimAttempts({ lanes, now: DUE });

    assert.deepEqual(pluck(claimed.attempts, "accountId"), [bob]);
    assert.deepEqual(claimed.lanes, [both[0], lane({ accountId: bob })]);
    const [attempt] = claimed.attempts;
    await store.recordAttempt(newAttemptRecord(attempt ?? assert.fail()));
    const retry = { freshDueAt: null, retryDueAt: T0 + 62_000 };
    assert.deepEqual(await store.listLanes({ accountId: bob }), [
      lane({ accountId: bob, ...retry }),
    ]);
  });

  test("starts nothing of a disabled account and lists none of its lanes, until it is enabled", async (t) => {
    const { store, again, ada, bob } = await withAccounts(open(t));
    for (const accountId of [ada, bob]) await seedDelivery(store, accountId);
    const other = await again();
    const disable = (isDisabled: boolean) =>
      other.setAccountDisabled({ login: "ada", disabledAt: isDisabled ? T0 : null });
    const lanes = [ada, bob].map((accountId) => share("a.example", { accountId, fresh: 9 }));
    await disable(true);

    const claimed = await store.claimAttempts({ lanes, now: DUE });

    assert.deepEqual(pluck(claimed.attempts, "accountId"), [bob]);
    assert.deepEqual(claimed.lanes, [lane(), lane({ accountId: bob })]);
    assert.deepEqual(claimed.suspended, [ada]);
    assert.deepEqual(await store.listLanes({ accountId: "all" }), []);
    assert.deepEqual(await store.listLanes({ accountId: ada }), []);
    await disable(false);
    assert.deepEqual(await store.listLanes({ accountId: ada }), [lane({ freshDueAt: DUE })]);
    const later = await store.claimAttempts({ lanes, now: DUE });
    assert.deepEqual([later.attempts.length, later.suspended], [1, []]);
  });

  test("lists as proven where an account delivered lately and was answered since", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    const hour = 3_600_000;
    const end = async (accountId: number, host: string, ends: Partial<AttemptResult>[]) => {
      for (const [index, result] of ends.entries()) {
        await seedDelivery(store, accountId, { host });
        const attempt = await claimAttempt(store, host);
        const endedAt = T0 + index * hour;
        const decision = {
          state: result.outcome === "delivered" ? "delivered" : "given_up",
        } as const;
        const record = { result: newAttemptResult(result), endedAt, decision };
        await store.recordAttempt(newAttemptRecord(attempt, record));
      }
    };
    const delivered = { outcome: "delivered", httpStatus: 200, error: null } as const;
    const unanswered = { outcome: "timed_out", error: "timed out" } as const;
    const answered = { outcome: "failed", httpStatus: 500 } as const;
    await end(ada, "good.example", [delivered]);
    await end(ada, "busy.example", [delivered, delivered, answered]);
    await end(ada, "silent.example", [delivered, unanswered]);
    await end(ada, "again.example", [unanswered, delivered]);
    await end(ada, "never.example", [answered]);
    await end(bob, "silent.example", [delivered]);
    const list = async (since: number, max: number) =>
      (await store.listProvenLanes({ since, max })).map(
        ({ accountId, host }) => `${accountId} ${host}`,
      );

    const ofAda = ["busy.example", "again.example", "good.example"].map((host) => `${ada} ${host}`);
    assert.deepEqual(await list(T0, 100), [...ofAda, `${bob} silent.example`]);
    assert.deepEqual(await list(T0, 4), [...ofAda.slice(0, 2), `${bob} silent.example`]);
    assert.deepEqual(
      await list(T0 + hour, 100),
      ["again", "busy"].map((name) => `${ada} ${name}.example`),
    );
    await store.setAccountDisabled({ login: "ada", disabledAt: T0 });
    assert.deepEqual(await list(T0, 100), [`${bob} silent.example`]);
  });

  test("takes those due first when not all of a lane's attempts may start", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    for (const wait of [4, 1, 3, 0, 2]) await seedDelivery(store, accountId, { dueAt: DUE + wait });

    const claim = async (max: number) =>
      (await claimLanes(store, ["a.example"], { max, now: DUE + 9 }))
        .map(({ dueAt }) => dueAt - DUE)
        .sort((x, y) => x - y);

    assert.deepEqual(await claim(2), [0, 1]);
    assert.deepEqual(await claim(9), [2, 3, 4]);
  });
}

function exerciseRecords(open: OpenStore): void {
  test("lists what is in flight, oldest first, until its end is recorded", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    await seedDelivery(store, accountId, { host: "b.example" });
    await seedDelivery(store, accountId, { host: "a.example" });
    await seedDelivery(store, accountId, { host: "c.example" });
    const [a] = await claimLanes(store, ["a.example"]);
    const [b] = await claimLanes(store, ["b.example"]);
    assert(a !== undefined && b !== undefined);
    const ref = {
      ...{ seq: a.seq, taskSeq: a.taskSeq, taskId: a.taskId, kind: "postback" },
      ...{ number: 1, retry: 0 },
      ...{ accountId, host: "a.example", dueAt: DUE, startedAt: a.startedAt },
    };

    assert.deepEqual(pluck(await store.listInFlight({ of: "earlier life" }), "host"), [
      "b.example",
      "a.example",
    ]);
    await store.recordAttempt(newAttemptRecord(b));
    assert.deepEqual(await store.listInFlight({ of: "earlier life" }), [ref]);
    await store.recordAttempt(newAttemptRecord(a, { decision: { state: "given_up" } }));
    assert.deepEqual(await store.listInFlight({ of: "earlier life" }), []);
  });

  test("records everything that an attempt's result says", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const { id } = await seedDelivery(store, accountId);
    const excerpt = "a\u0000b \u{1F600}\r\n\ufffd";
    const result = newAttemptResult({
      ...{ outcome: "timed_out", httpStatus: 200, error: "no answer within 10 s", address: "::1" },
      phases: { dnsMs: 0.25, connectMs: 1.5, tlsMs: null, firstByteMs: 9999.75 },
      responseExcerpt: excerpt,
      refusal: { host: "a.example", addresses: ["10.0.0.1", "::1"], rule: "private" },
      retryAfter: "Wed, 21 Oct 2015 07:28:00 GMT",
    });
    const attempt = await claimAttempt(store, "a.example", DUE + 3);

    await store.recordAttempt(newAttemptRecord(attempt, { result, endedAt: DUE + 4 }));

    const [shown] = (await theDelivery(store, accountId, id)).attempts;
    // PostgreSQL has no NUL in texts.
    const shownExcerpt = shown?.responseExcerpt ?? "";
    assert([excerpt, excerpt.replaceAll("\u0000", "\u001a")].includes(shownExcerpt));
    assert.deepEqual(shown, {
      ...{ number: 1, dueAt: DUE, startedAt: DUE + 3, endedAt: DUE + 4 },
      ...{ ...result, responseExcerpt: shownExcerpt },
    });
  });

  const ends = [
    ["delivered", "delivered"],
    ["failed", "given_up"],
    ["refused", "refused"],
  ] as const;
  test("ends a delivery as it was decided, with no further attempt", async (t) => {
    const { store, accountId } = await withAccount(open(t));

    for (const [outcome, state] of ends) {
      const { id } = await seedDelivery(store, accountId);
      const attempt = await claimAttempt(store);
      const result = newAttemptResult({ outcome });
      await store.recordAttempt(newAttemptRecord(attempt, { result, decision: { state } }));

      const delivery = await theDelivery(store, accountId, id);
      assert.equal(delivery.state, state);
      assert.equal(delivery.attempts.length, 1);
      assert.equal(delivery.attempts[0]?.outcome, outcome);
      assert.deepEqual(await store.listLanes({ accountId: "all" }), []);
      assert.deepEqual(await store.listInFlight({ of: "earlier life" }), []);
      assert.equal((await store.findTask({ accountId, id }))?.isReady, true);
    }
  });

  test("schedules the next attempt in the step that records the last one", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const { id } = await seedDelivery(store, accountId);
    const steps = [
      ["failed", DUE + 60_000, 1],
      ["interrupted", DUE + 60_000, 1],
      ["timed_out", DUE + 360_000, 2],
    ] as const;

    for (const [outcome, dueAt, retry] of steps) {
      const attempt = await claimAttempt(store, "a.example", DUE + 400_000);
      const decision = { state: "scheduled", dueAt, retry } as const;
      const result = newAttemptResult({ outcome });
      await store.recordAttempt(newAttemptRecord(attempt, { result, decision }));
      assert.deepEqual(await store.listLanes({ accountId: "all" }), [lane({ retryDueAt: dueAt })]);
    }

    const delivery = await theDelivery(store, accountId, id);
    assert.equal(delivery.state, "scheduled");
    assert.deepEqual(pluck(delivery.attempts, "number", "outcome", "dueAt"), [
      [1, "failed", DUE],
      [2, "interrupted", DUE + 60_000],
      [3, "timed_out", DUE + 60_000],
      [4, null, DUE + 360_000],
    ]);
    const last = await claimAttempt(store, "a.example", DUE + 400_000);
    assert.equal(last.number, 4);
    assert.equal(last.retry, 2);
  });

  const decisions: readonly DeliveryDecision[] = [
    { state: "scheduled", dueAt: DUE + 60_000, retry: 1 },
    { state: "delivered" },
    { state: "given_up" },
    { state: "refused" },
  ];
  test("changes nothing when the end of an attempt is recorded again", async (t) => {
    const { store, accountId } = await withAccount(open(t));

    for (const [i, decision] of decisions.entries()) {
      const host = `host-${i}.example`;
      const { id } = await seedDelivery(store, accountId, { host });
      const attempt = await claimAttempt(store, host);
      await store.recordAttempt(newAttemptRecord(attempt, { decision }));
      const once = await theDelivery(store, accountId, id);

      for (const other of [decision, ...decisions]) {
        const late = { decision: other, endedAt: T0 + 99_000 };
        await store.recordAttempt(newAttemptRecord(attempt, late));
      }

      assert.deepEqual(await theDelivery(store, accountId, id), once, decision.state);
    }
  });

  test("keeps the deliveries of a task apart, each with its own attempts", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const task = await postTask(store, accountId, {
      postback: webhook("a.example"),
      pingback: webhook("a.example", "/g"),
    });
    await store.finishTask(newFinish(await claimOne(store)));
    const attempts = await claimLanes(store, ["a.example"]);
    const postback = attempts.find(({ kind }) => kind === "postback");
    const pingback = attempts.find(({ kind }) => kind === "pingback");
    assert(postback !== undefined && pingback !== undefined);

    await store.recordAttempt(newAttemptRecord(postback, { decision: { state: "delivered" } }));
    await store.recordAttempt(newAttemptRecord(pingback));

    const deliveries = await store.listDeliveries({ accountId, id: task.id });
    assert.deepEqual(
      deliveries?.map(({ kind, state, attempts: { length } }) => [kind, state, length]),
      [
        ["pingback", "scheduled", 2],
        ["postback", "delivered", 1],
      ],
    );
  });

  test("ends no attempt of another task that has the seq of an erased one", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    await seedDelivery(store, accountId, { host: "erased.example" });
    const late = await claimAttempt(store, "erased.example");
    await giveUpAll(store);
    await store.eraseExpired({ now: Number.MAX_SAFE_INTEGER, max: 10 });
    const { id } = await seedDelivery(store, accountId, { host: "new.example", dueAt: T0 + 2000 });
    const own = await claimAttempt(store, "new.example", T0 + 2000);

    await store.recordAttempt(newAttemptRecord(late, { decision: { state: "delivered" } }));

    assert.deepEqual(pluck(await store.listInFlight({ of: "earlier life" }), "host"), [
      "new.example",
    ]);
    await store.recordAttempt(newAttemptRecord(own));
    assert.equal((await theDelivery(store, accountId, id)).state, "scheduled");
  });
}

/** The part of the conformance suite that is about sending webhooks again. */
export function exerciseRedelivery(open: OpenStore): void {
  for (const state of ["delivered", "given_up", "refused"] as const) {
    test(`begins a fresh series for what was ${state}, due at once`, async (t) => {
      const { store, accountId } = await withAccount(open(t));
      const { id } = await seedDelivery(store, accountId);
      const first = await claimAttempt(store);
      await store.recordAttempt(newAttemptRecord(first, { decision: { state } }));

      const due = await store.redeliver({
        accountId,
        id,
        kind: null,
        states: null,
        now: T0 + 5000,
      });

      assert.deepEqual(due, [ref("a.example")]);
      assert.deepEqual(await store.listLanes({ accountId: "all" }), [
        lane({ freshDueAt: T0 + 5000 }),
      ]);
      const delivery = await theDelivery(store, accountId, id);
      assert.equal(delivery.state, "scheduled");
      assert.deepEqual(pluck(delivery.attempts, "number", "dueAt"), [
        [1, first.dueAt],
        [1, T0 + 5000],
      ]);
      const again = await claimAttempt(store, "a.example", T0 + 5000);
      assert.deepEqual([again.number, again.retry], [1, 0]);
    });
  }

  test("makes a retry due at once, and keeps its place in its series", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const { id } = await seedDelivery(store, accountId);
    const decision = { state: "scheduled", dueAt: T0 + 60_000, retry: 1 } as const;
    await store.recordAttempt(newAttemptRecord(await claimAttempt(store), { decision }));
    const order = { accountId, id, kind: "postback", states: null } as const;

    assert.deepEqual(await store.redeliver({ ...order, now: T0 + 5000 }), [ref("a.example")]);
    // What is due already is not put off.
    assert.deepEqual(await store.redeliver({ ...order, now: T0 + 9000 }), [ref("a.example")]);

    assert.deepEqual(await store.listLanes({ accountId: "all" }), [
      lane({ retryDueAt: T0 + 5000 }),
    ]);
    const retry = await claimAttempt(store, "a.example", T0 + 5000);
    assert.deepEqual([retry.number, retry.retry], [2, 1]);
    // It is in flight now, and stays.
    assert.deepEqual(await store.redeliver({ ...order, now: T0 + 9000 }), []);
    assert.equal((await theDelivery(store, accountId, id)).attempts.length, 2);
  });

  test("sends again only what was asked for, and only of the account's own tasks", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const stranger = await seedAccount(store, "bob");
    const task = newTask({ postback: webhook("a.example"), pingback: webhook("b.example") });
    const { id } = task;
    await store.insertTasks(newPost(accountId, [task]));
    const order = { accountId, id, kind: null, states: null, now: T0 + 5000 } as const;
    assert.deepEqual(await store.redeliver(order), []);
    await store.finishTask(newFinish(await claimOne(store)));
    for (const attempt of await claimLanes(store, ["a.example", "b.example"])) {
      await store.recordAttempt(newAttemptRecord(attempt, { decision: { state: "delivered" } }));
    }

    assert.deepEqual(await store.redeliver({ ...order, accountId: stranger }), []);
    assert.deepEqual(await store.redeliver({ ...order, id: newTaskId() }), []);
    assert.deepEqual(await store.redeliver({ ...order, kind: "pingback" }), [ref("b.example")]);

    const lanes = await store.listLanes({ accountId: "all" });
    assert.deepEqual(lanes, [lane({ host: "b.example", freshDueAt: T0 + 5000 })]);
  });

  test("sends again only what has ended as asked, and leaves what is scheduled as it is", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const task = newTask({ postback: webhook("a.example"), pingback: webhook("b.example") });
    const { id } = task;
    await store.insertTasks(newPost(accountId, [task]));
    await store.finishTask(newFinish(await claimOne(store)));
    const end = async (host: string, decision: DeliveryDecision) =>
      store.recordAttempt(newAttemptRecord(await claimAttempt(store, host), { decision }));
    await end("a.example", { state: "given_up" });
    await end("b.example", { state: "delivered" });
    const order = { accountId, id, kind: null, now: T0 + 5000 } as const;
    const undelivered = { ...order, states: ["given_up", "refused"] } as const;

    assert.deepEqual(await store.redeliver({ ...order, states: ["refused"] }), []);
    assert.deepEqual(await store.redeliver({ ...undelivered, kind: "pingback" }), []);
    assert.deepEqual(await store.redeliver(undelivered), [ref("a.example")]);
    // It is scheduled now, and has ended no more.
    assert.deepEqual(await store.redeliver({ ...undelivered, now: T0 + 3000 }), []);
    assert.deepEqual(await store.redeliver({ ...order, states: ["delivered"] }), [
      ref("b.example"),
    ]);

    const due = { freshDueAt: T0 + 5000 };
    const lanes = [lane({ host: "a.example", ...due }), lane({ host: "b.example", ...due })];
    assert.deepEqual(await store.listLanes({ accountId: "all" }), lanes);
  });

  test("begins exactly one series after 20 orders at once", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const { id } = await seedDelivery(store, accountId);
    const decision = { state: "given_up" } as const;
    await store.recordAttempt(newAttemptRecord(await claimAttempt(store), { decision }));
    const order = { accountId, id, kind: null, states: null, now: T0 + 5000 } as const;

    await Promise.all(Array.from({ length: 20 }, () => store.redeliver(order)));

    assert.equal((await theDelivery(store, accountId, id)).attempts.length, 2);
  });

  test("lists the last 100 attempts of a delivery, in the order they were made", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const { id } = await seedDelivery(store, accountId);
    for (let i = 0; i < 120; i++) {
      const attempt = await claimAttempt(store, "a.example", T0 + 1000 + i);
      await store.recordAttempt(newAttemptRecord(attempt, { decision: { state: "given_up" } }));
      await store.redeliver({ accountId, id, kind: null, states: null, now: T0 + 1001 + i });
    }

    const { attempts } = await theDelivery(store, accountId, id);

    const expected = Array.from({ length: 100 }, (_, i) => T0 + 1000 + 21 + i);
    assert.deepEqual(pluck(attempts, "dueAt"), expected);
  });
}
