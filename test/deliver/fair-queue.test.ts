import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import { FairQueue, type Pace } from "../../src/deliver/fair-queue.ts";
import type { AttemptClass, SlotLimits } from "../../src/deliver/slots.ts";
import type { LaneShare } from "../../src/store/store.ts";
import { Bench, hosts, NOW, ref, sum } from "./queue-bench.ts";

const MIB = 1024 * 1024;
const SMALL: SlotLimits = { inFlightMax: 64, inFlightPerHostMax: 32 };
const DEFAULTS: SlotLimits = { inFlightMax: 512, inFlightPerHostMax: 32 };

test("a lane is taken when its earliest attempt is due and not before", () => {
  const queue = new FairQueue(SMALL);
  for (const wait of [100, 0, 50]) queue.noteDue(ref("a"), "fresh", NOW + wait);
  queue.noteDue(ref("b"), "retries", NOW + 5);

  assert.deepEqual(queue.take(NOW - 1), []);
  assert.deepEqual(queue.take(NOW), [{ ...ref("a"), fresh: 1, retries: 0 }]);
  assert.deepEqual(queue.take(NOW + 5), [{ ...ref("b"), fresh: 0, retries: 1 }]);
});

test("a host has 4 slots until it responds, then its account's part of it", () => {
  const bench = new Bench(SMALL);
  bench.due("a", { fresh: 100 });
  assert.deepEqual(bench.fill(), new Map([["a", 4]]));

  bench.end("a", { pace: "quick" });

  assert.deepEqual(bench.fill(), new Map([["a", 25]]));
});

test("a host that no longer responds in time has 4 slots again, once the slots that it holds are free", () => {
  const bench = new Bench(SMALL);
  bench.respond("a");
  bench.due("a", { fresh: 100 });
  assert.equal(sum(bench.fill()), 28);

  for (let left = 27; left >= 4; left--) {
    bench.end("a", { pace: "slow" });
    assert.equal(sum(bench.fill()), 0, `${left} are in flight`);
  }
  bench.end("a", { pace: "slow" });

  assert.equal(sum(bench.fill()), 1);
});

test("a refused or interrupted attempt does not change the pace of its host", () => {
  for (const [pace, places] of [
    ["quick", 28],
    ["slow", 4],
  ] as const) {
    const bench = new Bench(SMALL);
    bench.respond("a");
    bench.due("a", { fresh: 1 });
    bench.claim();
    bench.end("a", { pace });
    bench.due("a", { fresh: 1 });
    bench.claim();
    bench.end("a", { pace: "unknown" });
    bench.due("a", { fresh: 100 });

    assert.equal(sum(bench.fill()), places);
  }
});

test("due lanes take turns, independent of the length of their queues", () => {
  const bench = new Bench({ inFlightMax: 1, inFlightPerHostMax: 1 });
  bench.due("long", { fresh: 1000 });
  bench.due("short", { fresh: 2 });
  const turns: string[] = [];

  for (let i = 0; i < 4; i++) {
    const [host = ""] = [...bench.claim().keys()];
    turns.push(host);
    bench.end(host);
  }

  assert.deepEqual(turns, ["long", "short", "long", "short"]);
});

test("first attempts go before retries", () => {
  const bench = new Bench(SMALL);
  for (const host of hosts(20, "retry")) bench.due(host, { retries: 1 });
  for (const host of hosts(5, "fresh")) bench.due(host, { fresh: 1 });

  const started = [...bench.claim().keys()];

  assert.deepEqual(started.slice(0, 5).toSorted(), hosts(5, "fresh"));
  assert.match(started[5] ?? "", /^retry/);
});

test("every fourth slot of a lane goes to a retry", () => {
  const bench = new Bench({ inFlightMax: 64, inFlightPerHostMax: 1 });
  bench.due("a", { fresh: 100, retries: 100 });
  const turns: AttemptClass[] = [];

  for (let i = 0; i < 8; i++) {
    const started = bench.claim().get("a") ?? assert.fail("a place was left empty");
    const of = started.fresh === 1 ? "fresh" : "retries";
    turns.push(of);
    bench.end("a", { class: of });
  }

  const four: AttemptClass[] = ["fresh", "fresh", "fresh", "retries"];
  assert.deepEqual(turns, [...four, ...four]);
});

