import assert from "node:assert/strict";
import { test } from "node:test";

import fc, { type Scheduler } from "fast-check";

import { DeliveryDispatcher, type DeliveryQueue } from "../../src/deliver/delivery-dispatcher.ts";
import { parseAllowList } from "../../src/domain/address/allow-list.ts";
import type { Logger } from "../../src/domain/log.ts";
import { newLoneNode } from "../../src/store/common/lone-node.ts";
import type { ClaimedAttempt, Lane, LaneRef, LaneShare } from "../../src/store/store.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { newAttemptResult } from "../helpers/store.ts";
import { attempt, HOST, lane, MINUTE, NOW } from "./dispatcher-setup.ts";

const PER_HOST_MAX = 8;
const LANES: readonly LaneRef[] = [
  { accountId: 1, host: HOST },
  { accountId: 2, host: HOST },
  { accountId: 1, host: "127.0.0.2" },
];
const ALL = { accountId: null, host: null };
const log: Logger = { debug() {}, info() {}, warn() {}, error() {} };

/** A step: tasks with webhooks in a lane end, or a pause of everything begins or ends. */
type Step = { readonly post: number; readonly lane: number } | { readonly hold: "all" | "none" };

const steps = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: fc.record({ post: fc.integer({ min: 1, max: 30 }), lane: fc.nat(2) }) },
    { weight: 1, arbitrary: fc.record({ hold: fc.constantFrom("all" as const, "none" as const) }) },
  ),
  { minLength: 1, maxLength: 12 },
);

/** Attempts in memory. The scheduler decides when each call happens and settles. */
class ModelStore {
  readonly #scheduler: Scheduler;
  due: ClaimedAttempt[] = [];
  readonly delivered: string[] = [];
  #lastSeq = 0;

  constructor(scheduler: Scheduler) {
    this.#scheduler = scheduler;
  }

  get turn(): Promise<void> {
    return this.#scheduler.schedule(Promise.resolve());
  }

  add({ accountId, host }: LaneRef, count: number): void {
    for (let i = 0; i < count; i++) {
      const seq = ++this.#lastSeq;
      this.due.push(attempt({ accountId, host, seq, taskId: `t${seq}`, url: `http://${host}/` }));
    }
  }

  async claim(shares: readonly LaneShare[]): ReturnType<DeliveryQueue["claimAttempts"]> {
    await this.turn;
    const attempts = shares.flatMap((share) => this.#ofLane(share).slice(0, share.fresh));
    const claimed = new Set(attempts);
    this.due = this.due.filter((each) => !claimed.has(each));
    const lanes = shares.map((share) => this.#left(share));
    await this.turn;
    return { attempts, lanes, suspended: [] };
  }

  async record({
    attempt: ended,
    decision,
  }: Parameters<DeliveryQueue["recordAttempt"]>[0]): Promise<void> {
    await this.turn;
    if (decision.state === "scheduled") {
      const seq = ++this.#lastSeq;
      this.due.push(attempt({ ...ended, seq, url: `http://${ended.host}/` }));
    } else this.delivered.push(ended.taskId);
    await this.turn;
  }

  lanes(): readonly Lane[] {
    return LANES.map((each) => this.#left(each));
  }

  #ofLane({ accountId, host }: LaneRef): readonly ClaimedAttempt[] {
    return this.due.filter((each) => each.accountId === accountId && each.host === host);
  }

  #left({ accountId, host }: LaneRef): Lane {
    const freshDueAt = this.#ofLane({ accountId, host })[0]?.dueAt ?? null;
    return lane({ accountId, host, freshDueAt });
  }
}

/** A dispatcher on that store that counts simultaneous attempts. */
async function setUp(scheduler: Scheduler) {
  const clock = createFakeClock({ now: NOW });
  const store = new ModelStore(scheduler);
  const sending = new Map<string, number>();
  let most = 0;
  const count = (host: string, by: number): void => {
    sending.set(host, (sending.get(host) ?? 0) + by);
    most = Math.max(most, ...sending.values());
  };
  const allow = parseAllowList(["127.0.0.0/8"]);
  assert.ok(allow.kind === "allow-list");
  const dispatcher = new DeliveryDispatcher({
    ...{ clock, log, giveUp: new AbortController().signal, cluster: newLoneNode(clock) },
    store: {
      claimAttempts: ({ lanes }) => store.claim(lanes),
      makeLargePostback: () => Promise.resolve(null),
      recordAttempt: (record) => store.record(record),
      shiftTimes: () => Promise.resolve(0),
      hastenAttempts: () => Promise.resolve(0),
      listLanes: () => Promise.resolve(store.lanes()),
      listDueLanes: () => Promise.resolve([]),
      listProvenLanes: () => Promise.resolve(LANES),
      listInFlight: () => Promise.resolve([]),
    },
    sender: {
      async send({ target: { host } }) {
        count(host, 1);
        await store.turn;
        count(host, -1);
        return newAttemptResult({ outcome: "delivered" });
      },
      abort() {},
    },
    urlPolicy: () => ({ allow: allow.list, ownNames: [], ownAddresses: [] }),
    health: { noteAttempt() {} },
    limits: { inFlightMax: 64, inFlightPerHostMax: PER_HOST_MAX },
    retryAfterMs: [MINUTE],
    failed(error) {
      throw error;
    },
  });
  await dispatcher.recover();
  return { store, dispatcher, most: () => most };
}

async function live(life: readonly Step[], scheduler: Scheduler): Promise<void> {
  const { store, dispatcher, most } = await setUp(scheduler);
  let posted = 0;
  const all = life.map(async (step) => {
    await store.turn;
    if ("hold" in step) return dispatcher.pauseOnly(step.hold === "all" ? [ALL] : []);
    const ref = LANES[step.lane] ?? { accountId: 1, host: HOST };
    store.add(ref, step.post);
    posted += step.post;
    await store.turn;
    dispatcher.wake([ref]);
  });
  await scheduler.waitFor(Promise.all(all));
  await scheduler.waitFor(dispatcher.pauseOnly([]));
  await scheduler.waitFor(dispatcher.quiet());
  assert.deepEqual(store.due, []);
  assert.equal(new Set(store.delivered).size, posted);
  assert.equal(store.delivered.length, posted);
  assert.ok(most() <= PER_HOST_MAX, `${most()} at once`);
  assert.equal(dispatcher.isIdle(), true);
}

test("any order of claims, wakes, pauses and responses sends every attempt once, within the slots of its host", async () => {
  await fc.assert(fc.asyncProperty(steps, fc.scheduler(), live), { numRuns: 50 });
});
