import assert from "node:assert/strict";
import { test } from "node:test";

import { NODE_ROLES } from "../../../src/store/cluster.ts";
import {
  type RoleRow,
  type RoleView,
  planRoles,
} from "../../../src/store/postgres/machine/roles.ts";

const NOW = 1_000_000;
const PATIENCE_MS = 5000;

/** The first roles are this node's, the next ones another node's. The rest have been free for `freeMs`. */
function newView({
  own = 0,
  others = 0,
  freeMs = 0,
  ...view
}: Partial<RoleView> & { own?: number; others?: number; freeMs?: number }): RoleView {
  const roles = NODE_ROLES.map((name, i): RoleRow => {
    if (i < own) return { name, nodeSeq: 1, until: NOW + 10_000 };
    if (i < own + others) return { name, nodeSeq: 2, until: NOW + 10_000 };
    return { name, nodeSeq: null, until: NOW - 1 - freeMs };
  });
  const rest = { isResigning: false, isClockTrusted: true, now: NOW, patienceMs: PATIENCE_MS };
  return { roles, self: 1, members: 1, hasGrown: false, ...rest, ...view };
}

test("a single node takes all roles", () => {
  assert.deepEqual(planRoles(newView({})), { hold: NODE_ROLES, release: [] });
});

test("two nodes share seven roles as four and three", () => {
  assert.deepEqual(planRoles(newView({ members: 2 })).hold, NODE_ROLES.slice(0, 4));
});

test("a node gives back roles above its share when another node has joined", () => {
  const kept = planRoles(newView({ own: 7, members: 2 }));
  const shared = planRoles(newView({ own: 7, members: 2, hasGrown: true }));
  assert.deepEqual(kept, { hold: NODE_ROLES, release: [] });
  assert.deepEqual(shared, { hold: NODE_ROLES.slice(0, 4), release: NODE_ROLES.slice(4) });
});

test("a node takes roles above its share that stay free", () => {
  const soon = newView({ own: 4, members: 2 });
  const late = newView({ own: 4, members: 2, freeMs: PATIENCE_MS });
  assert.deepEqual(planRoles(soon).hold, NODE_ROLES.slice(0, 4));
  assert.deepEqual(planRoles(late).hold, NODE_ROLES);
});

test("a node takes no role of another node", () => {
  assert.deepEqual(planRoles(newView({ others: 7, members: 2 })).hold, []);
});

test("a node that resigns gives back its roles unless it is alone", () => {
  const among = planRoles(newView({ own: 3, members: 2, isResigning: true }));
  const alone = planRoles(newView({ own: 7, isResigning: true }));
  assert.deepEqual(among, { hold: [], release: NODE_ROLES.slice(0, 3) });
  assert.deepEqual(alone, { hold: NODE_ROLES, release: [] });
});

test("a node takes no expired roles while its clock is not trusted", () => {
  const view = newView({ others: 7, members: 2 });
  const roles = view.roles.map((role) => ({ ...role, until: NOW - 60_000 }));
  assert.deepEqual(planRoles({ ...view, roles }).hold, NODE_ROLES);
  assert.deepEqual(planRoles({ ...view, roles, isClockTrusted: false }).hold, []);
});
