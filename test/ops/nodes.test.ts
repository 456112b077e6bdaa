import assert from "node:assert/strict";
import { test } from "node:test";

import { absence, healthOfAll, lostNodes, tellOfNode } from "../../src/ops/nodes.ts";
import { newLoneNode } from "../../src/store/common/lone-node.ts";
import { StoreError, type NodeFacts, type NodeSummary } from "../../src/store/store.ts";
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
