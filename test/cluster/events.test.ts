import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { Cluster, ClusterNode } from "../../scripts/kit/cluster.ts";
import { pageHeaders, signInOperator } from "../../scripts/kit/daemon.ts";
import { until } from "../../scripts/kit/until.ts";
import { newWebhookSecret } from "../../src/domain/account/key.ts";
import { NODE_ROLES } from "../../src/store/cluster.ts";
import { BEAT_MS } from "../../src/store/postgres/machine/heartbeat.ts";
import { readEvent, type ShownEvent } from "../flow/shown-event.ts";
import { reasonToSkipPostgres } from "../helpers/postgres.ts";
import { startReceiver, type Receiver } from "../helpers/receiver.ts";
import type { OperatorFields } from "../http/operator-requests.ts";
import { newHastyProgram } from "./hasty-program.ts";
import { listNodes, startCluster, type StartedCluster } from "./start.ts";

const skip = reasonToSkipPostgres();

const SECRET = newWebhookSecret();
// Ten seconds until it is over, and some more until all have looked; a killed daemon's roles are free after as long.
const PATIENCE_MS = 60_000;
const NAME = "worker.missing";
const LOST = "node.lost";

/** A cluster whose operator is told at a receiver. */
class Told {
  readonly cluster: Cluster;
  readonly client: StartedCluster["client"];
  readonly #receiver: Receiver;
  readonly #cookie: string;

  constructor({ cluster, client }: StartedCluster, receiver: Receiver, cookie: string) {
    this.cluster = cluster;
    this.client = client;
    this.#receiver = receiver;
    this.#cookie = cookie;
  }

  /** The events of one type, sorted: `x began, says node-1`. */
  async lines(name = NAME): Promise<readonly string[]> {
    const events = new Map<string, ShownEvent>();
    for (const request of this.#receiver.requests) {
      const event = await readEvent(request, SECRET);
      // One whose answer was late comes again under its id.
      if (event.type === name) events.set(event.id, event);
    }
    return [...events.values()]
      .map(({ subject, status, node }) => `${subject} ${status}, says ${node}`)
      .toSorted();
  }

  /** Settles when so many were told. */
  async count(count: number, name = NAME): Promise<void> {
    let lines: readonly string[] = [];
    const isSo = async (): Promise<boolean> => (lines = await this.lines(name)).length >= count;
    await until(isSo, { msMax: PATIENCE_MS, fault: () => `told was only: ${lines.join("; ")}` });
  }

