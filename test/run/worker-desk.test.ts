import assert from "node:assert/strict";
import { test } from "node:test";

import type { LeaseOutcome } from "../../src/domain/lease/lease.ts";
import type { Logger } from "../../src/domain/log.ts";
import type { TaskProgress } from "../../src/domain/task/run.ts";
import { WorkerDesk, type WorkerType } from "../../src/run/worker-desk.ts";
import { newLoneNode } from "../../src/store/common/lone-node.ts";
import {
  StoreError,
  type Lease,
  type LeaseClaim,
  type LeasedTask,
  type LeaseEnd,
  type LeaseEndResult,
  type LeaseEnds,
  type LeaseStore,
} from "../../src/store/store.ts";
import { newClaimedTask } from "../helpers/claimed-task.ts";
import { FakeCluster } from "../helpers/cluster.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

const log: Logger = { debug() {}, info() {}, warn() {}, error() {} };
const LEASE_MS = 30_000;
const WORKER = 7;
const TYPE: WorkerType = { concurrency: 100, retries: 0, leaseMs: LEASE_MS, timeoutMs: 600_000 };

/** A claim of the store, which the test ends. */
interface AskedClaim {
  readonly claim: LeaseClaim;
  readonly bring: (...tasks: readonly LeasedTask[]) => Promise<void>;
  readonly refuse: (error: Error) => Promise<void>;
}

/** A desk on a store of the test. */
class Setup {
  readonly clock = createFakeClock({ now: 1_000_000 });
  readonly claims: AskedClaim[] = [];
  readonly ends: LeaseEnd[] = [];
  readonly told: string[] = [];
  readonly faults: unknown[] = [];
  readonly progress = new Map<string, TaskProgress>();
  readonly known = new Map<string, Lease>();
  heartbeatOutcome: LeaseOutcome = "ok";
  /** Heartbeats end after this. */
  beatsHeld: Promise<void> = Promise.resolve();
  endOutcome = ({ ends }: LeaseEnds): readonly LeaseEndResult[] =>
    ends.map(() => ({ outcome: "ok", isNew: true, lanes: [] }));
  due: readonly Lease[] = [];
  duePolls = 0;
  resumed: readonly Lease[] = [];
  /** The leases of an earlier process are read after this. */
  resumeHeld: Promise<void> = Promise.resolve();
  /** Ends of leases end after this. */
  endsHeld: Promise<void> = Promise.resolve();
  readonly desk: WorkerDesk;

  constructor(
    types: Readonly<Record<string, Partial<WorkerType>>> = { print: {} },
    { isShared = false } = {},
  ) {
    const entries = Object.entries(types).map(([name, of]) => [name, { ...TYPE, ...of }] as const);
    this.desk = new WorkerDesk({
      ...{ clock: this.clock, log, giveUp: new AbortController().signal, store: this.#store() },
      ...{ types: new Map(entries), retentionMs: 1000, progress: this.progress },
      cluster: isShared ? new FakeCluster(this.clock) : newLoneNode(this.clock),
      mayReap: () => true,
      health: { noteRun: (isFine) => void this.told.push(isFine ? "fine" : "not fine") },
      taskEnded: (id) => void this.told.push(`ended ${id}`),
      deliveriesDue: (lanes) => void this.told.push(`due ${lanes.map(({ host }) => host).join()}`),
      wake: (type) => {
        this.told.push(`wake ${type ?? "all"}`);
        this.desk.wake(type);
      },
      failed: (error) => void this.faults.push(error),
    });
  }

  #store(): LeaseStore {
    return {
      claimLeases: (claim) =>
        new Promise((resolve, reject) => {
          const bring = (...tasks: readonly LeasedTask[]) => (resolve(tasks), turn());
          const refuse = (error: Error) => (reject(error), turn());
          this.claims.push({ claim, bring, refuse });
        }),
      extendLeases: async ({ leases }) => {
        await this.beatsHeld;
        return leases.map(() => this.heartbeatOutcome);
      },
      endLeases: async (ends) => {
        this.ends.push(...ends.ends);
        await this.endsHeld;
        return this.endOutcome(ends);
      },
      findLeases: async ({ leases }) =>
        leases.map(({ leaseId }) => this.known.get(leaseId) ?? null),
      listDueLeases: async () => {
        this.duePolls++;
        return this.due;
      },
      resumeLeases: async () => {
        await this.resumeHeld;
        return this.resumed;
      },
    };
  }

