import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";
import type { Scheduler } from "fast-check";

import { type DeliveryQueue } from "../../src/deliver/delivery-dispatcher.ts";
import type { ClaimedAttempt, Lane, LaneRef, LaneShare } from "../../src/store/store.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { newAttemptResult } from "../helpers/store.ts";
import {
  EMPTY,
  HOST,
  LANE,
  NOW,
  attempt,
  lane,
  newDispatcher,
  setUp,
  setUpHealthy,
} from "./dispatcher-setup.ts";

// One account gets 7 of 8 slots at a host.
const SLOTS = 7;
const DELIVERED = newAttemptResult({ outcome: "delivered" });
const MORE = lane({ freshDueAt: NOW });

function attempts(from: number, count: number): readonly ClaimedAttempt[] {
  return Array.from({ length: count }, (_, i) => attempt({ seq: from + i, number: from + i }));
}

/** A healthy lane with full slots and four prefetched attempts, by default with short bodies. */
async function setUpFull({
  left = lane(),
  bodies = [],
}: { readonly left?: Lane; readonly bodies?: readonly Partial<ClaimedAttempt>[] } = {}) {
  const parts = await setUpHealthy();
  parts.dispatcher.wake([LANE]);
  const prefetched = attempts(SLOTS + 1, 4).map((each, i) => ({ ...each, ...bodies[i] }));
  const claimed = [...attempts(1, SLOTS), ...prefetched];
  (await parts.claims.next()).resolve({ attempts: claimed, lanes: [left], suspended: [] });
  await parts.sends.waitFor(SLOTS);
  return parts;
}

type Parts = Awaited<ReturnType<typeof setUpFull>>;

/** Ends the attempt that was sent first, and returns its number. */
async function answer({ sends, records }: Parts, result = DELIVERED): Promise<string> {
  const send = await sends.next();
  send.resolve(result);
  (await records.next()).resolve();
  return send.argument;
}

/** Lets every further claim find nothing. */
async function findNothing({ claims }: Parts): Promise<void> {
  for (;;) (await claims.next()).resolve(EMPTY);
}

/** Ends so many attempts one by one, and returns their numbers. */
async function answerAll(parts: Parts, count: number): Promise<readonly string[]> {
  const sent = [];
  for (let i = 0; i < count; i++) sent.push(await answer(parts));
  return sent;
}

test("a free slot is filled without another claim, in the order of the attempts", async () => {
  const parts = await setUpFull();
  assert.deepEqual(parts.shares, [{ ...LANE, fresh: SLOTS + 8, retries: 0 }]);
  const first = await answerAll(parts, 3);
  assert.deepEqual([parts.claims.waiting, parts.shares.length], [0, 1]);
  void findNothing(parts);
  const sent = [...first, ...(await answerAll(parts, SLOTS + 1))];
  await parts.dispatcher.quiet();
  assert.deepEqual(
    sent,
    attempts(1, SLOTS + 4).map(({ number }) => String(number)),
  );
  assert.equal(parts.dispatcher.isIdle(), true);
});

test("prefetched attempts use no slots: a host gets only as many simultaneous attempts as the account has slots", async () => {
  const parts = await setUpFull();
  assert.deepEqual([parts.sends.waiting, parts.dispatcher.gauge.underWay], [SLOTS, SLOTS]);
  await answer(parts);
  await parts.sends.waitFor(SLOTS);
  assert.deepEqual([parts.sends.waiting, parts.dispatcher.gauge.underWay], [SLOTS, SLOTS]);
  void findNothing(parts);
  await answerAll(parts, SLOTS + 3);
  await parts.dispatcher.quiet();
});

test("a lane that runs out is filled by a claim while its last prefetched attempts are sent", async () => {
  const parts = await setUpFull({ left: MORE });
  await answer(parts);
  const claim = await parts.claims.next();
  // Three of eight are left.
  assert.deepEqual(parts.shares.at(-1), { ...LANE, fresh: 5, retries: 0 });
  await parts.sends.waitFor(SLOTS);
  claim.resolve({ attempts: attempts(12, 5), lanes: [lane()], suspended: [] });
  void findNothing(parts);
  const sent = await answerAll(parts, SLOTS + 3 + 5);
  await parts.dispatcher.quiet();
  assert.deepEqual([sent.at(-1), parts.dispatcher.isIdle()], ["16", true]);
});

