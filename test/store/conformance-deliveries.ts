import assert from "node:assert/strict";
import { test } from "node:test";

import { PAUSES_MAX } from "../../src/domain/webhook/delivery-pause.ts";
import type { AttemptResult, DeliveryDecision } from "../../src/domain/webhook/delivery.ts";
import { webhookRequest } from "../../src/domain/webhook/webhook-request.ts";
import type {
  AttemptPage,
  Delivery,
  Lane,
  LaneRef,
  LaneShare,
  NewDeliveryPause,
  PauseScope,
  Store,
} from "../../src/store/store.ts";
import { endDue, seedDue, seedEnded } from "../helpers/delivery.ts";
import {
  T0,
  claimAttempt,
  claimLanes,
  claimOne,
  giveUpAll,
  newAttemptRecord,
  newAttemptResult,
  newFinish,
  newTask,
  newTaskId,
  pluck,
  postTask,
  seedAccount,
  seedDelivery,
  seedFinished,
  webhook,
  withAccount,
  withAccounts,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

const DUE = T0 + 1000;
// The first account of a test.
const FIRST = 1;

async function theDelivery(store: Store, accountId: number, id: string): Promise<Delivery> {
  const [delivery, ...others] = (await store.listDeliveries({ accountId, id })) ?? [];
  assert(delivery !== undefined && others.length === 0);
  return delivery;
}

/** A lane of the first account without anything due. */
function lane(overrides: Partial<Lane> = {}): Lane {
  return { accountId: FIRST, host: "a.example", freshDueAt: null, retryDueAt: null, ...overrides };
}

function lanesOf(store: Store, accountId: number | "all" = "all"): Promise<readonly Lane[]> {
  return store.listLanes({ accountId });
}

async function inFlight(store: Store): Promise<readonly string[]> {
  return pluck(await store.listInFlight({ of: "earlier life" }), "host");
}

function ref(host: string): LaneRef {
  return { accountId: FIRST, host };
}

function share(host: string, overrides: Partial<LaneShare> = {}): LaneShare {
  return { accountId: FIRST, host, fresh: 0, retries: 0, ...overrides };
}

/** Ends the due attempt of a host. */
async function end(store: Store, decision: DeliveryDecision, host = "a.example"): Promise<void> {
  await store.recordAttempt(newAttemptRecord(await claimAttempt(store, host), { decision }));
}

export function exerciseLanes(open: OpenStore): void {
  test("lanes with a first attempt or a retry due in an interval are listed", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    await seedDelivery(store, ada, { host: "retry.example" });
    await end(store, { state: "scheduled", dueAt: DUE + 800, retry: 1 }, "retry.example");
    for (const dueAt of [DUE + 900, DUE + 600, DUE + 5000]) {
      await seedDelivery(store, ada, { host: "first.example", dueAt });
    }
    await seedDelivery(store, ada, { host: "later.example", dueAt: DUE + 1001 });
    await seedDelivery(store, bob, { host: "suspended.example", dueAt: DUE + 700 });
    await store.setAccountDisabled({ login: "bob", disabledAt: T0 });

    const due = await store.listDueLanes({ since: DUE + 500, until: DUE + 1000 });

    const byHost = due.toSorted((x, y) => x.host.localeCompare(y.host));
    assert.deepEqual(byHost, [
      lane({ host: "first.example", freshDueAt: DUE + 600 }),
      lane({ host: "retry.example", retryDueAt: DUE + 800 }),
    ]);
    assert.deepEqual(await store.listDueLanes({ since: DUE, until: DUE + 100 }), []);
  });

  test("each lane is listed with its earliest first attempt and its earliest retry", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    assert.deepEqual(await lanesOf(store), []);
    for (const [accountId, host] of [
      [ada, "a.example"],
      [ada, "b.example"],
      [bob, "b.example"],
    ] as const) {
      for (const retry of [2, 1]) {
        await seedDelivery(store, accountId, { host });
        const dueAt = DUE + accountId + retry;
        await end(store, { state: "scheduled", dueAt, retry }, host);
      }
    }
    for (const dueAt of [DUE + 500, DUE + 9]) {
      await seedDelivery(store, ada, { host: "b.example", dueAt });
    }
    await seedDelivery(store, bob, { host: "c.example", dueAt: DUE + 8 });
    const [retryOfAda, retryOfBob] = [DUE + ada + 1, DUE + bob + 1];
    const lanesOfBob = [
      lane({ accountId: bob, host: "b.example", retryDueAt: retryOfBob }),
      lane({ accountId: bob, host: "c.example", freshDueAt: DUE + 8 }),
    ];
    const sorted = async (of: number | "all") =>
      (await lanesOf(store, of)).toSorted(
        (x, y) => x.accountId - y.accountId || x.host.localeCompare(y.host),
      );

    assert.deepEqual(await sorted(bob), lanesOfBob);
    assert.deepEqual(await sorted("all"), [
      lane({ accountId: ada, retryDueAt: retryOfAda }),
      lane({ accountId: ada, host: "b.example", freshDueAt: DUE + 9, retryDueAt: retryOfAda }),
      ...lanesOfBob,
    ]);
  });
}

