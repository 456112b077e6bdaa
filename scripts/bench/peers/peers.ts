import { join } from "node:path";

import {
  defineCommand,
  names,
  number,
  optional,
  toggle,
  whole,
  type Bench,
} from "../../kit/command.ts";
import { figureTable, inTurn, sumOf, type Figure } from "../../kit/measure.ts";
import { findPostgres, HOW_TO_GET_POSTGRES } from "../../kit/postgres-binaries.ts";
import { hasRedis, HOW_TO_GET_REDIS, installPeers, type RedisSync } from "./process.ts";
import {
  bareHandler,
  bareSender,
  CONNECTIONS,
  ownRow,
  peerRow,
  PeerWorld,
  rawInserts,
  TASKS_PER_REQUEST,
  type Effort,
  type Open,
  type Service,
  type Slice,
  type Way,
} from "./run.ts";

/** A row of the table. */
interface Row {
  readonly name: string;
  readonly title: string;
  /** What has been done for the tasks of a post before its response: an fsync, and the setting that says so. */
  readonly durability: string;
  readonly needs: readonly ("packages" | "redis" | "postgres")[];
  readonly open: Open;
  /** How it is run, if there was a choice. */
  readonly way?: string;
  /** The same row in each way that was tried. */
  readonly tuned?: readonly Row[];
}

const SYNCED = "fsync (FULL)";
const COMMITTED = "fsync (commit on)";
const NOTHING = "nothing kept";

/** All combinations of processes and webhooks under way; `batchOf` returns how many jobs are fetched at a time. */
function waysOf(
  concurrencies: readonly number[],
  batchOf: (concurrency: number) => readonly number[] = () => [1],
): readonly Way[] {
  return ([2, 1] as const).flatMap((processes) =>
    concurrencies.flatMap((concurrency) =>
      batchOf(concurrency).map((batch) => ({ processes, concurrency, batch })),
    ),
  );
}

interface Peer extends Pick<Row, "name" | "title" | "durability" | "needs"> {
  readonly program: string;
  readonly service: Service;
  /** The fastest of `tried`. */
  readonly way: Way;
  readonly tried: readonly Way[];
}

function toRow({ tried, way, needs, ...peer }: Peer): Row {
  const row = (own: Way, title: string): Row => ({
    ...{ name: peer.name, title, durability: peer.durability, way: wayText(own) },
    needs: ["packages", ...needs],
    open: peerRow(peer, own),
  });
  const tuned = tried.map((each) => row(each, `${peer.title}, ${wayText(each)}`));
  return { ...row(way, peer.title), tuned };
}

function wayText({ processes, concurrency, batch }: Way): string {
  const fetched = batch > 1 ? `, fetched by ${batch}` : "";
  const where = processes === 1 ? "in one process" : "API and worker apart";
  return `${where}, ${concurrency} at a time${fetched}`;
}

const CONCURRENCIES = [16, 32, 64, 128];

function onRedis(sync: RedisSync, durability: string): Peer {
  return {
    name: `bullmq-${sync}`,
    title: "BullMQ, Redis",
    durability,
    needs: ["redis"],
    program: "bullmq.mjs",
    way: { processes: 2, concurrency: 64, batch: 1 },
    tried: waysOf(CONCURRENCIES),
    async service(world) {
      const { socket, pid } = await world.redis(sync);
      return { address: socket, pid };
    },
  };
}

function onPostgres(name: string, ways: Pick<Peer, "way" | "tried">): Peer {
  return {
    ...{ name, title: `${name}, PostgreSQL`, durability: COMMITTED, needs: ["postgres"] },
    program: `${name}.mjs`,
    ...ways,
    async service(world) {
      const { pid, newDatabase } = await world.postgres();
      return { address: await newDatabase(), pid };
    },
  };
}

