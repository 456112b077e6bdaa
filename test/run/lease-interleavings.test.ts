import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { ClockWatch } from "../../src/domain/clock/service-clock.ts";
import type { LeaseOutcome, LeaseRef } from "../../src/domain/lease/lease.ts";
import type { Logger } from "../../src/domain/log.ts";
import type { TaskProgress } from "../../src/domain/task/run.ts";
import { WorkerDesk } from "../../src/run/worker-desk.ts";
import { newLoneNode } from "../../src/store/common/lone-node.ts";
import type { LeasedTask, LeaseEnds, LeaseStore, Store } from "../../src/store/store.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import {
  newPost,
  newTask,
  openTestStore,
  retainedUntil,
  RETENTION_MS,
  seedAccount,
  seedWorker,
  T0,
} from "../helpers/store.ts";

const log: Logger = { debug() {}, info() {}, warn() {}, error() {} };
const CONCURRENCY = 6;
const TYPE = { concurrency: CONCURRENCY, retries: 2, leaseMs: 30_000, timeoutMs: 90_000 };

/** Numbers from 0 to `below`, equal for equal seeds. */
function newRandom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** Workers, clients and a clock in random order on the real store, and the rules that must hold. */
class Turmoil {
  readonly clock = createFakeClock({ now: T0 });
  readonly watch = new ClockWatch(this.clock);
  readonly tasks: string[] = [];
  /** Every lease that was ever handed out. */
  readonly leases: LeaseRef[] = [];
  /** By task: its newest lease, and whether that has ended. */
  readonly newest = new Map<string, { readonly leaseId: string; ended: boolean }>();
  /** By task: the lease with which it was completed. */
  readonly completedWith = new Map<string, string>();
  readonly #store: Store;
  readonly #accountId: number;
  readonly #workerId: number;
  readonly #pick: (below: number) => number;
  desk: WorkerDesk;

  constructor(
    store: Store,
    {
      accountId,
      workerId,
      seed,
    }: { readonly accountId: number; readonly workerId: number; readonly seed: number },
  ) {
    this.#store = store;
    this.#accountId = accountId;
    this.#workerId = workerId;
    this.#pick = newRandom(seed);
    this.desk = this.#newDesk();
    this.watch.watch((byMs) => {
      const moved = store.shiftTimes({ after: 0, by: byMs }).then(() => {});
      this.desk.clockWasSet(moved);
    });
  }

  #newDesk(): WorkerDesk {
    const desk: WorkerDesk = new WorkerDesk({
      ...{ clock: this.watch, log, giveUp: new AbortController().signal, store: this.#watched() },
      ...{ types: new Map([["echo", TYPE]]), retentionMs: RETENTION_MS },
      ...{ cluster: newLoneNode(this.watch), mayReap: () => true },
      ...{ progress: new Map<string, TaskProgress>(), health: { noteRun() {} } },
      taskEnded() {},
      deliveriesDue() {},
      wake: (type) => desk.wake(type),
      failed: (error) => assert.fail(String(error)),
    });
    return desk;
  }