  /** Settles when each daemon that runs knows of these types alone: what it has to tell of that, it tells by then. */
  async allKnow(...types: readonly string[]): Promise<void> {
    let known: readonly string[] = [];
    const isSo = async (): Promise<boolean> => {
      known = await Promise.all(this.cluster.running.map((node) => this.#knownTo(node)));
      return known.every((text) => text === types.join());
    };
    await until(isSo, { msMax: PATIENCE_MS, fault: () => `known are: ${known.join("; ")}` });
  }

  async #knownTo({ url }: ClusterNode): Promise<string> {
    const answer = await fetch(`${url}/v1/operator/system`, { headers: pageHeaders(this.#cookie) });
    const { conditions } = (await answer.json()) as Pick<OperatorFields, "conditions">;
    const own = conditions.filter(({ name }) => name === NAME);
    return own
      .map(({ subject }) => subject ?? "-")
      .toSorted()
      .join();
  }
}

async function startTold(t: TestContext): Promise<Told> {
  const receiver = await startReceiver(t);
  const program = await newHastyProgram(t);
  const types = ["x", "y"].map((type) => `[types.${type}]\nrunner = "worker"\n`).join("");
  const more = `\n${types}[events]\nurl = "${receiver.url("/told")}"\nsecret = "${SECRET}"\n`;
  const started = await startCluster(t, { more, programOf: () => program });
  const { cluster } = started;
  const cookie = await signInOperator({ daemon: cluster.node(0).daemon, file: cluster.admin });
  return new Told(started, receiver, cookie);
}

/** Settles once no role changes hands any more: all are held, and each node has looked since the last one joined. */
async function divided(cluster: Cluster): Promise<void> {
  const isSo = async (): Promise<boolean> => {
    const nodes = await listNodes(cluster);
    const held = nodes.flatMap(({ roles }) => roles);
    const joined = nodes.map(({ joined_at: joinedAt }) => Date.parse(joinedAt));
    const seen = nodes.map(({ last_seen_at: seenAt }) => Date.parse(seenAt));
    // One heartbeat shows the other node, and the next heartbeats give roles back and take them.
    const isSeen = Math.min(...seen) > Math.max(...joined) + 3 * BEAT_MS;
    return isSeen && held.length === NODE_ROLES.length;
  };
  await until(isSo, { msMax: PATIENCE_MS, fault: () => "the roles are not divided" });
}

/** The daemon that sweeps. */
async function sweeper(cluster: Cluster): Promise<ClusterNode> {
  const nodes = (await listNodes(cluster)).filter(({ roles }) => roles.includes("sweep"));
  return (
    cluster.running.find(({ name }) => name === nodes[0]?.name) ?? assert.fail("nobody sweeps")
  );
}

test(
  "of what three daemons see alike the operator is told",
  { skip, timeout: 240_000 },
  async (t) => {
    const told = await startTold(t);
    const { cluster, client } = told;
    await divided(cluster);
    const first = await sweeper(cluster);
    const others = cluster.nodes.filter((node) => node !== first);
    const [x, y] = [await client.post({ type: "x" }), await client.post({ type: "y" })];
    const begun = [`x began, says ${first.name}`, `y began, says ${first.name}`];
    const over = [...begun, `x ended, says ${first.name}`].toSorted();
    let again: readonly string[] = [];

    await t.test("once, by the one that sweeps, while all of them show it", async () => {
      await told.allKnow("x", "y");
      await told.count(begun.length);
      assert.deepEqual(await told.lines(), begun);
      await logged(first, 2);
      assert.deepEqual(others.map(timesLogged), [0, 0]);
    });

    await t.test("once that it is over", async () => {
      await client.cancel(x);
      await told.allKnow("y");
      await told.count(over.length);
      assert.deepEqual(await told.lines(), over);
    });

    await t.test(
      "after kill -9 of that one once more, by the next one that sweeps, of what lasts alone",
      async () => {
        await first.kill();
        await told.count(over.length + 1);
        const next = await sweeper(cluster);
        again = [...over, `y began, says ${next.name}`].toSorted();
        assert.deepEqual(await told.lines(), again);
        await logged(next, 1);
        const rest = others.filter((node) => node !== next);
        assert.deepEqual(rest.map(timesLogged), [0]);
      },
    );

    await t.test("once that the killed one is lost, and of none that was stopped", async () => {
      await told.count(1, LOST);
      const next = await sweeper(cluster);
      assert.deepEqual(await told.lines(LOST), [`${first.name} began, says ${next.name}`]);
    });

    await t.test("once, by that next one, of the end of what began before the kill", async () => {
      const next = await sweeper(cluster);
      await client.cancel(y);
      await told.allKnow();
      await told.count(again.length + 1);
      // Events in flight arrive before the nodes end. A node that takes over the role sends the latest ends again.
      for (const node of cluster.running.filter((each) => each !== next)) await node.stop();
      await next.stop();
      assert.deepEqual(await told.lines(), [...again, `y ended, says ${next.name}`].toSorted());
      const lost = (await told.lines(LOST)).filter((line) => !line.startsWith(first.name));
      assert.deepEqual(lost, []);
    });
  },
);

/** Settles when a daemon has logged that so often, and no more often: its log comes another way than its events. */
async function logged(node: ClusterNode, times: number): Promise<void> {
  const isSo = (): boolean => timesLogged(node) >= times;
  await until(isSo, { msMax: PATIENCE_MS, fault: () => `${node.name} logs: ${node.daemon.log}` });
  assert.equal(timesLogged(node), times);
}

/** How often a daemon has logged that a type has no worker. */
function timesLogged({ daemon }: ClusterNode): number {
  return daemon.log.split("and no worker for it has connected").length - 1;
}
