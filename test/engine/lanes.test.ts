import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import { Lanes } from "../../src/engine/lanes.ts";

const NOW = 1_000_000;

test("a lane is taken when its earliest attempt is due and not before", () => {
  const lanes = new Lanes({ inFlightMax: 10, inFlightPerHostMax: 4 });
  lanes.noteDue("a", NOW);

  assert.deepEqual(lanes.take(NOW - 1), []);
  assert.deepEqual(lanes.take(NOW), [{ host: "a", max: 4 }]);
});

test("an earlier due time replaces a later one, and a later one changes nothing", () => {
  const lanes = new Lanes({ inFlightMax: 10, inFlightPerHostMax: 4 });
  lanes.noteDue("a", NOW + 100);
  lanes.noteDue("a", NOW);
  lanes.noteDue("a", NOW + 50);

  assert.deepEqual(lanes.take(NOW), [{ host: "a", max: 4 }]);
});

test("a share counts as in flight until it is claimed, then what was really started does", () => {
  const lanes = new Lanes({ inFlightMax: 10, inFlightPerHostMax: 4 });
  lanes.noteDue("a", NOW);
  const [share] = lanes.take(NOW);
  assert.ok(share);
  assert.equal(lanes.inFlight, 4);

  lanes.claimed(share, { started: 1, dueAt: null });
  assert.equal(lanes.inFlight, 1);
  assert.equal(lanes.isIdle(NOW), false);

  lanes.ended("a");
  assert.equal(lanes.inFlight, 0);
  assert.equal(lanes.isIdle(NOW), true);
});

test("a full lane waits until one of its attempts ends, and holds up no other", () => {
  const lanes = new Lanes({ inFlightMax: 10, inFlightPerHostMax: 2 });
  lanes.noteDue("hangs", NOW);
  const [share] = lanes.take(NOW);
  assert.ok(share);
  lanes.claimed(share, { started: 2, dueAt: NOW });
  lanes.noteDue("works", NOW);

  assert.deepEqual(lanes.take(NOW), [{ host: "works", max: 2 }]);

  lanes.ended("hangs");
  assert.deepEqual(lanes.take(NOW), [{ host: "hangs", max: 1 }]);
});

test("due lanes take turns, so that a long queue gets no more turns than a short one", () => {
  const lanes = new Lanes({ inFlightMax: 1, inFlightPerHostMax: 1 });
  lanes.noteDue("long", NOW);
  lanes.noteDue("short", NOW);
  const turns: string[] = [];

  for (let i = 0; i < 4; i++) {
    const [share] = lanes.take(NOW);
    assert.ok(share);
    turns.push(share.host);
    lanes.claimed(share, { started: 1, dueAt: NOW });
    lanes.ended(share.host);
  }

  assert.deepEqual(turns, ["long", "short", "long", "short"]);
});

test("a retry far away neither blocks nor multiplies while fresh attempts come and go", () => {
  const lanes = new Lanes({ inFlightMax: 10, inFlightPerHostMax: 2 });
  const retryAt = NOW + 60_000;

  for (let i = 0; i < 1000; i++) {
    lanes.noteDue("a", NOW);
    const [share] = lanes.take(NOW);
    assert.ok(share);
    lanes.claimed(share, { started: 1, dueAt: retryAt });
    lanes.ended("a");
  }

  assert.equal(lanes.isIdle(NOW), true);
  assert.deepEqual(lanes.take(retryAt), [{ host: "a", max: 2 }]);
});

test("hosts that hang together leave places for one that has nothing in flight", () => {
  const lanes = new Lanes({ inFlightMax: 8, inFlightPerHostMax: 4 });
  for (const host of ["hangs", "hangs too"]) lanes.noteDue(host, NOW);
  for (const share of lanes.take(NOW)) {
    lanes.claimed(share, { started: share.max, dueAt: NOW });
  }
  assert.equal(lanes.inFlight, 6);
  assert.deepEqual(lanes.take(NOW), []);
  lanes.noteDue("works", NOW);

  assert.deepEqual(lanes.take(NOW), [{ host: "works", max: 1 }]);
});

test("limits hold and nothing due is forgotten, whatever the order of events", () => {
  const event = fc.record({
    host: fc.integer({ min: 0, max: 5 }),
    dueIn: fc.nat(50),
    ends: fc.nat(3),
  });
  fc.assert(
    fc.property(fc.array(event, { maxLength: 200 }), (events) => {
      const model = new Model();
      for (const each of events) model.step(each);
      model.finish();
    }),
  );
});

/** A store that holds due times by host, and a check of the limits after each step. */
class Model {
  readonly #lanes = new Lanes({ inFlightMax: 5, inFlightPerHostMax: 2 });
  readonly #waiting = new Map<string, number[]>();
  readonly #flying: string[] = [];
  #now = NOW;

  step({ host, dueIn, ends }: { host: number; dueIn: number; ends: number }): void {
    const name = `h${host}`;
    this.#waiting.set(name, [...(this.#waiting.get(name) ?? []), this.#now + dueIn]);
    this.#lanes.noteDue(name, this.#now + dueIn);
    this.#pump();
    for (const ended of this.#flying.splice(0, ends)) this.#lanes.ended(ended);
    this.#now += 7;
    this.#pump();
  }

  finish(): void {
    this.#now += 1000;
    for (let i = 0; i < 1000; i++) {
      this.#pump();
      for (const ended of this.#flying.splice(0)) this.#lanes.ended(ended);
    }
    assert.deepEqual([...this.#waiting.values()].flat(), []);
    assert.equal(this.#lanes.isIdle(this.#now), true);
  }

  #pump(): void {
    for (const share of this.#lanes.take(this.#now)) {
      const all = (this.#waiting.get(share.host) ?? []).toSorted((a, b) => a - b);
      const due = all.filter((dueAt) => dueAt <= this.#now).slice(0, share.max);
      const left = all.slice(due.length);
      this.#waiting.set(share.host, left);
      this.#flying.push(...due.map(() => share.host));
      this.#lanes.claimed(share, { started: due.length, dueAt: left[0] ?? null });
    }
    assert.equal(this.#lanes.inFlight, this.#flying.length);
    assert.ok(this.#flying.length <= 5);
    for (const [host, flying] of Object.entries(Object.groupBy(this.#flying, (name) => name))) {
      assert.ok((flying ?? []).length <= 2, `${host} is over its limit`);
    }
  }
}
