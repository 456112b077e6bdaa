import { setTimeout as sleep } from "node:timers/promises";

import pg from "pg";

import { Cluster } from "../kit/cluster.ts";
import { defineCommand } from "../kit/command.ts";
import { whole } from "../kit/flags.ts";
import { PostgresServer } from "../kit/postgres-server.ts";
import { childrenOf, processUsage } from "../kit/processes.ts";
import { factTable, verdict } from "../kit/text-table.ts";

const STATEMENTS_MAX = 6;

// Starts, joins and first looks are over.
const WARM_MS = 30_000;

export const command = defineCommand({
  about: `What daemons on one PostgreSQL database do when there is nothing to do: statements, transactions, sessions and processor
time, of them and of the server.`,
  flags: { nodes: whole("daemons", 10), seconds: whole("measured", 60) },
  async run({ nodes, seconds }, { place, print }) {
    const settings = { shared_preload_libraries: "pg_stat_statements" };
    await using server = await PostgresServer.start({ settings });
    await using client = await connect(server.url);
    await client.query("CREATE EXTENSION pg_stat_statements");
    await using cluster = await Cluster.start({ place, url: server.url, nodes });
    await sleep(WARM_MS);
    const daemons = (): number =>
      sum(cluster.running.map(({ daemon }) => processUsage(daemon.pid).cpuSeconds));
    const served = (): number =>
      sum([server.pid, ...childrenOf(server.pid).map(({ pid }) => pid)].map(cpuSeconds));
    const look = async () => ({ ...(await counts(client)), daemons: daemons(), server: served() });
    const before = await look();
    await sleep(seconds * 1000);
    const after = await look();
    const rate = (what: keyof typeof before): number => (after[what] - before[what]) / seconds;
    print(
      factTable([
        ["daemons", nodes],
        ["statements a second", rate("statements").toFixed(1)],
        ["of each daemon", (rate("statements") / nodes).toFixed(1)],
        ["transactions a second", rate("transactions").toFixed(1)],
        ["sessions", after.sessions],
        ["processor time of the daemons, ms a second", (1000 * rate("daemons")).toFixed(1)],
        ["of each daemon", ((1000 * rate("daemons")) / nodes).toFixed(1)],
        ["processor time of the server, ms a second", (1000 * rate("server")).toFixed(1)],
      ]),
    );
    const isKept = rate("statements") / nodes <= STATEMENTS_MAX;
    print(`\n- of each daemon at most ${STATEMENTS_MAX} statements a second: ${verdict(isKept)}`);
  },
});

async function connect(url: string) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.end() });
}

const COUNTS = `
  SELECT (SELECT sum(calls) FROM pg_stat_statements)::float8 AS statements,
    (SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database)::float8 AS transactions,
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid())::int AS sessions`;

interface Counts {
  readonly statements: number;
  readonly transactions: number;
  readonly sessions: number;
}

async function counts(client: pg.Client): Promise<Counts> {
  const { rows } = await client.query<Counts>(COUNTS);
  const [found] = rows;
  if (found === undefined) throw new Error("the server counts nothing");
  return found;
}

// A session may end between the listing and the look at it.
function cpuSeconds(pid: number): number {
  try {
    return processUsage(pid).cpuSeconds;
  } catch {
    return 0;
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}