  /** Claims tasks; the ids are in `answer` at the end. */
  poll({ types = ["print"], max = 1, waitMs = 30_000 } = {}) {
    const gone = new AbortController();
    const poll = { answer: null as readonly string[] | null, fault: null as unknown, gone };
    this.desk.claim({ workerId: WORKER, types, max, waitMs, gone: gone.signal }).then(
      (tasks) => (poll.answer = tasks.map(({ id }) => id)),
      (error: unknown) => (poll.fault = error),
    );
    return poll;
  }

  /** The next claim of the store. */
  next(): AskedClaim {
    const claim = this.claims.shift();
    assert(claim !== undefined, "the store is asked for a claim");
    return claim;
  }
}

const A = { id: "a", leaseId: "lease of a" };

function task(
  id: string,
  { type = "print", accountId = 1, leaseId = `lease of ${id}` } = {},
): LeasedTask {
  return { ...newClaimedTask({ id, type, accountId }), leaseId, leaseExpiresAt: 0 };
}

function lease(id: string, facts: Partial<Lease> = {}): Lease {
  const times = { expiresAt: 1_000_000, deadlineAt: 2_000_000 };
  return {
    id,
    leaseId: `lease of ${id}`,
    type: "print",
    failures: 0,
    losses: 0,
    ...times,
    ...facts,
  };
}

const maxOf = ({ claim }: AskedClaim) => claim.types.map(({ max }) => max);