export function exerciseClaims(open: OpenStore): void {
  test("a claimed attempt has all fields for its request, and its delivery is in flight", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const task = newTask({
      ...{ postback: webhook("a.example", "/p?q=1"), inputText: "[1]", tag: "t" },
      dataText: `{"type":"echo","tag":"t"}`,
    });
    await seedFinished(store, accountId, { tasks: [task] });

    const attempt = await claimAttempt(store);

    assert.deepEqual(attempt, {
      ...{ seq: attempt.seq, taskSeq: attempt.taskSeq, accountId, taskId: task.id },
      ...{ kind: "postback", number: 1, retry: 0, host: "a.example", dueAt: DUE },
      ...{ startedAt: T0 + 1000, url: "https://a.example/p?q=1", largeBytes: null },
      ...{ webhookSecret: "whsec_test", webhookSecretNext: null, traceText: null },
      task: (await store.findTask({ accountId, id: task.id }))?.task,
    });
    assert.equal(attempt.task.resultText, "1");
    const { state, attempts } = await theDelivery(store, accountId, task.id);
    assert.equal(state, "in_flight");
    assert.deepEqual(pluck(attempts, "startedAt", "endedAt"), [[T0 + 1000, null]]);
  });

  test("a claim starts due attempts of each lane up to its share, and each attempt once", async (t) => {
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
      pluck((await store.claimAttempts({ lanes, now: DUE })).attempts, "host").sort();

    assert.deepEqual(await hosts(), ["a.example", "a.example", ...Array(3).fill("b.example")]);
    assert.deepEqual(await hosts(), ["a.example"]);
    assert.deepEqual(await hosts(), []);
  });

  test("a claim returns the next due time of each of its lanes", async (t) => {
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

  test("a claim starts first attempts, then the retries that waited longest, each up to its share", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    for (let i = 0; i < 4; i++) await seedDelivery(store, accountId);
    const waits = ["40 1", "30 1", "20 3", "10 2"].map((wait) => wait.split(" ").map(Number));
    for (const [index, attempt] of (await claimLanes(store, ["a.example"])).entries()) {
      const [ms = 0, retry = 0] = waits[index] ?? [];
      const decision = { state: "scheduled", dueAt: DUE + ms, retry } as const;
      await store.recordAttempt(newAttemptRecord(attempt, { decision }));
    }
    for (let i = 0; i < 2; i++) await seedDelivery(store, accountId, { dueAt: DUE + 500 });
    const claim = async (given: Partial<LaneShare>) => {
      const lanes = [share("a.example", given)];
      const { attempts } = await store.claimAttempts({ lanes, now: DUE + 1000 });
      return attempts.map(({ retry, dueAt }) => `${retry} ${dueAt - DUE}`);
    };

    assert.deepEqual(await claim({ fresh: 1, retries: 1 }), ["0 500", "2 10"]);
    assert.deepEqual(await claim({ retries: 2 }), ["3 20", "1 30"]);
    assert.deepEqual(await claim({ fresh: 9 }), ["0 500"]);
    assert.deepEqual(await claim({ fresh: 9, retries: 9 }), ["1 40"]);
  });

  test("attempts that are due first start first, in the order of their times", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    for (const wait of [4, 1, 3, 0, 2]) await seedDelivery(store, accountId, { dueAt: DUE + wait });
    const claim = async (max: number) =>
      pluck(await claimLanes(store, ["a.example"], { max, now: DUE + 9 }), "dueAt");
    assert.deepEqual(await claim(2), [DUE, DUE + 1]);
    assert.deepEqual(await claim(9), [DUE + 2, DUE + 3, DUE + 4]);
  });

  test("large attempts wait for a later claim, and other accounts get their share of a claim", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    for (const host of ["large.example", "large.example", "also.example"]) {
      await postTask(store, ada, { postback: webhook(host) });
    }
    await postTask(store, bob, { postback: webhook("small.example") });
    const resultText = JSON.stringify("x".repeat(5 * 1024 * 1024));
    for (const run of await store.claimTasks({ type: "echo", max: 4, now: T0 })) {
      await store.finishTask(newFinish(run, { resultText, endedAt: DUE }));
    }
    const lanes = [
      ...["large.example", "also.example"].map((host) => share(host, { fresh: 9 })),
      share("small.example", { accountId: bob, fresh: 9 }),
    ];

    const claimed = await store.claimAttempts({ lanes, now: DUE });

    assert.deepEqual(pluck(claimed.attempts, "host"), ["large.example", "small.example"]);
    assert.deepEqual(pluck(claimed.lanes, "freshDueAt"), [DUE, DUE, null]);
  });

  test("a large postback starts without its texts and has the same request as any other", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    await store.rotateSecret({ login: "ada", next: "whsec_BBBB" });
    const resultText = JSON.stringify("\u{1f600}\u00e9".repeat(40_000));
    const hooks = { postback: webhook("large.example"), pingback: webhook("p.example") };
    const { dataText } = await postTask(store, accountId, hooks);
    await store.finishTask(newFinish(await claimOne(store), { resultText, endedAt: DUE }));

    const pingback = await claimAttempt(store, "p.example", DUE);
    const large = await claimAttempt(store, "large.example", DUE);

    assert.equal(pingback.largeBytes, null);
    assert(large.largeBytes !== null && large.largeBytes > Buffer.byteLength(resultText));
    assert.deepEqual([large.task.inputText, large.task.resultText], [null, null]);
    const request = await store.makeLargePostback(large);
    const wanted = webhookRequest({ ...large, task: { ...large.task, dataText, resultText } });
    assert.deepEqual(request?.headers, wanted.headers);
    // Compared here: a failed assertion would print them.
    assert(Buffer.from(request.body ?? "").equals(Buffer.from(wanted.body ?? "")));

    assert.equal(await store.eraseTask({ id: large.taskId, hasWebhooks: true }), "erased");
    assert.equal(await store.makeLargePostback(large), null);
  });

  test("a disabled account has no lanes and no attempts until it is enabled", async (t) => {
    const { store, again, ada, bob } = await withAccounts(open(t));
    for (const accountId of [ada, bob]) await seedDelivery(store, accountId);
    const other = await again();
    const lanes = [ada, bob].map((accountId) => share("a.example", { accountId, fresh: 9 }));
    await other.setAccountDisabled({ login: "ada", disabledAt: T0 });

    const claimed = await store.claimAttempts({ lanes, now: DUE });

    assert.deepEqual(pluck(claimed.attempts, "accountId"), [bob]);
    assert.deepEqual(claimed.lanes, [lane(), lane({ accountId: bob })]);
    assert.deepEqual(claimed.suspended, [ada]);
    assert.deepEqual([await lanesOf(store), await lanesOf(store, ada)], [[], []]);
    await other.setAccountDisabled({ login: "ada", disabledAt: null });
    assert.deepEqual(await lanesOf(store, ada), [lane({ freshDueAt: DUE })]);
    const later = await store.claimAttempts({ lanes, now: DUE });
    assert.deepEqual([later.attempts.length, later.suspended], [1, []]);
  });

  test("a lane is healthy if its host responded after the last recent delivery", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    const hour = 3_600_000;
    const delivered = { outcome: "delivered", httpStatus: 200, error: null } as const;
    const silent = { outcome: "timed_out", error: "timed out" } as const;
    const failed = { outcome: "failed", httpStatus: 500 } as const;
    const ends: readonly (readonly [number, string, readonly Partial<AttemptResult>[]])[] = [
      [ada, "good.example", [delivered]],
      [ada, "busy.example", [delivered, delivered, failed]],
      [ada, "silent.example", [delivered, silent]],
      [ada, "again.example", [silent, delivered]],
      [ada, "never.example", [failed]],
      [bob, "silent.example", [delivered]],
    ];
    for (const [accountId, host, results] of ends) {
      for (const [index, result] of results.entries()) {
        await seedDelivery(store, accountId, { host });
        const attempt = await claimAttempt(store, host);
        const state = result.outcome === "delivered" ? "delivered" : "given_up";
        const record = { result: newAttemptResult(result), decision: { state } } as const;
        const endedAt = T0 + index * hour;
        await store.recordAttempt(newAttemptRecord(attempt, { ...record, endedAt }));
      }
    }
    const list = async (since: number, max: number) =>
      (await store.listProvenLanes({ since, max })).map(
        ({ accountId, host }) => `${accountId} ${host}`,
      );

    const ofAda = ["busy.example", "again.example", "good.example"].map((host) => `${ada} ${host}`);
    const ofBob = `${bob} silent.example`;
    assert.deepEqual(await list(T0, 100), [...ofAda, ofBob]);
    assert.deepEqual(await list(T0, 4), [...ofAda.slice(0, 2), ofBob]);
    assert.deepEqual(await list(T0 + hour, 100), [ofAda[1], ofAda[0]]);
    await store.setAccountDisabled({ login: "ada", disabledAt: T0 });
    assert.deepEqual(await list(T0, 100), [ofBob]);
  });
}