test("a first attempt gets the slot of a retry while retries have their share of all slots", () => {
  const bench = new Bench({ inFlightMax: 8, inFlightPerHostMax: 1 });
  for (const host of hosts(2, "retry")) bench.due(host, { retries: 1 });
  bench.fill();
  bench.due("a", { fresh: 100, retries: 100 });

  for (let i = 0; i < 8; i++) {
    assert.deepEqual(bench.claim().get("a"), { fresh: 1, retries: 0 });
    bench.end("a");
  }
});

test("retries get a quarter of all slots, and one account seven eighths of the quarter", () => {
  const bench = new Bench(DEFAULTS);
  for (const host of hosts(300)) bench.respond(host);
  for (const host of hosts(300)) bench.due(host, { retries: 100 });

  assert.equal(sum(bench.fill("retries")), 112);
  for (let other = 2; other <= 100; other++) bench.due(`${other}/host`, { retries: 100 });

  assert.equal(sum(bench.fill("retries")), 16);
});

test("a retry to a healthy host does not wait for retries to a thousand hanging hosts", () => {
  const bench = new Bench(DEFAULTS);
  bench.respond("good");
  for (const host of hosts(1000)) bench.due(host, { retries: 100 });
  assert.equal(sum(bench.fill("retries")), 72);
  bench.due("good", { retries: 1 });

  assert.deepEqual([...bench.fill("retries")], [["good", 1]]);
});

test("first attempts of any number of accounts leave an eighth of all slots to retries", () => {
  const bench = new Bench(DEFAULTS);
  for (const host of hosts(1000)) bench.respond(host);
  for (const host of hosts(1000)) bench.due(host, { fresh: 100 });
  assert.equal(sum(bench.fill()), 392);
  for (const host of hosts(1000, "2/host")) bench.due(host, { fresh: 100 });
  for (const host of hosts(1000, "3/host")) bench.due(host, { fresh: 100 });
  bench.fill();
  assert.ok(bench.queue.inFlight <= 448);
  for (const host of hosts(1000)) bench.due(host, { retries: 100 });

  assert.ok(sum(bench.fill("retries")) >= 56);
});

test("a retry has its turn although more lanes have first attempts than a claim takes", () => {
  const bench = new Bench(DEFAULTS);
  for (const host of hosts(200, "fresh")) bench.due(host, { fresh: 100 });
  bench.due("late", { retries: 1 });

  const started = bench.claim();

  assert.ok(started.size <= 64);
  assert.equal(started.get("late")?.retries, 1);
});

test("the last quarter of the slots goes to first attempts of idle lanes, one slot each", () => {
  const bench = new Bench(DEFAULTS);
  for (const host of hosts(100)) bench.respond(host);
  for (const host of hosts(100)) bench.due(host, { fresh: 100, retries: 100 });
  const busy = bench.fill();
  // Each has its first slot, and the shared part is used up.
  assert.equal(busy.size, 100);
  const before = bench.queue.inFlight;
  assert.deepEqual([...bench.claim()], []);
  bench.respond("works");
  bench.due("works", { fresh: 9, retries: 9 });

  assert.deepEqual([...bench.claim()], [["works", { fresh: 1, retries: 0 }]]);
  assert.equal(bench.queue.inFlight, before + 1);
});

test("a thousand hanging hosts leave the last quarter of the slots to healthy hosts", () => {
  const bench = new Bench(DEFAULTS);
  bench.respond("works");
  for (const host of hosts(1000)) bench.due(host, { fresh: 100, retries: 100 });
  const hanging = bench.fill();
  assert.ok(hanging.size > 64, "each has one place, while there are some");
  assert.ok(bench.queue.inFlight <= 384);
  bench.due("works", { fresh: 100 });

  assert.equal(sum(bench.fill()), 28);
});

test("64 hanging hosts get three eighths of the slots", () => {
  const bench = new Bench(DEFAULTS);
  for (const host of hosts(64)) bench.due(host, { fresh: 100 });

  assert.equal(sum(bench.fill()), 192);
  bench.respond("works");
  bench.due("works", { fresh: 100 });
  assert.equal(sum(bench.fill()), 28);
});

test("bodies of hanging hosts take half of the memory for bodies and leave the rest to healthy hosts", () => {
  const bench = new Bench(DEFAULTS);
  bench.respond("2/works");
  for (const host of hosts(40)) bench.due(host, { fresh: 1 });
  assert.equal(sum(bench.fill("fresh", MIB)), 40);
  bench.due("3/hangs too", { fresh: 1 });
  assert.deepEqual([...bench.claim(MIB)], []);
  bench.due("2/works", { fresh: 1 });

  assert.deepEqual([...bench.claim(MIB).keys()], ["2/works"]);
});