const PEERS: readonly Peer[] = [
  onRedis("always", "fsync (always)"),
  onRedis("everysec", "fsync each second"),
  onPostgres("pg-boss", {
    way: { processes: 1, concurrency: 128, batch: 64 },
    tried: waysOf([32, 64, 128], (concurrency) => [concurrency / 4, concurrency / 2]),
  }),
  onPostgres("graphile-worker", {
    way: { processes: 1, concurrency: 64, batch: 128 },
    tried: waysOf([16, 32, 64], (concurrency) => [1, concurrency * 2, concurrency * 8]),
  }),
  {
    ...{ name: "plainjob", title: "plainjob, SQLite", durability: SYNCED, needs: [] },
    program: "plainjob.mjs",
    way: { processes: 2, concurrency: 32, batch: 1 },
    tried: waysOf([8, ...CONCURRENCIES]),
    service: async (world) => ({ address: join(world.folder("plainjob"), "jobs.db") }),
  },
];

// By default, and with as many webhooks to one host as peers may send.
const OWN = ([32, 128] as const).flatMap((atATime): Row[] => {
  const [suffix, shown] = atATime === 32 ? ["", ""] : [`-${atATime}`, `, ${atATime}`];
  const way = `${atATime} at a time (max_in_flight_per_host)`;
  return [
    {
      ...{ name: `file${suffix}`, title: `postbackd, SQLite${shown}`, durability: SYNCED, way },
      needs: [],
      open: ownRow("file", atATime),
    },
    {
      ...{
        name: `server${suffix}`,
        title: `postbackd, PostgreSQL${shown}`,
        durability: COMMITTED,
        way,
      },
      needs: ["postgres"],
      open: ownRow("server", atATime),
    },
  ];
});

const SENT_AT_A_TIME = 32;

/** In the order in which they are measured and shown. */
const ROWS: readonly Row[] = [
  ...OWN,
  ...PEERS.map(toRow),
  {
    ...{ name: "handler", title: "bound: posts, bare h3 handler", durability: NOTHING, needs: [] },
    open: bareHandler,
  },
  ...[TASKS_PER_REQUEST, 16 * TASKS_PER_REQUEST].map((rows): Row => {
    const title = `bound: inserts, ${rows} a transaction`;
    const needs = ["packages"] as const;
    return { name: `inserts-${rows}`, title, durability: SYNCED, needs, open: rawInserts(rows) };
  }),
  {
    ...{ name: "sender", title: "bound: webhooks, undici alone", durability: NOTHING },
    way: `${SENT_AT_A_TIME} at a time`,
    needs: ["packages"],
    open: bareSender(SENT_AT_A_TIME),
  },
];

// V8 has compiled what runs after some 20,000 tasks; before that a task costs up to twice as much (measured with ours).
const FULL = { tasks: 5000, seconds: 1, rounds: 7, uncounted: 4 };
const QUICK = { tasks: 1000, seconds: 0.5, rounds: 3, uncounted: 1 };

export const peers = defineCommand({
  about: `The same job by postbackd and by other queues: tasks posted over HTTP, run by a no-op, one signed webhook each. It starts
a Redis and a PostgreSQL of its own, and has npm install the peers in node_modules/.cache.`,
  flags: {
    quick: toggle(`a first look, within two minutes on a quiet machine: ${effortText(QUICK)}`),
    tune: toggle("measures each peer in every way that was tried, instead of all in the fastest"),
    rounds: optional(whole(`measurements of each row (${FULL.rounds})`)),
    tasks: optional(whole(`of each measurement (${FULL.tasks})`)),
    seconds: optional(number(`of each measurement of posts or inserts alone (${FULL.seconds})`)),
    only: names(
      "rows",
      ROWS.map(({ name }) => name),
    ),
  },
  async run({ quick, tune, only, ...given }, bench) {
    const usual = quick ? QUICK : FULL;
    const effort = {
      tasks: given.tasks ?? usual.tasks,
      seconds: given.seconds ?? usual.seconds,
      rounds: given.rounds ?? usual.rounds,
      uncounted: usual.uncounted,
    };
    const wanted = measurable(
      ROWS.filter(({ name }) => only.includes(name)),
      bench.note,
    );
    // The ways of one peer next to each other; all of them would not fit into the memory.
    const runs = tune ? wanted.flatMap(({ tuned }) => (tuned ? [tuned] : [])) : [wanted];
    for (const rows of runs) {
      await measureRows(rows, effort, bench);
      const ways = tune ? [] : rows.filter(({ way }) => way !== undefined);
      for (const { title, durability, way } of ways)
        bench.print(`- ${title} (${durability}): ${way}`);
    }
    const how = `posted by ${TASKS_PER_REQUEST} over ${CONNECTIONS} connections`;
    bench.print(`\n${effortText(effort)}; ${how}.`);
  },
});