export function exerciseRecords(open: OpenStore): void {
  test("attempts in flight are listed oldest first until their end is recorded", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    for (const host of ["b.example", "a.example", "c.example"]) {
      await seedDelivery(store, accountId, { host });
    }
    const a = await claimAttempt(store, "a.example");
    const b = await claimAttempt(store, "b.example");

    assert.deepEqual(await inFlight(store), ["b.example", "a.example"]);
    await store.recordAttempt(newAttemptRecord(b));
    assert.deepEqual(await store.listInFlight({ of: "earlier life" }), [
      {
        ...{ seq: a.seq, taskSeq: a.taskSeq, taskId: a.taskId, kind: "postback", number: 1 },
        ...{ retry: 0, accountId, host: "a.example", dueAt: DUE, startedAt: a.startedAt },
      },
    ]);
    await store.recordAttempt(newAttemptRecord(a, { decision: { state: "given_up" } }));
    assert.deepEqual(await inFlight(store), []);
  });

  test("each field of an attempt's result is recorded", async (t) => {
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
    const responseExcerpt = shown?.responseExcerpt ?? "";
    assert([excerpt, excerpt.replaceAll("\u0000", "\u001a")].includes(responseExcerpt));
    const times = { number: 1, dueAt: DUE, startedAt: DUE + 3, endedAt: DUE + 4 };
    assert.deepEqual(shown, { ...times, ...result, responseExcerpt });
  });

  for (const [outcome, state] of [
    ["delivered", "delivered"],
    ["failed", "given_up"],
    ["refused", "refused"],
  ] as const) {
    test(`a ${state} delivery has no further attempt, and its task stays ready`, async (t) => {
      const { store, accountId } = await withAccount(open(t));
      const { id } = await seedDelivery(store, accountId);
      const result = newAttemptResult({ outcome });
      const attempt = await claimAttempt(store);
      await store.recordAttempt(newAttemptRecord(attempt, { result, decision: { state } }));
      const delivery = await theDelivery(store, accountId, id);
      assert.deepEqual([delivery.state, pluck(delivery.attempts, "outcome")], [state, [outcome]]);
      assert.deepEqual([await lanesOf(store), await inFlight(store)], [[], []]);
      assert.equal((await store.findTask({ accountId, id }))?.isReady, true);
    });
  }

  test("the next attempt is scheduled with the record of the last one", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const { id } = await seedDelivery(store, accountId);
    for (const [outcome, dueAt, retry] of [
      ["failed", DUE + 60_000, 1],
      ["interrupted", DUE + 60_000, 1],
      ["timed_out", DUE + 360_000, 2],
    ] as const) {
      const attempt = await claimAttempt(store, "a.example", DUE + 400_000);
      const decision = { state: "scheduled", dueAt, retry } as const;
      const result = newAttemptResult({ outcome });
      await store.recordAttempt(newAttemptRecord(attempt, { result, decision }));
      assert.deepEqual(await lanesOf(store), [lane({ retryDueAt: dueAt })]);
    }

    const { state, attempts } = await theDelivery(store, accountId, id);
    assert.equal(state, "scheduled");
    assert.deepEqual(pluck(attempts, "number", "outcome", "dueAt"), [
      [1, "failed", DUE],
      [2, "interrupted", DUE + 60_000],
      [3, "timed_out", DUE + 60_000],
      [4, null, DUE + 360_000],
    ]);
    const last = await claimAttempt(store, "a.example", DUE + 400_000);
    assert.deepEqual([last.number, last.retry], [4, 2]);
  });

  test("a second record of the end of an attempt has no effect", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const decisions: readonly DeliveryDecision[] = [
      { state: "scheduled", dueAt: DUE + 60_000, retry: 1 },
      ...[{ state: "delivered" } as const, { state: "given_up" } as const],
      { state: "refused" },
    ];
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

  test("the end of an attempt has no effect on a task with the seq of the erased task", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    await seedDelivery(store, accountId, { host: "erased.example" });
    const late = await claimAttempt(store, "erased.example");
    await giveUpAll(store);
    await store.eraseExpired({ now: Number.MAX_SAFE_INTEGER, max: 10 });
    const { id } = await seedDelivery(store, accountId, { host: "new.example", dueAt: T0 + 2000 });
    const own = await claimAttempt(store, "new.example", T0 + 2000);
    await store.recordAttempt(newAttemptRecord(late, { decision: { state: "delivered" } }));
    assert.deepEqual([await inFlight(store), await lanesOf(store)], [["new.example"], []]);
    await store.recordAttempt(newAttemptRecord(own));
    assert.equal((await theDelivery(store, accountId, id)).state, "scheduled");
  });
}

