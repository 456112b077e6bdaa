import { setTimeout as sleep } from "node:timers/promises";

import pg from "pg";

import { defineCommand, type Command } from "../kit/command.ts";
import { median } from "../kit/durations.ts";
import { toggle, whole, type Flags, type Values } from "../kit/flags.ts";
import type { PostgresServer } from "../kit/postgres-server.ts";
import { until } from "../kit/until.ts";
import { runRow, type Fact, type Row } from "./run-row.ts";
import type { World } from "./world.ts";

// Contract §11, and what a machine that is busy adds.
const BACK_MS_MAX = 15_000;
const NODES = 3;

const NO_NOTIFY = { "no-notify": toggle("daemons send no notifications, and hear none") };

/** A row with flags of its own, whose values its damage is given. */
interface OwnRow<Own extends Flags> extends Omit<Row, "damage" | "flags" | "nodes"> {
  readonly about: string;
  readonly flags: Own;
  /** Three unless given. */
  readonly nodes?: number;
  readonly damage: (
    world: World,
    fault: () => void,
    values: Values<Own>,
  ) => Promise<readonly Fact[]>;
}

function defineRow<Own extends Flags>({
  about,
  flags,
  nodes = NODES,
  damage,
  ...row
}: OwnRow<Own>): Command {
  const all = { ...flags, ...NO_NOTIFY };
  return defineCommand({
    about,
    flags: all,
    run: (values, bench) =>
      runRow(bench, {
        ...row,
        nodes,
        flags: values["no-notify"] ? ["--no-notify"] : [],
        damage: (world, fault) => damage(world, fault, values),
      }),
  });
}

export const killNodes = defineRow({
  about: "kill -9 of a daemon, again and again; each starts again.",
  flags: { rounds: whole("kills", 30) },
  async damage({ cluster, ledger }, fault, values) {
    for (let round = 0; round < values.rounds; round++) {
      const node = cluster.node(round % NODES);
      await progress(ledger);
      await node.kill();
      fault();
      await progress(ledger);
      await node.start();
    }
    return [["kill -9 of a daemon", values.rounds]];
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

export const cutConnections = defineRow({
  about: "Cuts connections to PostgreSQL right after a message, at every place of a batch.",
  flags: {
    rounds: whole("cuts", 10_000),
    places: whole("numbers of messages to let pass", 61),
  },
  hasProxy: true,
  async damage({ proxy, ledger, cluster }, fault, values) {
    if (proxy === null) throw new Error("there is no proxy");
    for (let round = 0; round < values.rounds; round++) {
      // Or every cut would meet connections that are being made.
      await msToProgress(ledger);
      const cuts = proxy.cuts;
      // In turn each number of messages: so each place of a batch comes.
      proxy.cutAfter(1 + (round % values.places));
      const isCut = (): boolean => proxy.cuts > cuts;
      const stuck = (): string => "nothing passes the proxy";
      await until(isCut, { msMax: BACK_MS_MAX, everyMs: 1, fault: stuck });
      fault();
    }
    await progress(ledger);
    requireAll(cluster);
    return [["connections cut", proxy.cuts]];
  },
});

export const haltNetwork = defineRow({
  about: "Delays everything by 200 ms; then nothing passes for some time, and no connection ends.",
  flags: { rounds: whole("halts", 3), seconds: whole("of a halt", 30) },
  hasProxy: true,
  async damage({ proxy, ledger, cluster }, fault, values) {
    if (proxy === null) throw new Error("there is no proxy");
    const back: number[] = [];
    for (let round = 0; round < values.rounds; round++) {
      proxy.delayMs = 200;
      fault();
      await sleep(values.seconds * 500);
      proxy.delayMs = 0;
      fault();
      await progress(ledger);
      proxy.hold();
      fault();
      await sleep(values.seconds * 1000);
      proxy.release();
      // What was held passes now, and meets those who have taken its work over.
      fault();
      back.push(await msToProgress(ledger));
    }
    requireAll(cluster);
    return [["halts", values.rounds], ...backFacts(back)];
  },
});

export const failOver = defineRow({
  about: "kill -9 of a server with a synchronous standby, which is promoted.",
  flags: {},
  hasStandby: true,
  endsAt: (world) => standbyOf(world).url,
  async damage(world, fault) {
    const { server, ledger, cluster } = world;
    await progress(ledger);
    await server.kill();
    fault();
    await standbyOf(world).promote();
    const back = await msToProgress(ledger);
    requireAll(cluster);
    return backFacts([back]);
  },
});

export const loseStandby = defineRow({
  about: "The only synchronous standby is gone for some time: nothing is acknowledged meanwhile.",
  flags: { seconds: whole("that it is away", 20) },
  hasStandby: true,
  async damage(world, fault, values) {
    const { ledger, cluster } = world;
    await progress(ledger);
    const standby = standbyOf(world);
    await standby.kill();
    fault();
    // What had reached it is acknowledged still.
    await sleep(1000);
    const before = ledger.tasks.size;
    await sleep(values.seconds * 1000);
    if (ledger.tasks.size > before) throw new Error("acknowledged without the standby");
    await standby.startAgain();
    const back = await msToProgress(ledger);
    requireAll(cluster);
    return [["seconds without a standby", values.seconds], ...backFacts([back])];
  },
});

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
      connections = Math.max(connections, await countConnections(server));
      await Promise.all(others.map((node) => node.stop()));
      await progress(ledger);
      await Promise.all(others.map((node) => node.start()));
    }
    return [
      ["times that they left and joined", values.rounds],
      ["daemons", values.nodes + 1],
      ["connections at most", connections],
      ["requests that no daemon took", cluster.balancer.refused],
    ];
  },
});

