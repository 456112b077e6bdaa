import assert from "node:assert/strict";
import { test } from "node:test";

import { MINUTE_MS } from "../../src/domain/clock/duration.ts";
import { notReadyReason } from "../../src/ops/conditions.ts";
import { absence, healthOfAll, lostNodes, statusSource, tellOfNode } from "../../src/ops/nodes.ts";
import { newLoneNode } from "../../src/store/common/lone-node.ts";
import { type NodeFacts, type NodeSummary, StoreError } from "../../src/store/store.ts";
import { FakeCluster } from "../helpers/cluster.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

const OWN = { runs: { all: 10, failed: 1 }, receivers: { all: 3, failed: 0 } };
const engine = {
  health: () => OWN,
  facts: () => ({ ...OWN, running: [{ type: "echo", runs: 2 }], sending: 4 }),
};

function newNode(id: string, facts: Partial<NodeFacts> | null, endedAt: number | null = null) {
  const none = { url: null, running: [], sending: 0, ...OWN };
  const times = { joinedAt: 1, lastSeenAt: 2, endedAt, isLost: endedAt !== null };
  const who = { id, name: "host", version: "1.0.0", roles: [] };
  return { ...who, ...times, facts: facts === null ? null : { ...none, ...facts } };
}

function newStore(nodes: () => readonly NodeSummary[] | Promise<never>) {
  const cluster = new FakeCluster(createFakeClock());
  return { cluster, listNodes: async () => nodes() };
}

test("the health of the service sums the health of each live node", async () => {
  const nodes = [
    newNode("node-1", { runs: { all: 99, failed: 99 } }),
    newNode("node-2", { runs: { all: 5, failed: 5 }, receivers: { all: 2, failed: 1 } }),
    newNode("node-3", null),
    newNode("node-0", { runs: { all: 7, failed: 7 } }, 2),
  ];
  const store = newStore(() => nodes);
  assert.deepEqual(await healthOfAll({ store, engine }), {
    runs: { all: 15, failed: 6 },
    receivers: { all: 5, failed: 1 },
  });
});

test("without other nodes the health is this node's own", async () => {
  const broken = newStore(() => Promise.reject(new StoreError("unreachable", "no server")));
  assert.deepEqual(await healthOfAll({ store: broken, engine }), OWN);
  const alone = {
    cluster: newLoneNode(createFakeClock()),
    listNodes: () => assert.fail("nobody else is there"),
  };
  assert.deepEqual(await healthOfAll({ store: alone, engine }), OWN);
});

test("a node publishes its URL and its work", () => {
  const cluster = newLoneNode(createFakeClock());
  let url = "";
  tellOfNode({ store: { cluster, listNodes: async () => [] }, engine }, () => url);
  const shown = () => cluster.summary({ name: "host", version: "1" }).facts;
  assert.equal(shown()?.url, null);
  url = "http://127.0.0.1:1";
  assert.deepEqual(shown(), { ...engine.facts(), url });
});

test("a node is lost if its newest incarnation ended without leaving", () => {
  const life = (name: string, endedAt: number | null, isLost = false): NodeSummary => {
    return { ...newNode(`${name} ${endedAt}`, null, endedAt), name, isLost };
  };
  const nodes = [
    ...[life("back", null), life("left", 9), life("gone", 8, true)],
    ...[life("left", 3, true), life("back", 2, true), life("gone", 1, true)],
  ];
  assert.deepEqual(
    lostNodes(nodes).map(({ name, lastSeenAt }) => [name, lastSeenAt]),
    [["gone", 2]],
  );
});

test("a node outside the cluster has a reason to refuse posts", () => {
  const { cluster } = newStore(() => []);
  assert.equal(absence({ cluster }), null);
  cluster.isIn = false;
  assert.match(absence({ cluster }) ?? "", /out of reach/);
});

const FAULT = new StoreError("failed", "I/O error at /srv/secret.db");
const SOUND = { runs: { all: 0, failed: 0 }, receivers: { all: 0, failed: 0 } };

function setUp() {
  const clock = createFakeClock({ now: 0 });
  const state: { fault: StoreError | null; isHalted: boolean; isOpen: boolean; reads: number } = {
    ...{ fault: null, isHalted: false, isOpen: true, reads: 0 },
  };
  const store = {
    cluster: newLoneNode(clock),
    fault: () => state.fault,
    listNodes: async () => [],
    findOldestQueued: async () => {
      state.reads++;
      if (state.fault !== null) throw state.fault;
      return 0;
    },
  };
  const engine = {
    get isHalted() {
      return state.isHalted;
    },
    health: () => SOUND,
  };
  return { clock, state, store, engine };
}

test("the status is decided once a second, by the store, the engine and the oldest queued task", async () => {
  const { clock, state, store, engine } = setUp();
  const config = { types: new Map() };
  const isAccepting = () => state.isOpen;
  const parts = { config, clock, store, engine } as unknown as Parameters<typeof statusSource>[0];
  const read = statusSource(parts, { isAccepting, hasRoom: async () => true });
  const words = async () => Object.values((await read()).components).join(" ");
  const fine = "operational operational operational";
  await Promise.all(Array.from({ length: 40 }, words));
  state.fault = FAULT;
  clock.advance(999);
  assert.equal(await words(), fine);
  assert.equal(state.reads, 1);

  for (const [change, expected] of [
    [{}, "down operational operational"],
    [{ fault: null, isOpen: false }, "down operational operational"],
    [{ isOpen: true, isHalted: true }, "operational down down"],
    [{ isHalted: false }, fine],
  ] as const) {
    Object.assign(state, change);
    clock.advance(1000);
    assert.equal(await words(), expected);
  }
  clock.advance(15 * MINUTE_MS);
  assert.equal(await words(), "operational degraded operational");
});

test("/readyz fails with a fault of the store or engine, without space and while the API is closed", async () => {
  const { state, store, engine } = setUp();
  let shortage: string | null = null;
  const storage = { shortage: async () => shortage };
  const reason = () => notReadyReason({ store, engine, storage, isOpen: state.isOpen });
  assert.equal(await reason(), null);
  state.isOpen = false;
  const closed = (await reason()) ?? assert.fail();
  state.isOpen = true;
  shortage = "no space";
  assert.equal(await reason(), "no space");
  state.isHalted = true;
  const halted = (await reason()) ?? assert.fail();
  state.fault = FAULT;
  const broken = (await reason()) ?? assert.fail();
  assert.equal(new Set([closed, halted, broken, shortage]).size, 4);
  assert.doesNotMatch(broken, /secret/);
});