for (const [kind, most] of [
  ["healthy", 32],
  ["probing", 8],
] as const) {
  test(`bodies of ${most} MiB to ${kind} hosts hold back their account, and no other`, () => {
    const bench = new Bench(DEFAULTS);
    if (kind === "healthy") for (const host of [...hosts(33), "2/other"]) bench.respond(host);
    for (const host of hosts(most)) bench.due(host, { fresh: 1 });
    assert.equal(sum(bench.fill("fresh", MIB)), most);
    bench.due(`host-${most}`, { fresh: 1 });
    assert.deepEqual([...bench.claim(MIB)], []);
    bench.due("2/other", { fresh: 1 });

    assert.deepEqual([...bench.claim(MIB).keys()], ["2/other"]);
  });
}

test("bodies of 64 MiB hold back all accounts", () => {
  const bench = new Bench(DEFAULTS);
  const full = [...hosts(32), ...hosts(32, "2/host")];
  for (const host of [...full, "3/other"]) bench.respond(host);
  for (const host of full) bench.due(host, { fresh: 1 });
  assert.equal(sum(bench.fill("fresh", MIB)), 64);
  bench.due("3/other", { fresh: 1 });
  assert.deepEqual([...bench.claim(MIB)], []);

  bench.end("host-0", { bytes: MIB });

  assert.deepEqual([...bench.claim(MIB).keys()], ["3/other"]);
});

test("a host with 8 MiB of bodies in flight waits until they are sent", () => {
  const bench = new Bench(DEFAULTS);
  bench.respond("large");
  bench.due("large", { fresh: 2 });
  const [share] = bench.queue.take(NOW);
  assert.ok(share);
  const left = { ...ref("large"), freshDueAt: NOW, retryDueAt: null };
  bench.queue.claimed(share, { fresh: 2, retries: 0, bytes: 10 * MIB }, left);
  assert.deepEqual(bench.queue.take(NOW), []);

  bench.end("large", { bytes: 5 * MIB });

  assert.deepEqual(bench.queue.take(NOW), [{ ...ref("large"), fresh: 27, retries: 0 }]);
});

test("a clock that is set moves all due times with it", () => {
  for (const by of [3_600_000, -3_600_000]) {
    const queue = new FairQueue(DEFAULTS);
    for (let i = 0; i < 20; i++) {
      const of = i % 2 === 0 ? "fresh" : "retries";
      queue.noteDue(ref(`host-${i}`), of, NOW + ((i * 7) % 20));
    }
    assert.equal(queue.isIdle(NOW + 5), false);

    queue.shift(by);

    const due = (now: number): number => queue.take(now + by).length;
    assert.deepEqual([NOW - 1, NOW, NOW + 9, NOW + 19, NOW + 99].map(due), [0, 1, 9, 10, 0]);
  }
});

test("a lane that is full when the clock is set keeps its due attempts", () => {
  const bench = new Bench({ inFlightMax: 64, inFlightPerHostMax: 1 });
  bench.due("a", { fresh: 9, retries: 9 });
  assert.equal(bench.queue.take(NOW).length, 1);
  bench.queue.noteDue(ref("a"), "fresh", NOW);

  bench.queue.shift(-5000);
  bench.end("a");

  assert.deepEqual(bench.queue.take(NOW - 5000), [{ ...ref("a"), fresh: 1, retries: 0 }]);
});

test("the least recent of ten thousand healthy hosts is probing again", () => {
  const bench = new Bench(DEFAULTS);
  bench.respond("old");
  bench.due("old", { fresh: 100 });
  assert.equal(sum(bench.fill()), 28);
  for (const host of hosts(10_000)) bench.respond(host);

  for (let left = 27; left >= 4; left--) bench.end("old");
  assert.equal(sum(bench.fill()), 0);
  bench.end("old");

  assert.equal(sum(bench.fill()), 1);
});

test("ten thousand healthy hosts of one account leave the hosts of another healthy", () => {
  const bench = new Bench(DEFAULTS);
  bench.respond("2/old");
  for (const host of hosts(10_001)) bench.respond(host);
  bench.due("2/old", { fresh: 100 });

  assert.equal(sum(bench.fill()), 28);
});