export function exerciseRedelivery(open: OpenStore): void {
  for (const state of ["delivered", "given_up", "refused"] as const) {
    test(`a redelivery of a ${state} webhook begins with a first attempt, due immediately`, async (t) => {
      const { store, accountId } = await withAccount(open(t));
      const { id } = await seedDelivery(store, accountId);
      await end(store, { state });

      const again = { accountId, id, kind: null, states: null, now: T0 + 5000 };
      assert.deepEqual(await store.redeliver(again), [ref("a.example")]);

      assert.deepEqual(await lanesOf(store), [lane({ freshDueAt: T0 + 5000 })]);
      const delivery = await theDelivery(store, accountId, id);
      assert.equal(delivery.state, "scheduled");
      assert.deepEqual(pluck(delivery.attempts, "number", "dueAt"), [
        [1, DUE],
        [1, T0 + 5000],
      ]);
      const { number, retry } = await claimAttempt(store, "a.example", T0 + 5000);
      assert.deepEqual([number, retry], [1, 0]);
    });
  }

  test("a redelivery makes a scheduled retry due, and has no effect in flight", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const { id } = await seedDelivery(store, accountId);
    await end(store, { state: "scheduled", dueAt: T0 + 60_000, retry: 1 });
    const order = { accountId, id, kind: "postback", states: null } as const;
    assert.deepEqual(await store.redeliver({ ...order, now: T0 + 5000 }), [ref("a.example")]);
    // A due attempt is not postponed.
    assert.deepEqual(await store.redeliver({ ...order, now: T0 + 9000 }), [ref("a.example")]);
    assert.deepEqual(await lanesOf(store), [lane({ retryDueAt: T0 + 5000 })]);
    const { number, retry } = await claimAttempt(store, "a.example", T0 + 5000);
    assert.deepEqual([number, retry], [2, 1]);
    assert.deepEqual(await store.redeliver({ ...order, now: T0 + 9000 }), []);
    assert.equal((await theDelivery(store, accountId, id)).attempts.length, 2);
  });

  test("a redelivery is limited to its account, its kind and its states", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    const hooks = { postback: webhook("a.example"), pingback: webhook("b.example") };
    const { id } = await postTask(store, ada, hooks);
    const order = { accountId: ada, id, kind: null, states: null, now: T0 + 5000 } as const;
    assert.deepEqual(await store.redeliver(order), []);
    await store.finishTask(newFinish(await claimOne(store)));
    await end(store, { state: "given_up" });
    await end(store, { state: "delivered" }, "b.example");
    const undelivered = { ...order, states: ["given_up", "refused"] } as const;

    assert.deepEqual(await store.redeliver({ ...order, accountId: bob }), []);
    assert.deepEqual(await store.redeliver({ ...order, id: newTaskId() }), []);
    assert.deepEqual(await store.redeliver({ ...order, states: ["refused"] }), []);
    assert.deepEqual(await store.redeliver({ ...undelivered, kind: "pingback" }), []);
    assert.deepEqual(await store.redeliver(undelivered), [ref("a.example")]);
    // It is scheduled by now.
    assert.deepEqual(await store.redeliver({ ...undelivered, now: T0 + 3000 }), []);
    const delivered = { ...order, kind: "pingback", states: ["delivered"] } as const;
    assert.deepEqual(await store.redeliver(delivered), [ref("b.example")]);

    const due = { freshDueAt: T0 + 5000 };
    const lanes = [lane({ host: "a.example", ...due }), lane({ host: "b.example", ...due })];
    assert.deepEqual(await lanesOf(store), lanes);
  });

  test("20 concurrent redeliveries begin one first attempt", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const { id } = await seedDelivery(store, accountId);
    await end(store, { state: "given_up" });
    const order = { accountId, id, kind: null, states: null, now: T0 + 5000 } as const;
    await Promise.all(Array.from({ length: 20 }, () => store.redeliver(order)));
    assert.equal((await theDelivery(store, accountId, id)).attempts.length, 2);
  });

  test("the last 100 attempts of a delivery are listed, oldest first", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const { id } = await seedDelivery(store, accountId);
    for (let i = 0; i < 120; i++) {
      const attempt = await claimAttempt(store, "a.example", DUE + i);
      await store.recordAttempt(newAttemptRecord(attempt, { decision: { state: "given_up" } }));
      await store.redeliver({ accountId, id, kind: null, states: null, now: DUE + 1 + i });
    }
    const { attempts } = await theDelivery(store, accountId, id);
    const expected = Array.from({ length: 100 }, (_, i) => DUE + 21 + i);
    assert.deepEqual(pluck(attempts, "dueAt"), expected);
  });
}