  /** The store, with checks in the order of its commits. */
  #watched(): LeaseStore {
    const store = this.#store;
    const claimed = (tasks: readonly LeasedTask[]): void => {
      for (const { id, leaseId } of tasks) {
        assert.notEqual(this.newest.get(id)?.ended, false, "a second live run of a task began");
        this.newest.set(id, { leaseId, ended: false });
        this.leases.push({ id, leaseId });
      }
    };
    const setEnded = ({ id, leaseId }: LeaseRef, ended: boolean): void => {
      const newest = this.newest.get(id);
      assert.equal(newest?.leaseId, leaseId, "an older lease counted");
      if (newest !== undefined) newest.ended = ended;
    };
    return {
      claimLeases: (claim) => told(store.claimLeases(claim), claimed),
      extendLeases: (beat) =>
        told(store.extendLeases(beat), (outcomes) => {
          for (const [i, ref] of beat.leases.entries()) {
            if (outcomes[i] === "ok") setEnded(ref, false);
          }
        }),
      endLeases: (ends: LeaseEnds) =>
        told(store.endLeases(ends), (results) => {
          for (const [i, end] of ends.ends.entries()) {
            if (results[i]?.isNew !== true) continue;
            setEnded(end, true);
            if (end.how === "completed") this.completedWith.set(end.id, end.leaseId);
          }
        }),
      findLeases: (query) => store.findLeases(query),
      listDueLeases: (due) => store.listDueLeases(due),
      resumeLeases: (start) => store.resumeLeases(start),
    };
  }

  async post(count: number): Promise<void> {
    const tasks = Array.from({ length: count }, () => newTask({ priority: this.#pick(3) }));
    this.tasks.push(...tasks.map(({ id }) => id));
    await this.#store.insertTasks(newPost(this.#accountId, tasks));
    this.desk.wake("echo");
  }

  async claim(max: number, { mayLeave = false } = {}): Promise<readonly LeasedTask[]> {
    const gone = new AbortController();
    const order = { workerId: this.#workerId, types: ["echo"], max, waitMs: 0, gone: gone.signal };
    const claimed = this.desk.claim(order);
    if (mayLeave) gone.abort();
    return claimed;
  }

  /** Begins one random event. */
  async step(): Promise<void> {
    const lease = this.leases[this.#pick(this.leases.length)] ?? { id: "none", leaseId: "none" };
    const { desk } = this;
    const workerId = this.#workerId;
    const failure = { message: "", detailText: "null", retry: [null, true, false][this.#pick(3)] };
    switch (this.#pick(12)) {
      case 0:
        return this.post(1 + this.#pick(3));
      case 1:
      case 2:
      case 3:
        await this.claim(1 + this.#pick(4), { mayLeave: this.#pick(8) === 0 });
        return;
      case 4:
      case 5:
        return this.#ask(lease, () => desk.heartbeat(workerId, [{ ...lease, progress: null }]));
      case 6:
      case 7: {
        const resultText = JSON.stringify(lease.leaseId);
        return this.#ask(lease, () => desk.complete(workerId, [{ ...lease, resultText }]));
      }
      case 8:
        return this.#ask(lease, () =>
          desk.fail(workerId, [{ ...lease, ...failure, retry: failure.retry ?? null }]),
        );
      case 9:
        return this.#ask(lease, () => desk.release(workerId, [lease]));
      case 10:
        return this.#cancel(this.tasks[this.#pick(this.tasks.length)] ?? "none");
      default:
        return this.#passTime();
    }
  }

  async #ask(lease: LeaseRef, ask: () => Promise<readonly LeaseOutcome[]>): Promise<void> {
    const isNewest = this.newest.get(lease.id)?.leaseId === lease.leaseId;
    const [outcome] = await ask();
    if (!isNewest) assert.notEqual(outcome, "ok", "an older lease has the outcome ok");
  }

  async #cancel(id: string): Promise<void> {
    const times = {
      cancelledAt: this.watch.now(),
      ...retainedUntil(this.watch.now() + RETENTION_MS),
    };
    const outcome = await this.#store.cancelTask({ accountId: this.#accountId, id, ...times });
    if (outcome !== "cancelled") return;
    const newest = this.newest.get(id);
    if (newest !== undefined) newest.ended = true;
    this.desk.cancel(id);
  }

  async #passTime(): Promise<void> {
    const kind = this.#pick(8);
    if (kind === 0) return this.restart();
    if (kind === 1) this.clock.step(this.#pick(2) === 0 ? 3_600_000 : -3_600_000);
    else this.clock.advance(500 * this.#pick(40));
    await this.tick();
  }

  async tick(): Promise<void> {
    this.desk.tick();
    await this.#store.releaseDelayed({ now: this.watch.now(), max: 1000 });
    this.desk.wake("echo");
  }

  async restart(): Promise<void> {
    this.desk.drain();
    await this.desk.quiet();
    this.desk = this.#newDesk();
    await this.desk.recover();
    this.desk.wake();
  }

  /** Completes all tasks that are left. */
  async finish(): Promise<void> {
    for (let round = 0; round < 500; round++) {
      this.clock.advance(61_000);
      await this.tick();
      await this.desk.quiet();
      this.desk.wake();
      const tasks = await this.claim(CONCURRENCY);
      await this.desk.complete(
        this.#workerId,
        tasks.map((task) => ({ ...task, resultText: `"${task.leaseId}"` })),
      );
      if (tasks.length === 0 && (await this.#open()).length === 0) return;
    }
    assert.fail(`tasks are left: ${JSON.stringify(await this.#open())}`);
  }

  async #open(): Promise<readonly string[]> {
    const found = await Promise.all(
      this.tasks.map((id) => this.#store.findTask({ accountId: this.#accountId, id })),
    );
    return found.flatMap((each) => {
      if (each === null) assert.fail("a task is lost");
      const { id, state, resultText } = each.task;
      if (state === "completed") {
        assert.equal(resultText, JSON.stringify(this.completedWith.get(id)));
      }
      return state === "queued" || state === "running" ? [`${id} ${state}`] : [];
    });
  }
}

function told<Value>(step: Promise<Value>, tell: (value: Value) => void): Promise<Value> {
  return step.then((value) => {
    tell(value);
    return value;
  });
}

async function newTurmoil(t: TestContext, seed: number): Promise<Turmoil> {
  const store = await openTestStore(t);
  const accountId = await seedAccount(store);
  return new Turmoil(store, { accountId, workerId: await seedWorker(store), seed });
}

for (const seed of [1, 2, 3, 4]) {
  test(`no task is lost, runs twice at the same time or holds a slot forever, in any order of events (${seed})`, async (t) => {
    const turmoil = await newTurmoil(t, seed);
    await turmoil.post(5);
    for (let round = 0; round < 60; round++) {
      const steps = Array.from({ length: 1 + (round % 7) }, () => turmoil.step());
      await Promise.all(steps);
    }
    await turmoil.finish();
    await turmoil.post(CONCURRENCY + 1);
    assert.equal((await turmoil.claim(CONCURRENCY + 1)).length, CONCURRENCY);
  });
}