function effortText({ tasks, seconds, rounds }: Effort & { readonly rounds: number }): string {
  return `${rounds} rounds of ${tasks} tasks, of posts or inserts alone ${seconds} s`;
}

/** The rows that this machine can measure; notes why others are left out. */
function measurable(rows: readonly Row[], note: Bench["note"]): readonly Row[] {
  const missing = new Map([
    ...(hasRedis() ? [] : [["redis", HOW_TO_GET_REDIS] as const]),
    ...(findPostgres() === null ? [["postgres", HOW_TO_GET_POSTGRES] as const] : []),
  ]);
  return rows.filter(({ name, needs }) => {
    const lacked = needs.find((need) => missing.has(need as "redis"));
    if (lacked !== undefined) note(`${name} is left out: ${missing.get(lacked as "redis")}`);
    return lacked === undefined;
  });
}

interface Run {
  readonly slice: Slice;
  /** postbackd in the same round. */
  readonly file: number | undefined;
  readonly server: number | undefined;
}

const FIGURES: readonly Figure<Run>[] = [
  { name: "tasks/s", value: ({ slice }) => slice.tasksPerSecond },
  { name: "file : it", digits: 2, value: ({ slice, file = NaN }) => file / slice.tasksPerSecond },
  {
    name: "server : it",
    digits: 2,
    value: ({ slice, server = NaN }) => server / slice.tasksPerSecond,
  },
  { name: "CPU µs/task", value: ({ slice }) => sumOf(Object.values(slice.cpu)) },
  { name: "API", value: ({ slice }) => slice.cpu.server ?? NaN },
  { name: "worker", value: ({ slice }) => slice.cpu.worker ?? NaN },
  { name: "store", value: ({ slice }) => slice.cpu.database ?? NaN },
];

/** Starts the rows, measures them in turn and prints medians, and medians of the ratios of each round. */
async function measureRows(
  rows: readonly Row[],
  effort: Effort & { readonly rounds: number; readonly uncounted: number },
  { place, note, print }: Bench,
): Promise<void> {
  if (rows.some(({ needs }) => needs.includes("packages"))) installPeers(note);
  await using world = await PeerWorld.open(place, effort);
  const legs: (Row & { readonly measure: () => Promise<Slice> })[] = [];
  for (const row of rows) legs.push({ ...row, measure: await row.open(world) });
  const measured = await inTurn(legs, {
    ...effort,
    measure: ({ name, measure }) =>
      measure().catch((error: unknown) => {
        throw new Error(`${name} cannot be measured`, { cause: error });
      }),
    onResult: ({ title, durability }, { tasksPerSecond }) =>
      note(`${title}, ${durability}: ${Math.round(tasksPerSecond)} tasks/s`),
  });
  const rates = (name: string): readonly number[] =>
    measured
      .filter(({ leg }) => leg.name === name)
      .flatMap(({ results }) => results.map(({ tasksPerSecond }) => tasksPerSecond));
  const [file, server] = [rates("file"), rates("server")];
  const shown = measured.map(({ leg: { title, durability }, results }) => ({
    what: [title, durability],
    runs: results.map((slice, round) => ({ slice, file: file[round], server: server[round] })),
  }));
  print(`${figureTable(FIGURES, shown, { what: ["", "durability"] })}\n`);
}
