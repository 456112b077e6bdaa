import assert from "node:assert/strict";
import { test } from "node:test";

import type { LogFacts, Logger } from "../../src/domain/log.ts";
import {
  type ConnectionActivity,
  ConnectionPlaces,
  type Occupant,
  PlaceShortage,
  type ShortageOutcome,
} from "../../src/http/admission/connections.ts";
import { RESERVE_PLACES } from "../../src/http/admission/limits.ts";
import { WaitPlaces } from "../../src/http/admission/room.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

const NOW = 100_000;

interface Guest extends Occupant {
  activity: ConnectionActivity;
  since: number;
  isClosed: boolean;
}

function startPlaces(connections: number) {
  const outcomes: ShortageOutcome[] = [];
  const onShortage = (outcome: ShortageOutcome): void => void outcomes.push(outcome);
  const places = new ConnectionPlaces<Guest>({ connections, now: () => NOW, onShortage });
  /** A connection that enters, and has done this for so many seconds. */
  const come = (address: string, activity: ConnectionActivity, seconds = 10) => {
    const guest: Guest = {
      ...{ address, activity, since: NOW - seconds * 1000, isClosed: false },
      close: () => void (guest.isClosed = true),
    };
    return { guest, got: places.enter(guest) };
  };
  return { places, come, outcomes };
}

interface Row {
  readonly name: string;
  /** The connections that take all places: address, activity and seconds. */
  readonly guests: string;
  readonly newcomer: string;
  /** The index of the connection that is closed for the newcomer; null if it gets a place of the reserve. */
  readonly closed: number | null;
}

const ROWS: readonly Row[] = [
  {
    name: "the longest idle connection of the address with most connections is closed for a new one",
    guests: "few idle 60, many idle 30, many idle 20, many serving 90, few serving 10",
    ...{ newcomer: "new receiving 10", closed: 1 },
  },
  {
    name: "idle connections are closed before others, of an address with few connections too",
    guests: "many sending 10, many receiving 10, few idle 10",
    ...{ newcomer: "new receiving 10", closed: 2 },
  },
  {
    name: "without idle connections the slowest of the address with most connections is closed",
    guests: "many receiving 20, many sending 15, few receiving 30, many waiting 90",
    ...{ newcomer: "new receiving 0", closed: 0 },
  },
  {
    name: "a new connection of an address with most connections closes the slowest of its own",
    guests: "a receiving 9, a receiving 0",
    ...{ newcomer: "a receiving 0", closed: 0 },
  },
  {
    name: "a new connection closes none of an address that has no more than its own address",
    guests: "a receiving 10, b waiting 10",
    ...{ newcomer: "b receiving 0", closed: null },
  },
  {
    name: "connections that wait, are served or were slow for less than a second are not closed",
    guests: "many waiting 50, many serving 40, many receiving 0.9, many sending 0.5",
    ...{ newcomer: "new receiving 0", closed: null },
  },
];

for (const { name, guests, newcomer, closed } of ROWS) {
  test(name, () => {
    const coming = guests.split(", ");
    const { places, come } = startPlaces(coming.length);
    const enter = (words: string) => {
      const [address = "", activity, seconds] = words.split(" ");
      return come(address, activity as ConnectionActivity, Number(seconds));
    };
    const all = coming.map((each) => enter(each).guest);

    assert.equal(enter(newcomer).got, closed === null ? "reserve" : "place");

    assert.deepEqual(
      all.map(({ isClosed }) => isClosed),
      all.map((_, i) => i === closed),
    );
    assert.equal(places.size, all.length + (closed === null ? 1 : 0));
  });
}

test("an address has at most a quarter of many places, and closes its own idle connections beyond that", () => {
  const { places, come } = startPlaces(4096);
  assert.equal(places.ofAddressMax, 1024);
  const idle = come("other", "idle", 90);
  const [first] = Array.from({ length: 1024 }, () => come("one", "waiting"));
  assert.equal(come("one", "receiving").got, "reserve");
  assert.equal(come("two", "receiving").got, "place");
  assert.ok(first?.got === "place" && !idle.guest.isClosed);

  first.guest.activity = "idle";
  places.changed(first.guest);
  assert.equal(come("one", "receiving").got, "place");
  assert.ok(first.guest.isClosed);
});

test("an address may have all of 100 places", () => {
  const { come } = startPlaces(100);
  for (let i = 0; i < 100; i++) assert.equal(come("one", "waiting").got, "place");
  assert.equal(come("one", "waiting").got, "reserve");
});

test("a served connection gets a place of the reserve for a silent one, and none if all are served", () => {
  const { places, come } = startPlaces(1);
  come("a", "serving");
  const silent = come("b", "receiving", 0);
  for (let i = 1; i < RESERVE_PLACES; i++) assert.equal(come("b", "serving").got, "reserve");
  assert.equal(come("c", "serving").got, "reserve");
  assert.ok(silent.guest.isClosed);
  assert.equal(come("d", "serving").got, "none");
  assert.equal(places.size, 1 + RESERVE_PLACES);
});

