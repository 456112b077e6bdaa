import assert from "node:assert/strict";
import { test } from "node:test";

import type { ClaimedAttempt, Lane } from "../../src/store/store.ts";
import { newAttemptResult } from "../helpers/store.ts";
import { attempt, EMPTY, LANE, lane, NOW, setUp, setUpHealthy } from "./dispatcher-setup.ts";

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