/** Waits for the effects of settled promises. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

test("a thousand workers that wait for an empty queue cause no claim", async () => {
  const setup = new Setup();
  const polls = Array.from({ length: 1000 }, () => setup.poll());
  for (let second = 0; second < 29; second++) {
    setup.clock.advance(1000);
    setup.desk.tick();
  }
  await turn();
  assert.equal(setup.claims.length, 0);
  assert.ok(polls.every(({ answer }) => answer === null));
  setup.clock.advance(1000);
  await turn();
  assert.ok(polls.every(({ answer }) => answer?.length === 0));
  assert.deepEqual(setup.clock.pending(), []);
  assert.equal(setup.claims.length, 0);
});

test("one task causes one claim for the first of a thousand waiting workers, and at most two empty claims", async () => {
  for (const max of [1, 10]) {
    const setup = new Setup();
    const polls = Array.from({ length: 1000 }, () => setup.poll({ max }));
    setup.desk.wake("print");
    assert.equal(setup.claims.length, 1);
    await setup.next().bring(task("a"));
    assert.ok(setup.claims.length <= 2);
    while (setup.claims.length > 0) await setup.next().bring();
    assert.deepEqual(polls[0]?.answer, ["a"]);
    assert.ok(polls.slice(1).every(({ answer }) => answer === null));
    setup.desk.tick();
    assert.equal(setup.claims.length, 0);
  }
});

test("a long queue serves waiting workers in their order, with at most 64 claims at the same time", async () => {
  const setup = new Setup({ print: { concurrency: 1000 } });
  const polls = Array.from({ length: 200 }, () => setup.poll());
  setup.desk.wake("print");
  const rounds: number[] = [];
  for (let id = 0; setup.claims.length > 0;) {
    const round = setup.claims.splice(0);
    rounds.push(round.length);
    await Promise.all(round.map(({ bring }) => bring(task(String(id++)))));
  }
  assert.deepEqual(rounds, [1, 2, 4, 8, 16, 32, 64, 64, 9]);
  assert.deepEqual(
    polls.map(({ answer }) => answer),
    polls.map((_, i) => [String(i)]),
  );
});

test("a claim that ended at the length of its inputs, or at its number of tasks, is followed by another", async () => {
  for (const [max, inputText] of [
    [10, "x".repeat(4 * 1024 * 1024)],
    [1, "x"],
  ] as const) {
    const setup = new Setup({ print: {}, scan: {} });
    const types = ["print", "scan"];
    setup.poll({ types, max });
    setup.poll({ types: ["scan"] });
    setup.desk.wake();
    await setup.next().bring({ ...task("a"), inputText });
    assert.deepEqual(
      setup.next().claim.types.map(({ type }) => type),
      ["scan"],
    );
  }
});

test("a wake during an empty claim is not lost", async () => {
  const setup = new Setup();
  const poll = setup.poll();
  setup.desk.wake("print");
  const early = setup.next();
  setup.desk.wake("print");
  await early.bring();
  await setup.next().bring(task("a"));
  assert.deepEqual(poll.answer, ["a"]);
});

test("a claim without a wait gets queued tasks, after the claims in progress", async () => {
  const setup = new Setup();
  const empty = setup.poll({ waitMs: 0 });
  await turn();
  assert.deepEqual(empty.answer, []);
  setup.desk.wake("print");
  const first = setup.poll({ waitMs: 0 });
  const second = setup.poll({ waitMs: 0 });
  const third = setup.poll({ waitMs: 0 });
  await setup.next().bring(task("a"));
  assert.deepEqual([first.answer, second.answer], [["a"], null]);
  // The claim for the third poll began after the claim that took the last task.
  await setup.next().bring(task("b"));
  assert.deepEqual([second.answer, third.answer], [["b"], null]);
  await setup.next().bring();
  assert.deepEqual(third.answer, []);
  assert.equal(setup.claims.length, 0);
});

test("the end of a wait during a claim takes effect after the claim", async () => {
  const setup = new Setup();
  const poll = setup.poll({ waitMs: 1000 });
  setup.desk.wake("print");
  setup.clock.advance(1000);
  await turn();
  assert.equal(poll.answer, null);
  await setup.next().bring(task("a"));
  assert.deepEqual(poll.answer, ["a"]);
});

test("a client that disconnects while nothing is queued gets no task", async () => {
  const setup = new Setup();
  const [first, second] = [setup.poll(), setup.poll()];
  first.gone.abort();
  await turn();
  assert.deepEqual(first.answer, []);
  setup.desk.wake("print");
  await setup.next().bring(task("a"));
  assert.deepEqual([second.answer, setup.ends], [["a"], []]);
});

test("tasks claimed for a disconnected client are released immediately, without a run", async () => {
  const setup = new Setup();
  const first = setup.poll({ max: 2 });
  const second = setup.poll();
  setup.desk.wake("print");
  first.gone.abort();
  await setup.next().bring(task("a"), task("b"));
  assert.deepEqual(first.answer, []);
  const sequel = { kind: "requeue", isRunCounted: false };
  assert.deepEqual(setup.ends, [
    { id: "a", leaseId: "lease of a", how: "released", sequel },
    { id: "b", leaseId: "lease of b", how: "released", sequel },
  ]);
  assert.ok(setup.told.includes("wake print"));
  await setup.next().bring(task("a", { leaseId: "next lease of a" }));
  assert.deepEqual(second.answer, ["a"]);
});

test("the leases of a type never exceed its concurrency, including claims in progress and earlier processes", async () => {
  const setup = new Setup({ print: { concurrency: 3 } });
  setup.resumed = [lease("old")];
  await setup.desk.recover();
  for (let i = 0; i < 5; i++) setup.poll({ max: 2 });
  setup.desk.wake("print");
  setup.desk.wake("print");
  assert.deepEqual(maxOf(setup.next()), [2]);
  assert.equal(setup.claims.length, 0);

  const other = new Setup({ print: { concurrency: 3 } });
  const waiting = Array.from({ length: 5 }, () => other.poll({ max: 2 }));
  other.desk.wake("print");
  await other.next().bring(task("a"), task("b"));
  const second = other.next();
  assert.deepEqual(maxOf(second), [1]);
  assert.equal(other.claims.length, 0);
  await second.bring(task("c"));
  assert.deepEqual(waiting[1]?.answer, ["c"]);
  assert.equal(other.claims.length, 0);

  await other.desk.complete(WORKER, [{ id: "b", leaseId: "lease of b", resultText: "1" }]);
  const third = other.next();
  assert.deepEqual(maxOf(third), [1]);
  await third.bring(task("d"));
  other.desk.cancel("d");
  await other.next().bring(task("e"));
  assert.equal(other.claims.length, 0);
});

test("a lease that ends while leases of an earlier process are read holds no slot", async () => {
  const setup = new Setup({ print: { concurrency: 1 } });
  setup.resumed = [lease("a")];
  const { promise, resolve } = Promise.withResolvers<void>();
  setup.resumeHeld = promise;
  const recovered = setup.desk.recover();
  await setup.desk.complete(WORKER, [{ ...A, resultText: "1" }]);
  resolve();
  await recovered;
  setup.poll();
  setup.desk.wake("print");
  assert.equal(setup.claims.length, 1);
});

test("the end of another node's lease is followed by a claim", async () => {
  const setup = new Setup({ print: {} }, { isShared: true });
  setup.poll();
  await setup.desk.complete(WORKER, [{ ...A, resultText: "1" }]);
  assert.equal(setup.claims.length, 1);
});

test("every end of a lease frees its slot once", async () => {
  const ways: Readonly<Record<string, (setup: Setup) => Promise<unknown>>> = {
    completed: ({ desk }) => desk.complete(WORKER, [{ ...A, resultText: "1" }]),
    failed: ({ desk }) =>
      desk.fail(WORKER, [{ ...A, message: "", detailText: "null", retry: null }]),
    released: ({ desk }) => desk.release(WORKER, [A]),
    cancelled: async ({ desk }) => desk.cancel("a"),
    expired: async (setup) => {
      setup.due = [lease("a")];
      setup.desk.tick();
    },
  };
  for (const [way, end] of Object.entries(ways)) {
    const setup = new Setup({ print: { concurrency: 1 } });
    setup.resumed = [lease("a")];
    setup.known.set("lease of a", lease("a"));
    await setup.desk.recover();
    setup.poll();
    setup.poll();
    setup.desk.wake("print");
    assert.equal(setup.claims.length, 0, way);
    await end(setup);
    await end(setup);
    await turn();
    assert.equal(setup.claims.length, 1, way);
  }
});

test("a lease that a late heartbeat revives takes its slot again, unless it ends meanwhile", async () => {
  for (const endsMeanwhile of [false, true]) {
    const setup = new Setup({ print: { concurrency: 1 } });
    setup.known.set("lease of a", lease("a"));
    const beat = setup.desk.heartbeat(WORKER, [{ ...A, progress: null }]);
    if (endsMeanwhile) {
      await setup.desk.complete(WORKER, [{ ...A, resultText: "1" }]);
    }
    await beat;
    setup.poll();
    setup.desk.wake("print");
    assert.equal(setup.claims.length, endsMeanwhile ? 1 : 0);
  }
});

test("a lease that expires during the heartbeat that revives it takes its slot again", async () => {
  const setup = new Setup({ print: { concurrency: 1 } });
  setup.resumed = [lease("a")];
  setup.known.set("lease of a", lease("a"));
  await setup.desk.recover();
  setup.due = [lease("a")];
  const { promise: held, resolve: answerBeats } = Promise.withResolvers<void>();
  setup.beatsHeld = held;
  const progress = { progress: 0.5, note: null };
  const beat = setup.desk.heartbeat(WORKER, [{ ...A, progress }]);
  setup.desk.tick();
  await turn();
  assert.deepEqual(
    setup.ends.map(({ how }) => how),
    ["expired"],
  );
  answerBeats();
  await beat;
  setup.poll();
  setup.desk.wake("print");
  assert.equal(setup.claims.length, 0);
  assert.deepEqual(setup.progress.get("a"), progress);
});

test("a task that is cancelled during its claim is not given to a worker, and holds no slot", async () => {
  const setup = new Setup({ print: { concurrency: 1 } });
  const poll = setup.poll();
  setup.desk.wake("print");
  setup.desk.cancel("a");
  await setup.next().bring(task("a"));
  assert.equal(poll.answer, null);
  await setup.next().bring(task("b"));
  assert.deepEqual(poll.answer, ["b"]);
});

test("the types of a worker take turns to be first", async () => {
  const setup = new Setup({ print: {}, scan: {} });
  const asked: string[] = [];
  for (let i = 0; i < 4; i++) {
    setup.desk.wake();
    setup.poll({ types: ["print", "scan"] });
    const { claim, bring } = setup.next();
    asked.push(claim.types.map(({ type }) => type).join());
    const [first] = claim.types;
    await bring(task(String(i), { type: first?.type ?? "", accountId: i + 10 }));
  }
  assert.deepEqual(asked, ["print,scan", "scan,print", "print,scan", "scan,print"]);
});

test("a stop ends all waits, gives out no task, and accepts results", async () => {
  const setup = new Setup();
  const claiming = setup.poll();
  const waiting = setup.poll();
  setup.desk.wake("print");
  setup.desk.announceStop();
  setup.desk.drain();
  await turn();
  assert.deepEqual([claiming.answer, waiting.answer], [null, []]);
  assert.equal(setup.desk.isDraining, true);
  await setup.next().bring(task("a"));
  assert.deepEqual(claiming.answer, ["a"]);
  setup.desk.wake("print");
  const late = setup.poll();
  await turn();
  assert.deepEqual(late.answer, []);
  assert.equal(setup.claims.length, 0);
  const completion = { ...A, resultText: "1" };
  assert.deepEqual(await setup.desk.complete(WORKER, [completion]), ["ok"]);
  assert.deepEqual(await setup.desk.heartbeat(WORKER, [{ ...completion, progress: null }]), ["ok"]);
});

test("after a fault no task is given out, and workers do not see a stop", async () => {
  const setup = new Setup();
  const [claiming, waiting] = [setup.poll(), setup.poll()];
  setup.desk.wake("print");
  setup.desk.drain();
  await setup.next().bring();
  setup.desk.wake("print");
  await turn();
  assert.deepEqual([claiming.answer, waiting.answer], [[], []]);
  assert.equal(setup.claims.length, 0);
  assert.equal(setup.desk.isDraining, false);
});

test("a claim that the store refuses rejects, and the next claim follows at the next tick", async () => {
  const setup = new Setup();
  const first = setup.poll();
  const second = setup.poll();
  setup.desk.wake("print");
  const error = new StoreError("full", "no space");
  await setup.next().refuse(error);
  assert.equal(first.fault, error);
  assert.equal(setup.claims.length, 0);
  setup.desk.tick();
  await setup.next().bring(task("a"));
  assert.deepEqual(second.answer, ["a"]);
  assert.deepEqual(setup.faults, []);
});

test("a permanent failure of the store is reported to the engine", async () => {
  const setup = new Setup();
  const poll = setup.poll();
  setup.desk.wake("print");
  const error = new StoreError("failed", "I/O error");
  await setup.next().refuse(error);
  assert.equal(poll.fault, error);
  assert.deepEqual(setup.faults, [error]);
});

test("the progress of valid leases is kept until the end of the run", async () => {
  const setup = new Setup();
  setup.resumed = [lease("a")];
  await setup.desk.recover();
  const progress = { progress: 0.5, note: "half" };
  const beat = { ...A, progress };
  await setup.desk.heartbeat(WORKER, [beat]);
  await setup.desk.heartbeat(WORKER, [{ ...beat, progress: null }]);
  assert.deepEqual(setup.progress.get("a"), progress);
  setup.heartbeatOutcome = "lost";
  await setup.desk.heartbeat(WORKER, [{ ...beat, progress: { progress: 0.9, note: null } }]);
  assert.deepEqual(setup.progress.get("a"), progress);
  await setup.desk.release(WORKER, [beat]);
  assert.equal(setup.progress.get("a"), undefined);
  assert.deepEqual(setup.told, ["wake print"], "a release counts as no run");

  // Of an earlier lease that ended at another node.
  setup.progress.set("b", progress);
  setup.poll();
  setup.desk.wake("print");
  await setup.next().bring(task("b"));
  assert.equal(setup.progress.get("b"), undefined);
});

test("a failure is retried by the wish of the worker, otherwise by its type", async () => {
  const cases = [
    { retries: 0, failures: 0, retry: null, waitMs: null },
    { retries: 2, failures: 1, retry: null, waitMs: 2000 },
    { retries: 2, failures: 2, retry: null, waitMs: null },
    { retries: 2, failures: 0, retry: false, waitMs: null },
    { retries: 0, failures: 0, retry: true, waitMs: 1000 },
    { retries: 0, failures: 3, retry: true, waitMs: 8000 },
    { retries: 0, failures: 5000, retry: true, waitMs: 60_000 },
  ];
  for (const { retries, failures, retry, waitMs } of cases) {
    const setup = new Setup({ print: { retries } });
    setup.known.set("lease of a", lease("a", { failures }));
    const failure = { message: 'out of "paper"', detailText: "12345678901234567890", retry };
    await setup.desk.fail(WORKER, [{ id: "a", leaseId: "lease of a", ...failure }]);
    const now = setup.clock.now();
    const errorText = String.raw`{"message":"out of \"paper\"","detail":12345678901234567890}`;
    const until = { expiresAt: now + 1000, eraseAt: setup.clock.steady() + 1000 };
    const end = { endedAt: now, ...until, resultText: null, errorText };
    const sequel =
      waitMs === null
        ? { kind: "finish", state: "failed", code: 50010, ...end }
        : { kind: "retry", startAt: now + waitMs };
    assert.deepEqual(setup.ends, [{ id: "a", leaseId: "lease of a", how: "failed", sequel }]);
  }
});

test("a failure of an unconfigured type is final, and the store decides about a lost lease", async () => {
  const setup = new Setup();
  setup.known.set("lease of a", lease("a", { type: "gone" }));
  setup.endOutcome = ({ ends }) =>
    ends.map((_, i) => ({
      outcome: i === 0 ? "ok" : "lost",
      isNew: i === 0,
      lanes: [{ accountId: 1, host: "h" }],
    }));
  const failure = { message: "", detailText: "null", retry: null };
  const outcomes = await setup.desk.fail(WORKER, [
    { id: "a", leaseId: "lease of a", ...failure },
    { id: "b", leaseId: "lease of b", ...failure },
  ]);
  assert.deepEqual(outcomes, ["ok", "lost"]);
  assert.deepEqual(
    setup.ends.map(({ sequel }) => sequel.kind),
    ["finish", "finish"],
  );
  assert.deepEqual(setup.told, ["not fine", "ended a", "due h"]);
});

test("empty requests cause no call of the store", async () => {
  const setup = new Setup();
  assert.deepEqual(await setup.desk.heartbeat(WORKER, []), []);
  assert.deepEqual(await setup.desk.complete(WORKER, []), []);
  assert.deepEqual(await setup.desk.fail(WORKER, []), []);
  assert.deepEqual(await setup.desk.release(WORKER, []), []);
  assert.deepEqual(setup.ends, []);
});

test("no lease begins or ends between a step of the clock and the move of the leases", async () => {
  const setup = new Setup();
  setup.due = [lease("a")];
  const poll = setup.poll();
  const { promise: moved, resolve: tellMoved } = Promise.withResolvers<void>();
  setup.desk.clockWasSet(moved);
  setup.desk.wake("print");
  setup.desk.tick();
  await turn();
  assert.deepEqual([setup.duePolls, setup.claims.length], [0, 0]);
  tellMoved();
  await turn();
  assert.deepEqual([setup.duePolls, setup.claims.length], [1, 1]);
  await setup.next().bring(task("b"));
  assert.deepEqual(poll.answer, ["b"]);
});

test("expired leases that were read before a step of the clock are read again after it", async () => {
  const setup = new Setup();
  setup.due = [lease("a", { deadlineAt: 1_500_000 })];
  setup.desk.tick();
  const { promise: moved, resolve: tellMoved } = Promise.withResolvers<void>();
  setup.desk.clockWasSet(moved);
  setup.clock.step(3_600_000);
  await turn();
  assert.deepEqual([setup.duePolls, setup.ends.length], [1, 0]);
  setup.due = [];
  tellMoved();
  await turn();
  assert.deepEqual([setup.duePolls, setup.ends.length], [2, 0]);
});

test("on a shared store a request is unknown after 5 s, and a late claim is released", async () => {
  const setup = new Setup({ print: {} }, { isShared: true });
  const held = Promise.withResolvers<void>();
  setup.beatsHeld = held.promise;
  setup.endsHeld = held.promise;
  const { desk, clock } = setup;
  desk.wake();
  const poll = setup.poll();
  const [a, b] = [task("a"), task("b")];
  const told: unknown[] = [];
  const asked = [
    desk.heartbeat(WORKER, [{ ...a, progress: null }]),
    desk.complete(WORKER, [{ ...a, resultText: "1" }]),
    desk.fail(WORKER, [{ ...a, message: "", detailText: "null", retry: false }]),
    desk.release(WORKER, [a]),
  ];
  for (const answer of asked) answer.catch((error: unknown) => told.push(error));
  await turn();
  clock.advance(4999);
  await turn();
  assert.equal(poll.fault, null);

  clock.advance(1);
  await turn();

  assert.equal(told.length, 4);
  for (const reason of [...told, poll.fault]) {
    assert(reason instanceof StoreError && reason.kind === "unknown", String(reason));
  }
  setup.ends.length = 0;
  await setup.next().bring(b);
  assert.deepEqual(
    setup.ends.map(({ id, how }) => [id, how]),
    [["b", "released"]],
  );
  held.resolve();
  await desk.quiet();
  assert.deepEqual(setup.faults, []);
});