test("at most 32 attempts of a lane and 256 of all are prefetched, and none beyond 8 MiB of bodies", async () => {
  const lanes = Array.from({ length: 40 }, (_, i) => ({ accountId: 1, host: `127.0.0.${i}` }));
  const many = setUp(lanes, { inFlightMax: 64, inFlightPerHostMax: 64 });
  const recovered = many.dispatcher.recover();
  (await many.reads.next()).resolve([]);
  await recovered;
  many.dispatcher.wake(lanes);
  const asked = many.shares.map(({ fresh }) => fresh);
  const slots = many.dispatcher.gauge.underWay;
  assert.equal(
    asked.reduce((total, each) => total + each, -slots),
    256,
  );
  assert.equal(asked[1], 1 + 32);

  const MIB = 1024 * 1024;
  const { task } = attempt();
  const bodies: readonly Partial<ClaimedAttempt>[] = [
    {},
    { largeBytes: 3 * MIB },
    { task: { ...task, inputText: "x".repeat(3 * MIB) } },
    { task: { ...task, resultText: "x".repeat(2 * MIB) } },
  ];
  const parts = await setUpFull({ left: MORE, bodies });
  // The first prefetched attempt is sent.
  await answer(parts);
  await parts.claims.next();
  assert.deepEqual(parts.shares.at(-1), { ...LANE, fresh: 0, retries: 0 });
});

test("nothing is prefetched for a lane whose host has not responded", async () => {
  const { dispatcher, claims, shares } = setUp();
  dispatcher.wake([LANE]);
  (await claims.next()).resolve(EMPTY);
  await dispatcher.quiet();
  assert.deepEqual(shares, [{ ...LANE, fresh: 1, retries: 0 }]);
});

for (const [why, hold] of [
  ["its account is suspended", ({ dispatcher }: Parts) => dispatcher.suspend([1])],
  [
    "the operator pauses its lane",
    ({ dispatcher }: Parts) => dispatcher.pauseOnly([{ accountId: null, host: LANE.host }]),
  ],
  [
    "its host becomes another node's",
    ({ dispatcher, others }: Parts) => {
      others.push(...Array.from({ length: 500 }, (_, i) => `node-${i}`));
      dispatcher.divide();
    },
  ],
] as const) {
  test(`a prefetched attempt is scheduled again and not sent when ${why}`, async () => {
    const parts = await setUpFull();
    await hold(parts);
    for (let seq = SLOTS + 1; seq <= SLOTS + 4; seq++) {
      const { argument, resolve } = await parts.records.next();
      assert.deepEqual([argument.attempt.seq, argument.result.outcome], [seq, "interrupted"]);
      assert.deepEqual(argument.decision, { state: "scheduled", dueAt: NOW, retry: 0 });
      resolve();
    }
    await answerAll(parts, SLOTS);
    await parts.dispatcher.quiet();
    assert.deepEqual([parts.sends.waiting, parts.claims.waiting], [0, 0]);
  });
}

test("an attempt beyond the slots of a lane that was paused during its claim is scheduled again", async () => {
  const parts = await setUpHealthy();
  parts.dispatcher.wake([LANE]);
  const claim = await parts.claims.next();
  await parts.dispatcher.pauseOnly([{ accountId: null, host: LANE.host }]);
  claim.resolve({ attempts: attempts(1, SLOTS + 1), lanes: [lane()], suspended: [] });
  const { argument, resolve } = await parts.records.next();
  assert.deepEqual([argument.attempt.seq, argument.result.outcome], [SLOTS + 1, "interrupted"]);
  resolve();
  await answerAll(parts, SLOTS);
  await parts.dispatcher.quiet();
  assert.deepEqual([parts.sends.waiting, parts.claims.waiting], [0, 0]);
});