/** The place before everything that a test makes. */
async function beginOf(store: Store, accountId: number): Promise<number> {
  return (await store.listAttempts({ accountId, after: null, limit: 1, now: 0 })).next;
}

/** As all nodes have committed what a test has made. */
function list(
  store: Store,
  query: { readonly accountId: number; readonly after: number | null; readonly limit?: number },
): Promise<AttemptPage> {
  return store.listAttempts({ limit: 100, now: T0, ...query });
}

export function exerciseAttemptList(open: OpenStore): void {
  test("each attempt of an account is listed once, in the order of its schedule", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    const begin = await beginOf(store, ada);
    await seedEnded(store, bob, { hosts: ["b.example"] });
    const [first] = await seedDue(store, ada, ["a.example"]);
    await store.recordAttempt(newAttemptRecord(await claimAttempt(store)));
    const [second] = await seedEnded(store, ada, { hosts: ["c.example"] });
    await seedDue(store, bob, ["d.example"]);

    const { attempts } = await list(store, { accountId: ada, after: begin });
    const pages = [];
    for (let after = begin, isMore = true; isMore;) {
      const page = await list(store, { accountId: ada, after, limit: 1 });
      pages.push(...page.attempts);
      [after, isMore] = [page.next, page.hasMore];
    }

    assert.deepEqual(pluck(attempts, "taskId", "kind", "number", "startedAt"), [
      [first?.id, "postback", 1, T0 + 1000],
      [first?.id, "postback", 2, null],
      [second?.id, "postback", 1, T0 + 1000],
    ]);
    assert.deepEqual(pages, attempts);
  });

  test("without a place the scheduled attempts of the account are listed, soonest due first", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    await seedDue(store, bob, ["b.example"]);
    const [retried] = await seedDue(store, ada, ["a.example"]);
    await store.recordAttempt(newAttemptRecord(await claimAttempt(store)));
    await seedEnded(store, ada, { hosts: ["c.example"] });
    const [fresh] = await seedDue(store, ada, ["d.example"]);

    const page = await list(store, { accountId: ada, after: null });
    const soonest = await list(store, { accountId: ada, after: null, limit: 1 });

    assert.deepEqual(pluck(page.attempts, "taskId", "number"), [
      [fresh?.id, 1],
      [retried?.id, 2],
    ]);
    assert.deepEqual(soonest.attempts, page.attempts.slice(0, 1));
    const rest = await list(store, { accountId: ada, after: page.next });
    assert.deepEqual([rest.attempts, rest.hasMore], [[], false]);
  });

  test("a started or ended attempt is listed again after the place before it", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    await seedDue(store, accountId, ["a.example", "b.example"]);
    const scheduled = await list(store, { accountId, after: null });
    const [first] = scheduled.attempts;
    assert.ok(first !== undefined);
    const again = () => list(store, { accountId, after: first.seq - 1, limit: 1 });
    assert.deepEqual((await again()).attempts, [first]);
    await endDue(store, ["a.example", "b.example"], {});
    assert.deepEqual((await again()).attempts, [{ ...first, startedAt: T0 + 1000 }]);
  });
}

