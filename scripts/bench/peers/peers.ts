import { spawnSync } from "node:child_process";
import { join } from "node:path";

import { defineCommand, names, optional, toggle, whole, type Bench } from "../../kit/command.ts";
import { figureTable, inTurn, sumOf, type Figure } from "../../kit/measure.ts";
import { findPostgres, HOW_TO_GET_POSTGRES } from "../../kit/postgres-binaries.ts";
import {
  CONNECTIONS,
  installPeers,
  ownRow,
  peerRow,
  PeerWorld,
  TASKS_PER_REQUEST,
  type Open,
  type RedisSync,
  type Service,
  type Slice,
  type Way,
} from "./run.ts";

interface Row {
  readonly name: string;
  readonly title: string;
  /** What has been done for the tasks of a post before its response: an fsync, and the setting that says so. */
  readonly durability: string;
  readonly needs: "redis" | "postgres" | null;
  readonly way: string;
  readonly isPeer: boolean;
  readonly open: Open;
}

const SYNCED = "fsync (FULL)";
const COMMITTED = "fsync (commit on)";

interface Peer extends Pick<Row, "name" | "title" | "durability" | "needs"> {
  readonly program: string;
  readonly service: Service;
  /** The fastest way that was found: one or two processes, 8 to 128 at a time, single or batched fetches. */
  readonly way: Way;
}

function toRow({ way, program, service, ...peer }: Peer): Row {
  const { processes, concurrency, batch } = way;
  const fetched = batch > 1 ? `, fetched by ${batch}` : "";
  const where = processes === 1 ? "in one process" : "API and worker apart";
  const text = `${where}, ${concurrency} at a time${fetched}`;
  return { ...peer, isPeer: true, way: text, open: peerRow({ program, service }, way) };
}

function onRedis(sync: RedisSync, durability: string): Peer {
  return {
    ...{ name: `bullmq-${sync}`, title: "BullMQ, Redis", durability, needs: "redis" },
    program: "bullmq.mjs",
    way: { processes: 2, concurrency: 64, batch: 1 },
    service: (world) => world.redis(sync),
  };
}

function onPostgres(name: string, way: Way): Peer {
  return {
    ...{ name, title: `${name}, PostgreSQL`, durability: COMMITTED, needs: "postgres", way },
    program: `${name}.mjs`,
    async service(world) {
      const { pid, newDatabase } = await world.postgres();
      return { address: await newDatabase(), pid };
    },
  };
}

const PEERS: readonly Peer[] = [
  onRedis("always", "fsync (always)"),
  onRedis("everysec", "fsync each second"),
  onPostgres("pg-boss", { processes: 1, concurrency: 128, batch: 64 }),
  onPostgres("graphile-worker", { processes: 1, concurrency: 64, batch: 128 }),
  {
    ...{ name: "plainjob", title: "plainjob, SQLite", durability: SYNCED, needs: null },
    program: "plainjob.mjs",
    way: { processes: 2, concurrency: 32, batch: 1 },
    service: async (world) => ({ address: join(world.folder("plainjob"), "jobs.db") }),
  },
];

// By default, and with as many webhooks to one host as peers may send.
const OWN = ([32, 128] as const).flatMap((atATime): Row[] => {
  const [suffix, shown] = atATime === 32 ? ["", ""] : [`-${atATime}`, `, ${atATime}`];
  const own = { isPeer: false, way: `${atATime} at a time (max_in_flight_per_host)` };
  return [
    {
      ...{ ...own, name: `file${suffix}`, title: `postbackd, SQLite${shown}`, durability: SYNCED },
      ...{ needs: null, open: ownRow("file", atATime) },
    },
    {
      ...{ ...own, name: `server${suffix}`, title: `postbackd, PostgreSQL${shown}` },
      ...{ durability: COMMITTED, needs: "postgres", open: ownRow("server", atATime) },
    },
  ];
});

/** In the order in which they are measured and shown. */
const ROWS: readonly Row[] = [...OWN, ...PEERS.map(toRow)];

// V8 has compiled what runs after some 20,000 tasks; before that a task costs up to twice as much (measured with ours).
const FULL = { tasks: 5000, rounds: 7, uncounted: 4 };
const QUICK = { tasks: 1000, rounds: 3, uncounted: 1 };

export const peers = defineCommand({
  about: `The same job by postbackd and by other queues: tasks posted over HTTP, run by a no-op, one signed webhook each. It starts
a Redis and a PostgreSQL of its own, and has npm install the peers in node_modules/.cache.`,
  flags: {
    quick: toggle(`a first look: ${QUICK.rounds} rounds of ${QUICK.tasks} tasks`),
    rounds: optional(whole(`measurements of each row (${FULL.rounds})`)),
    tasks: optional(whole(`of each measurement (${FULL.tasks})`)),
    only: names(
      "rows",
      ROWS.map(({ name }) => name),
    ),
  },
  async run({ quick, only, ...given }, bench) {
    const usual = quick ? QUICK : FULL;
    const { uncounted } = usual;
    const [tasks, rounds] = [given.tasks ?? usual.tasks, given.rounds ?? usual.rounds];
    const wanted = ROWS.filter(({ name }) => only.includes(name));
    const rows = measurable(wanted, bench.note);
    await measureRows(rows, { tasks, rounds, uncounted }, bench);
    for (const { title, durability, way } of rows)
      bench.print(`- ${title} (${durability}): ${way}`);
    const how = `posted by ${TASKS_PER_REQUEST} over ${CONNECTIONS} connections`;
    bench.print(`\n${rounds} rounds of ${tasks} tasks; ${how}.`);
  },
});

/** The rows that this machine can measure; notes why others are left out. */
function measurable(rows: readonly Row[], note: Bench["note"]): readonly Row[] {
  const hasRedis = spawnSync("redis-server", ["--version"]).status === 0;
  const missing = {
    redis: hasRedis ? null : "there is no Redis: run 'apt-get install redis-server'",
    postgres: findPostgres() === null ? HOW_TO_GET_POSTGRES : null,
  };
  return rows.filter(({ name, needs }) => {
    const lacked = needs && missing[needs];
    if (lacked !== null) note(`${name} is left out: ${lacked}`);
    return lacked === null;
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
  effort: { readonly tasks: number; readonly rounds: number; readonly uncounted: number },
  { place, note, print }: Bench,
): Promise<void> {
  if (rows.some(({ isPeer }) => isPeer)) installPeers(note);
  await using world = await PeerWorld.open(place, effort.tasks);
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
