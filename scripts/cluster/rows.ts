import { setTimeout as sleep } from "node:timers/promises";

import { z } from "zod";

import { carefulCall, servedCall } from "../kit/careful-call.ts";
import { spreadOf } from "../kit/durations.ts";
import { whole } from "../kit/flags.ts";
import { defineRow, NODES } from "./define-row.ts";
import { msToElsewhere, postFacts, untilItRuns, type Absence } from "./left-work.ts";
import { backFacts, countConnections, msToProgress, progress, requireAll } from "./measures.ts";

export const killNodes = defineRow({
  about: "kill -9 of a daemon, again and again; each starts again.",
  flags: { rounds: whole("kills", 30) },
  async damage(world, fault, values) {
    const { cluster, ledger, posts, database } = world;
    const elsewhere: number[] = [];
    const absences: Absence[] = [];
    for (let round = 0; round < values.rounds; round++) {
      const node = cluster.node(round % NODES);
      await progress(ledger);
      await untilItRuns(world, node, round);
      const from = performance.now();
      await node.kill();
      fault();
      elsewhere.push(...[await msToElsewhere(database.url, node)].filter((ms) => ms !== null));
      await progress(ledger);
      absences.push({ from, to: performance.now() });
      await node.start();
    }
    const { count, p50Ms, maxMs } = spreadOf(elsewhere);
    return [
      ["kill -9 of a daemon", values.rounds],
      [`until its runs had started elsewhere, p50 s of ${count}`, (p50Ms / 1000).toFixed(1)],
      ["at most, s", (maxMs / 1000).toFixed(1)],
      ...postFacts(posts, absences),
    ];
  },
});

export const killServer = defineRow({
  about: "kill -9 of PostgreSQL, again and again; each time it starts again.",
  flags: { rounds: whole("kills", 10), seconds: whole("that it is away", 3) },
  async damage({ server, ledger, cluster }, fault, values) {
    const back: number[] = [];
    for (let round = 0; round < values.rounds; round++) {
      await progress(ledger);
      await server.kill();
      fault();
      await sleep(values.seconds * 1000);
      await server.startAgain();
      back.push(await msToProgress(ledger));
    }
    requireAll(cluster);
    return [["kill -9 of PostgreSQL", values.rounds], ...backFacts(back)];
  },
});

export const stopNodes = defineRow({
  about: "SIGSTOP of a daemon for longer than it may be silent, then SIGCONT.",
  flags: { rounds: whole("stops", 3), seconds: whole("that it stands still", 60) },
  async damage({ cluster, ledger }, fault, values) {
    for (let round = 0; round < values.rounds; round++) {
      await progress(ledger);
      const node = cluster.node(round % NODES);
      node.pause();
      fault();
      await sleep(values.seconds * 1000);
      node.resume();
      fault();
      await progress(ledger);
    }
    requireAll(cluster);
    return [["SIGSTOP of a daemon", values.rounds]];
  },
});

// Eight, one of them for notifications, and one for a moment when another daemon has ended.
const CONNECTIONS_MAX = 9;

export const joinAndLeave = defineRow({
  about: "Daemons join at once and leave at once, again and again.",
  flags: { rounds: whole("times", 50), nodes: whole("that join", 9) },
  nodes: 1,
  async damage({ cluster, ledger, server }, _fault, values) {
    const [first, ...others] = [cluster.node(0), ...(await cluster.grow(values.nodes))];
    if (first === undefined) throw new Error("there is no node");
    let connections = 0;
    for (let round = 0; round < values.rounds; round++) {
      await progress(ledger);
      for (const [name, count] of await countConnections(server)) {
        connections = Math.max(connections, count);
        if (count > CONNECTIONS_MAX) throw new Error(`${name} has ${count} connections`);
      }
      await Promise.all(others.map((node) => node.stop()));
      await progress(ledger);
      await Promise.all(others.map((node) => node.start()));
    }
    return [
      ["times that they left and joined", values.rounds],
      ["daemons", values.nodes + 1],
      ["connections of a daemon, at most", connections],
      ["requests that no daemon took", cluster.balancer.refused],
    ];
  },
});

export const revokeKey = defineRow({
  about: "A key that one daemon revokes is used at another at once, again and again.",
  flags: { rounds: whole("keys", 1000) },
  async damage({ cluster }, _fault, values) {
    for (let round = 0; round < values.rounds; round++) {
      const [own, other] = [cluster.node(round % NODES), cluster.node((round + 1) % NODES)];
      const { key, keyId } = await newKeyAt(own.url, cluster.account.key);
      const before = await statusAt(other.url, key);
      await revokeAt(own.url, { keyId, key: cluster.account.key });
      const after = await statusAt(other.url, key);
      if (before !== 200 || after !== 401)
        throw new Error(
          `key ${round} was answered ${before} before its end, and ${after} after it`,
        );
    }
    return [["keys revoked and used, each refused at once", values.rounds]];
  },
});

const KEYS = "/v1/appendix/keys";
const madeKey = z.object({ key: z.object({ key: z.string(), key_id: z.string() }) });

async function newKeyAt(url: string, key: string): Promise<{ key: string; keyId: string }> {
  const answer = await servedCall(`${url}${KEYS}`, { secret: key });
  const { key: made } = madeKey.parse(JSON.parse(answer?.text ?? "null"));
  return { key: made.key, keyId: made.key_id };
}

async function revokeAt(
  url: string,
  { keyId, key }: { readonly keyId: string; readonly key: string },
): Promise<void> {
  await servedCall(`${url}${KEYS}/${keyId}`, { secret: key, method: "DELETE" });
}

async function statusAt(url: string, key: string): Promise<number | null> {
  const answer = await carefulCall(`${url}/v1/tasks`, { secret: key, method: "GET" });
  return answer?.status ?? null;
}