const EVERYTHING: PauseScope = { accountId: null, host: null };

function newPause(overrides: Partial<NewDeliveryPause> = {}): NewDeliveryPause {
  return { ...EVERYTHING, since: T0, reason: null, pausedBy: "root", ...overrides };
}

export function exerciseDeliveryPauses(open: OpenStore): void {
  test("every process lists a pause with its reason until its own scope is resumed", async (t) => {
    const { store, again } = await open(t);
    const other = await again();
    const accountId = await seedAccount(store, "ada");
    const lane = { accountId, host: "a.example" };

    assert.equal(await store.pauseDeliveries(newPause({ reason: "a rehearsal" })), "paused");
    assert.equal(await store.pauseDeliveries(newPause({ ...lane, since: T0 + 1 })), "paused");

    const everything = { ...newPause({ reason: "a rehearsal" }), login: null };
    const ofLane = { ...newPause({ ...lane, since: T0 + 1 }), login: "ada" };
    assert.deepEqual(await other.listDeliveryPauses(), [everything, ofLane]);
    assert.equal(await other.resumeDeliveries({ accountId, host: null }), false);
    assert.equal(await other.resumeDeliveries({ accountId: null, host: "a.example" }), false);
    assert.equal(await other.resumeDeliveries(EVERYTHING), true);
    assert.equal(await other.resumeDeliveries(EVERYTHING), false);
    assert.deepEqual(await store.listDeliveryPauses(), [ofLane]);
  });

  test("a scope is paused once and keeps its first time", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const scopes = [
      EVERYTHING,
      { accountId, host: null },
      { accountId: null, host: "a.example" },
      { accountId, host: "a.example" },
    ];
    for (const scope of scopes) {
      assert.equal(await store.pauseDeliveries(newPause(scope)), "paused");
      assert.equal(
        await store.pauseDeliveries(newPause({ ...scope, since: T0 + 9, reason: "again" })),
        "paused already",
      );
    }

    const pauses = await store.listDeliveryPauses();
    assert.deepEqual(
      pluck(pauses, "since", "reason"),
      scopes.map(() => [T0, null]),
    );
  });

  test("the number of pauses has a limit, and existing pauses stay", async (t) => {
    const { store } = await open(t);
    const pauses = Array.from({ length: PAUSES_MAX }, (_, i) =>
      newPause({ host: `h${i}.example` }),
    );
    await Promise.all(pauses.map((pause) => store.pauseDeliveries(pause)));
    assert.equal(await store.pauseDeliveries(newPause()), "too many");
    assert.equal(await store.pauseDeliveries(newPause({ host: "h0.example" })), "paused already");
    assert.equal((await store.listDeliveryPauses()).length, PAUSES_MAX);
  });

  test("scheduled attempts are counted for all lanes, a host, an account and one lane", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    await seedDelivery(store, ada, { host: "a.example" });
    await seedDelivery(store, ada, { host: "b.example" });
    await seedDelivery(store, bob, { host: "a.example" });
    await store.pauseDeliveries(newPause());

    const counted = [
      EVERYTHING,
      { accountId: null, host: "a.example" },
      { accountId: ada, host: null },
      { accountId: ada, host: "b.example" },
      { accountId: bob, host: "b.example" },
    ].map((scope) => store.countScheduled(scope));

    assert.deepEqual(await Promise.all(counted), [3, 2, 2, 1, 0]);
  });

  test("the pauses of an account end with it", async (t) => {
    const { store } = await open(t);
    const accountId = await seedAccount(store, "ada");
    await store.pauseDeliveries(newPause({ accountId }));
    await store.setAccountDisabled({ login: "ada", disabledAt: T0 });
    while ((await store.eraseAccountPart({ login: "ada" })).kind === "more");
    assert.deepEqual(await store.listDeliveryPauses(), []);
  });
}