test("two accounts with thousands of hanging hosts get equal shares, and a third its turn", () => {
  const bench = new Bench(DEFAULTS);
  for (const host of hosts(2000, "hangs")) bench.due(host, { fresh: 1 });
  for (const host of hosts(2000, "2/hangs")) bench.due(host, { fresh: 1 });
  const places = [...bench.fill().keys()];

  const ofSecond = places.filter((name) => name.startsWith("2/")).length;

  assert.ok(Math.abs(places.length - 2 * ofSecond) <= 1, `${ofSecond} of ${places.length}`);
  bench.due("3/new", { fresh: 1 });
  assert.deepEqual([...bench.claim().keys()], ["3/new"]);
});

test("2,000 healthy hosts that begin to hang leave slots to another account", () => {
  const bench = new Bench(DEFAULTS);
  for (const host of hosts(2000, "hangs")) bench.respond(host);
  for (const host of hosts(2000, "hangs")) bench.due(host, { fresh: 50, retries: 50 });
  bench.fill();
  bench.respond("2/works");
  for (const [host, given] of [
    ["2/works", { fresh: 1 }],
    ["2/new", { fresh: 1 }],
    ["2/late", { retries: 1 }],
  ] as const) {
    bench.due(host, given);
    assert.deepEqual([...bench.claim().keys()], [host]);
  }
});

test("300 hanging attempts of one account do not delay another account at the same host", () => {
  const bench = new Bench(DEFAULTS);
  bench.respond("shared");
  bench.due("shared", { fresh: 300 });
  assert.deepEqual(bench.fill(), new Map([["shared", 28]]));
  bench.due("2/shared", { fresh: 10 });

  assert.equal(bench.fill().get("2/shared"), 4);
  bench.end("2/shared", { pace: "quick" });
  assert.equal(bench.fill().get("2/shared"), 1);
  // The first account's attempts hang: it keeps four slots, and the second account gets the rest.
  for (let left = 28; left > 4; left--) bench.end("shared", { pace: "slow" });
  bench.due("2/shared", { fresh: 100 });
  assert.deepEqual(bench.fill(), new Map([["2/shared", 21]]));
});

test("the next slot at a host goes to the account with the fewest slots, then to the longest wait", () => {
  const bench = new Bench({ inFlightMax: 64, inFlightPerHostMax: 4 });
  bench.respond("shared");
  for (const account of [2, 3, 4, 5, 6]) bench.respond(`${account}/shared`);
  bench.due("shared", { fresh: 100 });
  assert.equal(sum(bench.fill()), 4);
  for (const account of [2, 3, 4, 5, 6]) {
    bench.due(`${account}/shared`, { fresh: 2 });
    assert.deepEqual([...bench.claim()], []);
  }
  const given: string[] = [];

  for (let i = 0; i < 4; i++) {
    bench.end("shared", { pace: "quick" });
    given.push(...bench.fill().keys());
  }

  assert.deepEqual(given, ["2/shared", "3/shared", "4/shared", "5/shared"]);
});

test("a slot at a host skips an account that has used up its share", () => {
  const bench = new Bench({ inFlightMax: 16, inFlightPerHostMax: 4 });
  bench.respond("2/shared");
  bench.respond("3/shared");
  bench.due("3/shared", { fresh: 4 });
  assert.equal(sum(bench.fill()), 4);
  for (const host of hosts(20, "hangs")) bench.due(host, { fresh: 1 });
  bench.fill();
  for (const name of ["shared", "2/shared"]) bench.due(name, { fresh: 1 });
  assert.deepEqual([...bench.claim()], []);

  bench.end("3/shared", { pace: "quick" });

  assert.deepEqual(bench.fill(), new Map([["2/shared", 1]]));
});

const EVENT = fc.record({
  host: fc.nat(5),
  account: fc.nat(2),
  class: fc.constantFrom<AttemptClass>("fresh", "retries"),
  dueIn: fc.nat(50),
  ends: fc.nat(4),
  pace: fc.constantFrom<Pace>("quick", "slow", "unknown"),
  bytes: fc.constantFrom(0, 0, 100, 3 * MIB),
  setBy: fc.constantFrom(0, 0, 0, 0, 1000, -1000),
});

type Event = typeof EVENT extends fc.Arbitrary<infer Value> ? Value : never;

const LIMITS = fc.record({
  inFlightMax: fc.integer({ min: 2, max: 24 }),
  inFlightPerHostMax: fc.integer({ min: 1, max: 8 }),
});

test("any order of events keeps the limits and forgets no due attempt", () => {
  fc.assert(
    fc.property(LIMITS, fc.array(EVENT, { maxLength: 150 }), (limits, events) => {
      const model = new Model(limits);
      for (const each of events) model.step(each);
      model.finish();
    }),
    { numRuns: 300 },
  );
});