test("every connection without a free place is reported with its outcome", () => {
  const { come, outcomes } = startPlaces(2);
  come("one", "idle");
  come("one", "serving");
  assert.deepEqual(outcomes, []);
  come("two", "serving");
  for (let i = 0; i < RESERVE_PLACES; i++) come("three", "serving");
  assert.equal(come("three", "serving").got, "none");
  const reserve = Array.from({ length: RESERVE_PLACES }, () => "over_reserve");
  assert.deepEqual(outcomes, ["closed_others", ...reserve, "refused"]);
});

test("a connection that ended leaves its place once", () => {
  const { places, come } = startPlaces(2);
  const guests = [come("a", "serving"), come("b", "serving"), come("b", "serving")];
  for (const { guest } of [...guests, ...guests]) places.leave(guest);
  assert.equal(places.size, 0);
  assert.deepEqual([...places.all()], []);
  assert.equal(come("c", "serving").got, "place");
});

test("a connection that sent another request is not the longest idle one", () => {
  const { places, come } = startPlaces(2);
  const [first, second] = [come("a", "idle"), come("a", "idle")];
  first.guest.since = NOW;
  places.changed(first.guest);
  come("b", "receiving");
  assert.deepEqual([first.guest.isClosed, second.guest.isClosed], [false, true]);
});

test("a new connection reads the activity of few others, and finds one that became idle", () => {
  const { places, come } = startPlaces(1000);
  let reads = 0;
  const crowd = Array.from(
    { length: places.ofAddressMax },
    () => come("crowd", "receiving", 0).guest,
  );
  const last = crowd.at(-1) ?? assert.fail();
  for (const guest of crowd) {
    let activity: ConnectionActivity = "receiving";
    Object.defineProperty(guest, "activity", {
      get: () => (reads++, activity),
      set(now: ConnectionActivity) {
        activity = now;
      },
    });
  }
  for (let i = 0; i < 10; i++) assert.equal(come("crowd", "receiving", 0).got, "reserve");
  assert.ok(reads <= 10, `${reads} reads`);

  last.activity = "idle";
  places.changed(last);
  assert.equal(come("crowd", "receiving", 0).got, "place");
  assert.ok(last.isClosed);
});

test("a shortage of places is logged when it begins, then once a minute with its counts", () => {
  const lines: LogFacts[] = [];
  const warn = (facts: LogFacts): void => void lines.push(facts);
  const log: Logger = { debug() {}, info() {}, warn, error() {} };
  const clock = createFakeClock({ now: 0 });
  const shortage = new PlaceShortage({ clock, log });
  for (let second = 0; second < 61; second++) {
    shortage.note("closed_others");
    if (second % 2 === 0) shortage.note("refused");
    if (second === 30) shortage.note("over_reserve");
    clock.advance(1000);
  }

  assert.deepEqual(lines, [
    { closed_others: 1, over_reserve: 0, refused: 0 },
    { closed_others: 60, over_reserve: 1, refused: 30 },
  ]);
});

/** Takes places for a holder until it is refused; returns what frees each of them. */
function takeAll(places: WaitPlaces, holder: string, address = holder): (() => void)[] {
  const taken: (() => void)[] = [];
  while (places.refusal({ holder, address }) === null) taken.push(places.take({ holder, address }));
  const refusal = { code: 42900, headers: { "retry-after": "5" } };
  assert.throws(() => places.take({ holder, address }), refusal);
  return taken;
}

test("half of the connections may wait, and a holder may have as many as it leaves free", () => {
  const places = new WaitPlaces(4096);
  // Each holder has many addresses.
  const takeSpread = (holder: string): (() => void)[] =>
    Array.from({ length: 10 }, (_, at) => takeAll(places, holder, `${holder} ${at}`)).flat();

  const taken = [1024, 512, 256].flatMap((expected, i) => {
    const some = takeSpread(`holder ${i}`);
    assert.equal(some.length, expected);
    return some;
  });
  for (const free of taken) free();
  assert.equal(places.taken, 0);
  assert.equal(takeSpread("holder 2").length, 1024);
});

test("a holder may have as many of its address's places as it leaves free", () => {
  const places = new WaitPlaces(4096);

  const taken = takeAll(places, "a", "address");
  assert.equal(taken.length, 512);
  assert.equal(takeAll(places, "b", "address").length, 256);
  assert.equal(places.refusal({ holder: "a", address: "another" }), null);
  for (const free of taken) free();
  assert.equal(takeAll(places, "b", "address").length, 256);
});

test("of one connection one may wait, and a place is freed once", () => {
  const places = new WaitPlaces(1);
  const [free, ...others] = takeAll(places, "a");
  assert.equal(others.length, 0);
  free?.();
  free?.();
  assert.equal(places.taken, 0);
});
