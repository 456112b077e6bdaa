import assert from "node:assert/strict";
import { test } from "node:test";

import {
  DUTIES,
  planDuties,
  type DutyRow,
  type DutyView,
} from "../../../src/store/postgres/machine/duties.ts";

const NOW = 1_000_000;
const PATIENCE_MS = 5000;

/** The duties: the first are this node's, those after them another's, the rest nobody's for so long. */
function newView({
  own = 0,
  others = 0,
  freeMs = 0,
  ...view
}: Partial<DutyView> & { own?: number; others?: number; freeMs?: number }): DutyView {
  const duties = DUTIES.map((name, i): DutyRow => {
    if (i < own) return { name, nodeSeq: 1, until: NOW + 10_000 };
    if (i < own + others) return { name, nodeSeq: 2, until: NOW + 10_000 };
    return { name, nodeSeq: null, until: NOW - 1 - freeMs };
  });
  const rest = { isResigning: false, isClockTrusted: true, now: NOW, patienceMs: PATIENCE_MS };
  return { duties, self: 1, members: 1, hasGrown: false, ...rest, ...view };
}

test("a node that is alone takes all duties", () => {
  assert.deepEqual(planDuties(newView({})), { hold: DUTIES, release: [] });
});

test("two nodes share seven duties as four and three", () => {
  assert.deepEqual(planDuties(newView({ members: 2 })).hold, DUTIES.slice(0, 4));
});

test("gives back what is more than its share when another node has joined, and only then", () => {
  const kept = planDuties(newView({ own: 7, members: 2 }));
  const shared = planDuties(newView({ own: 7, members: 2, hasGrown: true }));

  assert.deepEqual(kept, { hold: DUTIES, release: [] });
  assert.deepEqual(shared, { hold: DUTIES.slice(0, 4), release: DUTIES.slice(4) });
});

test("takes more than its share of what nobody else has taken for some time", () => {
  const soon = newView({ own: 4, members: 2 });
  const late = newView({ own: 4, members: 2, freeMs: PATIENCE_MS });

  assert.deepEqual(planDuties(soon).hold, DUTIES.slice(0, 4));
  assert.deepEqual(planDuties(late).hold, DUTIES);
});

test("takes nothing that another node holds", () => {
  assert.deepEqual(planDuties(newView({ others: 7, members: 2 })).hold, []);
});

test("a node that resigns gives all back to others, and keeps them while it is alone", () => {
  const among = planDuties(newView({ own: 3, members: 2, isResigning: true }));
  const alone = planDuties(newView({ own: 7, isResigning: true }));

  assert.deepEqual(among, { hold: [], release: DUTIES.slice(0, 3) });
  assert.deepEqual(alone, { hold: DUTIES, release: [] });
});

test("leaves to others what they hold while a clock that was set says that their time is over", () => {
  const view = newView({ others: 7, members: 2 });
  const duties = view.duties.map((duty) => ({ ...duty, until: NOW - 60_000 }));
  assert.deepEqual(planDuties({ ...view, duties }).hold, DUTIES);
  assert.deepEqual(planDuties({ ...view, duties, isClockTrusted: false }).hold, []);
});