interface Waiting {
  readonly class: AttemptClass;
  dueAt: number;
  readonly bytes: number;
}

interface Flying {
  readonly name: string;
  readonly class: AttemptClass;
  readonly bytes: number;
}

/** A store of waiting attempts by lane, with a check of the limits after each step. */
class Model {
  readonly #limits: SlotLimits;
  readonly #queue: FairQueue;
  readonly #waiting = new Map<string, Waiting[]>();
  readonly #flying: Flying[] = [];
  #now = NOW;

  constructor(limits: SlotLimits) {
    this.#limits = limits;
    this.#queue = new FairQueue(limits);
  }

  step({ account, host, class: of, dueIn, ends, pace, bytes, setBy }: Event): void {
    const name = `${account + 1}/h${host}`;
    const waiting = { class: of, dueAt: this.#now + dueIn, bytes };
    this.#waiting.set(name, [...(this.#waiting.get(name) ?? []), waiting]);
    this.#queue.noteDue(ref(name), of, waiting.dueAt);
    this.#pump();
    this.#end(ends, pace);
    this.#setClock(setBy);
    this.#now += 7;
    this.#pump();
  }

  /** Ends all attempts in flight in each turn, until none waits. */
  finish(): void {
    this.#now += 1000;
    const left = [...this.#waiting.values()].flat().length + this.#flying.length;
    for (let turns = 0; turns <= left && !this.#queue.isIdle(this.#now); turns++) {
      this.#pump();
      assert.ok(
        this.#flying.length > 0,
        "something is due, nothing is in flight, and nothing goes",
      );
      this.#end(this.#flying.length, turns % 2 === 0 ? "slow" : "quick");
    }
    assert.deepEqual([...this.#waiting.values()].flat(), []);
    assert.equal(this.#queue.isIdle(this.#now), true);
    assert.equal(this.#queue.gauge.lanes, 0, "a lane is remembered that has nothing");
    assert.equal(this.#queue.inFlight, 0);
  }

  #end(count: number, pace: Pace): void {
    for (const { name, class: of, bytes } of this.#flying.splice(0, count))
      this.#queue.ended(ref(name), { fresh: 0, retries: 0, [of]: 1, bytes }, pace);
  }

  #setClock(by: number): void {
    this.#now += by;
    this.#queue.shift(by);
    for (const each of [...this.#waiting.values()].flat()) each.dueAt += by;
  }

  // Claims until no attempt may start, as the dispatcher does.
  #pump(): void {
    for (let claims = 0; claims < 1000; claims++) {
      const shares = this.#queue.take(this.#now);
      this.#check();
      if (shares.length === 0) return;
      for (const share of shares) this.#claim(share);
      this.#check();
    }
    assert.fail("the claims have no end");
  }

  #claim(share: LaneShare): void {
    const name = `${share.accountId}/${share.host}`;
    const all = (this.#waiting.get(name) ?? []).toSorted((a, b) => a.dueAt - b.dueAt);
    const due = (of: AttemptClass): Waiting[] =>
      all.filter((each) => each.class === of && each.dueAt <= this.#now).slice(0, share[of]);
    const [fresh, retries] = [due("fresh"), due("retries")];
    const started = [...fresh, ...retries];
    const left = all.filter((each) => !started.includes(each));
    this.#waiting.set(name, left);
    this.#flying.push(...started.map((each) => ({ name, ...each })));
    const earliest = (of: AttemptClass): number | null =>
      left.find((each) => each.class === of)?.dueAt ?? null;
    const load = {
      fresh: fresh.length,
      retries: retries.length,
      bytes: started.reduce((total, { bytes }) => total + bytes, 0),
    };
    const next = { freshDueAt: earliest("fresh"), retryDueAt: earliest("retries") };
    this.#queue.claimed(share, load, { ...ref(name), ...next });
  }

  #check(): void {
    const { inFlightMax, inFlightPerHostMax } = this.#limits;
    assert.ok(this.#queue.inFlight >= this.#flying.length);
    assert.ok(this.#queue.inFlight <= inFlightMax, "over the limit of all");
    const retries = this.#flying.filter((each) => each.class === "retries").length;
    assert.ok(retries <= Math.ceil(inFlightMax / 4), "retries have more than a quarter");
    const byHost = Object.groupBy(this.#flying, ({ name }) => ref(name).host);
    for (const [host, flying] of Object.entries(byHost)) {
      assert.ok((flying ?? []).length <= inFlightPerHostMax, `${host} is over its limit`);
    }
  }
}
