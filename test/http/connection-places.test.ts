import assert from "node:assert/strict";
import { test } from "node:test";

import {
  type ConnectionActivity,
  ConnectionPlaces,
  type Occupant,
  type ShortageOutcome,
} from "../../src/http/admission/connections.ts";
import { RESERVE_PLACES } from "../../src/http/admission/limits.ts";

const NOW = 100_000;

interface Guest extends Occupant {
  activity: ConnectionActivity;
  since: number;
  isClosed: boolean;
}

function startPlaces(connections: number) {
  const told: ShortageOutcome[] = [];
  const onShortage = (what: ShortageOutcome): void => void told.push(what);
  const places = new ConnectionPlaces<Guest>({ connections, now: () => NOW, onShortage });
  /** One that comes and does this, for so many seconds by now. */
  const come = (address: string, activity: ConnectionActivity, seconds = 10) => {
    const guest: Guest = {
      ...{ address, activity, since: NOW - seconds * 1000, isClosed: false },
      close: () => void (guest.isClosed = true),
    };
    return { guest, got: places.enter(guest) };
  };
  return { places, come, told };
}

test("the longest idle one of the address that has most is closed for a new one", () => {
  const { places, come } = startPlaces(5);
  const few = come("few", "idle", 60);
  const [first, second] = [come("many", "idle", 30), come("many", "idle", 20)];
  const busy = come("many", "serving", 90);
  come("few", "serving");
  assert.equal(come("new", "receiving").got, "place");
  assert.deepEqual(
    [few, first, second, busy].map(({ guest }) => guest.isClosed),
    [false, true, false, false],
  );
  assert.equal(places.size, 5);
});

test("idle ones go before any other, of however small an address", () => {
  const { come } = startPlaces(3);
  const slow = [come("many", "sending"), come("many", "receiving")];
  const idle = come("few", "idle");
  assert.equal(come("new", "receiving").got, "place");
  assert.ok(idle.guest.isClosed);
  assert.ok(slow.every(({ guest }) => !guest.isClosed));
});

test("where none is idle, the slowest of the address that has most gives way", () => {
  const { come } = startPlaces(4);
  const [first, second] = [come("many", "receiving", 20), come("many", "sending", 15)];
  const few = come("few", "receiving", 30);
  const waiting = come("many", "waiting", 90);
  assert.equal(come("new", "receiving", 0).got, "place");
  assert.deepEqual(
    [few, first, second, waiting].map(({ guest }) => guest.isClosed),
    [false, true, false, false],
  );
});

test("a newcomer takes no place from an address that has no more than its own", () => {
  const { come } = startPlaces(2);
  come("a", "receiving");
  come("b", "waiting");
  const again = come("b", "receiving", 0);
  assert.equal(again.got, "reserve");
});

test("of an address that has most itself the slowest makes room for its own newcomer", () => {
  const { come } = startPlaces(2);
  const [slow] = [come("a", "receiving", 9), come("a", "receiving", 0)];
  assert.equal(come("a", "receiving", 0).got, "place");
  assert.ok(slow.guest.isClosed);
});

test("what has only begun to arrive, is served or waits is not closed for anybody", () => {
  const { come } = startPlaces(4);
  const activity: readonly (readonly [ConnectionActivity, number])[] = [
    ["waiting", 50],
    ["serving", 40],
    ["receiving", 0.9],
    ["sending", 0.5],
  ];
  const guests = activity.map(([what, seconds]) => come("many", what, seconds).guest);
  assert.equal(come("new", "receiving", 0).got, "reserve");
  assert.ok(guests.every(({ isClosed }) => !isClosed));
});

test("an address has a quarter of the places and no more, and the others are not closed for it", () => {
  const { places, come } = startPlaces(4096);
  assert.equal(places.ofAddressMax, 1024);
  const idle = come("other", "idle", 90);
  for (let i = 0; i < 1024; i++) assert.equal(come("one", "waiting").got, "place");
  assert.equal(come("one", "receiving").got, "reserve");
  assert.equal(come("two", "receiving").got, "place");
  assert.ok(!idle.guest.isClosed);
});

test("an address that has its share gives up its own idle one for its next", () => {
  const { places, come } = startPlaces(1024);
  assert.equal(places.ofAddressMax, 256);
  const [first] = Array.from({ length: 256 }, () => come("one", "idle"));
  assert.equal(come("one", "receiving").got, "place");
  assert.ok(first?.guest.isClosed);
  assert.equal(places.size, 256);
});

test("one client may have all places where there are few", () => {
  const { come } = startPlaces(100);
  for (let i = 0; i < 100; i++) assert.equal(come("one", "waiting").got, "place");
  assert.equal(come("one", "waiting").got, "reserve");
});

test("the reserve is for those who ask at once: the others make room in it, and then there is none", () => {
  const { places, come } = startPlaces(1);
  come("a", "serving");
  const silent = come("b", "receiving", 0);
  for (let i = 1; i < RESERVE_PLACES; i++) assert.equal(come("b", "serving").got, "reserve");
  assert.equal(come("c", "serving").got, "reserve");
  assert.ok(silent.guest.isClosed);
  assert.equal(come("d", "serving").got, "none");
  assert.equal(places.size, 1 + RESERVE_PLACES);
});

test("what becomes of those for whom there is no place is told, and of nobody else", () => {
  const { come, told } = startPlaces(2);
  come("one", "idle");
  come("one", "serving");
  assert.deepEqual(told, []);
  come("two", "serving");
  assert.deepEqual(told, ["closed_others"]);
  for (let i = 0; i < RESERVE_PLACES; i++) come("three", "serving");
  assert.equal(come("three", "serving").got, "none");
  const reserve = Array.from({ length: RESERVE_PLACES }, () => "over_reserve");
  assert.deepEqual(told, ["closed_others", ...reserve, "refused"]);
});

test("whoever leaves makes room, and in the end nothing is left", () => {
  const { places, come } = startPlaces(2);
  const guests = [come("a", "serving"), come("b", "serving"), come("b", "serving")];
  for (const { guest } of guests) places.leave(guest);
  for (const { guest } of guests) places.leave(guest);
  assert.equal(places.size, 0);
  assert.deepEqual([...places.all()], []);
  assert.equal(come("c", "serving").got, "place");
});

test("who has asked something again is no longer the longest idle one", () => {
  const { places, come } = startPlaces(2);
  const [first, second] = [come("a", "idle"), come("a", "idle")];
  first.guest.since = NOW;
  places.changed(first.guest);
  come("b", "receiving");
  assert.deepEqual([first.guest.isClosed, second.guest.isClosed], [false, true]);
});

test("where none is idle nobody is looked at for each newcomer, and who becomes idle is found", () => {
  const { places, come } = startPlaces(1000);
  let looks = 0;
  const crowd = Array.from(
    { length: places.ofAddressMax },
    () => come("crowd", "receiving", 0).guest,
  );
  const last = crowd.at(-1);
  assert.ok(last);
  for (const guest of crowd) {
    let activity: ConnectionActivity = "receiving";
    Object.defineProperty(guest, "activity", {
      get: () => (looks++, activity),
      set(now: ConnectionActivity) {
        activity = now;
      },
    });
  }
  for (let i = 0; i < 10; i++) assert.equal(come("crowd", "receiving", 0).got, "reserve");
  assert.ok(looks <= 10, `${looks} looks`);

  last.activity = "idle";
  places.changed(last);
  assert.equal(come("crowd", "receiving", 0).got, "place");
  assert.ok(last.isClosed);
});