test("a host that becomes slow gets its prefetched attempts within half of its slots, and no more are prefetched", async () => {
  const parts = await setUpFull({ left: MORE });
  void findNothing(parts);
  const timedOut = newAttemptResult({ outcome: "timed_out" });
  for (let i = 0; i < SLOTS; i++) {
    const send = await parts.sends.next();
    if (i === 0) parts.clock.advance(10_000);
    send.resolve(timedOut);
    (await parts.records.next()).resolve();
  }
  await parts.sends.waitFor(4);
  assert.equal(parts.sends.waiting, 4);
  const asked = parts.shares.length;
  const sent = [];
  for (let i = 0; i < 4; i++) sent.push(await answer(parts, timedOut));
  await parts.dispatcher.quiet();
  assert.deepEqual(sent, ["8", "9", "10", "11"]);
  for (const { fresh } of parts.shares.slice(asked)) assert.ok(fresh <= 4, `${fresh} asked for`);
});

test("a drain sends prefetched attempts and claims no more", async () => {
  const parts = await setUpFull({ left: MORE });
  parts.dispatcher.drain();
  const sent = await answerAll(parts, SLOTS + 4);
  await parts.dispatcher.quiet();
  assert.equal(sent.length, SLOTS + 4);
  assert.deepEqual([parts.claims.waiting, parts.shares.length], [0, 1]);
});

test("an abort records prefetched attempts as interrupted", async () => {
  const parts = await setUpFull();
  parts.dispatcher.abort();
  for (let i = 0; i < 4; i++) {
    const { argument, resolve } = await parts.records.next();
    assert.equal(argument.result.outcome, "interrupted");
    resolve();
  }
  await answerAll(parts, SLOTS);
  await parts.dispatcher.quiet();
  assert.equal(parts.sends.waiting, 0);
});

test("a second account gets the next slot of the host before prefetched attempts of the first", async () => {
  const parts = await setUpFull();
  const other = { accountId: 2, host: LANE.host };
  parts.dispatcher.wake([other]);
  const claim = await parts.claims.next();
  assert.deepEqual(parts.shares.at(-1), { ...other, fresh: 1, retries: 0 });
  const seq = 99;
  const claimed = [attempt({ ...other, seq, number: seq })];
  claim.resolve({ attempts: claimed, lanes: [lane(other)], suspended: [] });
  void findNothing(parts);
  await parts.sends.waitFor(SLOTS + 1);
  const sent = await answerAll(parts, SLOTS + 1 + 4);
  await parts.dispatcher.quiet();
  assert.equal(sent[SLOTS], "99");
});

const PER_HOST_MAX = 8;
const LANES: readonly LaneRef[] = [
  { accountId: 1, host: HOST },
  { accountId: 2, host: HOST },
  { accountId: 1, host: "127.0.0.2" },
];
const ALL = { accountId: null, host: null };

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
async function setUpModel(scheduler: Scheduler) {
  const clock = createFakeClock({ now: NOW });
  const store = new ModelStore(scheduler);
  const sending = new Map<string, number>();
  let most = 0;
  const count = (host: string, by: number): void => {
    sending.set(host, (sending.get(host) ?? 0) + by);
    most = Math.max(most, ...sending.values());
  };
  const dispatcher = newDispatcher({
    clock,
    store: {
      claimAttempts: ({ lanes }) => store.claim(lanes),
      recordAttempt: (record) => store.record(record),
      listLanes: () => Promise.resolve(store.lanes()),
      listProvenLanes: () => Promise.resolve(LANES),
    },
    async send({ target: { host } }) {
      count(host, 1);
      await store.turn;
      count(host, -1);
      return DELIVERED;
    },
  });
  await dispatcher.recover();
  return { store, dispatcher, most: () => most };
}

async function live(life: readonly Step[], scheduler: Scheduler): Promise<void> {
  const { store, dispatcher, most } = await setUpModel(scheduler);
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