export const pinSnapshot = defineRow({
  about: "A transaction of somebody else keeps an old snapshot open, as pg_dump does.",
  flags: { seconds: whole("that it is open", 600) },
  async damage({ server, ledger }, _fault, values) {
    const client = new pg.Client(server.url);
    await client.connect();
    await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
    await client.query("SELECT count(*) FROM queue");
    const rates: number[] = [];
    for (let second = 0; second < values.seconds; second += 10) {
      const before = ledger.tasks.size;
      await sleep(10_000);
      rates.push((ledger.tasks.size - before) / 10);
    }
    await client.query("COMMIT");
    await client.end();
    return [
      ["tasks a second in the first ten seconds", (rates[0] ?? 0).toFixed(0)],
      ["in the last ten", (rates.at(-1) ?? 0).toFixed(0)],
    ];
  },
});

function standbyOf({ standby }: World): PostgresServer {
  if (standby === null) throw new Error("there is no standby");
  return standby;
}

/** Settles when more tasks have been acknowledged and more webhooks have come. */
async function progress(ledger: World["ledger"]): Promise<void> {
  const [tasks, arrivals] = [ledger.tasks.size + 20, ledger.arrivals.length + 20];
  await until(() => ledger.tasks.size > tasks && ledger.arrivals.length > arrivals, {
    msMax: 60_000,
    fault: () => `no progress: ${ledger.tasks.size} tasks, ${ledger.arrivals.length} webhooks`,
  });
}

/** How long it takes until the next task is acknowledged. Rejects when that is later than promised. */
async function msToProgress(ledger: World["ledger"]): Promise<number> {
  const [since, before] = [performance.now(), ledger.tasks.size];
  await until(() => ledger.tasks.size > before, {
    msMax: BACK_MS_MAX,
    everyMs: 5,
    fault: () => `nothing is acknowledged ${BACK_MS_MAX} ms after the fault is over`,
  });
  return performance.now() - since;
}

function backFacts(ms: readonly number[]): readonly Fact[] {
  const sorted = ms.toSorted((a, b) => a - b);
  return [
    ["from its end to the next acknowledged task, p50 ms", median(sorted).toFixed(0)],
    ["at most, ms", (sorted.at(-1) ?? 0).toFixed(0)],
  ];
}

/** No daemon may have ended by itself. */
function requireAll({ nodes }: World["cluster"]): void {
  for (const { daemon } of nodes) daemon.requireRunning();
}

async function countConnections({ url }: PostgresServer): Promise<number> {
  const client = new pg.Client(url);
  await client.connect();
  const { rows } = await client.query<{ count: string }>(
    "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
  );
  await client.end();
  return Number(rows[0]?.count);
}
