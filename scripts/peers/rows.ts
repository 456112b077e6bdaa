import { mkdtempSync } from "node:fs";
import { join } from "node:path";

import { findPostgres, HOW_TO_GET_POSTGRES } from "../kit/postgres-binaries.ts";
import { findRedis, HOW_TO_GET_REDIS, type RedisSync } from "../kit/redis-server.ts";
import { bareHandler, bareSender, rawInserts } from "./bounds.ts";
import { onFile, onServer } from "./own-row.ts";
import { openPeer, type PeerPlan, type Way } from "./peer-row.ts";
import type { Slice } from "./slice.ts";
import { TASKS_PER_REQUEST, type World } from "./world.ts";

/** What a row cannot be measured without. */
export type Need = "packages" | "redis" | "postgres";

/** A row of the table: what it is, and how it is begun. */
export interface RowPlan {
  readonly name: string;
  readonly title: string;
  /** What has been done for a post's tasks when it is answered: an fsync, and which setting says so. */
  readonly durability: string;
  readonly needs: readonly Need[];
  /** Starts what it measures; each call of what it answers is one measurement. */
  readonly open: (world: World) => Promise<() => Promise<Slice>>;
  /** How it is run, where there was a choice. */
  readonly way?: string;
}

const SYNCED = "fsync (FULL)";
const COMMITTED = "fsync (commit on)";
const NOTHING = "nothing kept";

/** All combinations of processes and numbers of webhooks under way; `batchOf` says how many jobs are fetched at a time. */
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

interface PeerRow extends Pick<RowPlan, "name" | "title" | "durability" | "needs">, PeerPlan {
  /** The fastest of `tried`, which `--tune` measures. */
  readonly way: Way;
  readonly tried: readonly Way[];
}

function peerRow({ way, name, title, durability, needs, ...plan }: PeerRow): RowPlan {
  return {
    ...{ name, title, durability },
    way: wayText(way),
    needs: ["packages", ...needs],
    open: (world) => openPeer(world, plan, way),
  };
}

/** The rows of a peer in each way that was tried. */
export function tunedRows(row: RowPlan): readonly RowPlan[] {
  const peer = PEERS.find(({ name }) => name === row.name);
  if (peer === undefined) return [];
  return peer.tried.map((way) =>
    peerRow({ ...peer, way, title: `${peer.title}, ${wayText(way)}` }),
  );
}

function wayText({ processes, concurrency, batch }: Way): string {
  const fetched = batch > 1 ? `, fetched by ${batch}` : "";
  const where = processes === 1 ? "in one process" : "API and worker apart";
  return `${where}, ${concurrency} at a time${fetched}`;
}

function onRedis(sync: RedisSync): Pick<PeerRow, "program" | "service" | "needs"> {
  return {
    program: "bullmq.mjs",
    needs: ["redis"],
    async service(world) {
      const { socket, pid } = await world.redis(sync);
      return { address: socket, pid };
    },
  };
}

function onPostgres(program: string): Pick<PeerRow, "program" | "service" | "needs"> {
  return {
    program,
    needs: ["postgres"],
    async service(world) {
      const { pid, newDatabase } = await world.postgres();
      return { address: await newDatabase(), pid };
    },
  };
}

const CONCURRENCIES = [16, 32, 64, 128];

const PEERS: readonly PeerRow[] = [
  {
    name: "bullmq-always",
    title: "BullMQ, Redis",
    durability: "fsync (always)",
    way: { processes: 2, concurrency: 64, batch: 1 },
    tried: waysOf(CONCURRENCIES),
    ...onRedis("always"),
  },
  {
    name: "bullmq-everysec",
    title: "BullMQ, Redis",
    durability: "fsync each second",
    way: { processes: 2, concurrency: 64, batch: 1 },
    tried: waysOf(CONCURRENCIES),
    ...onRedis("everysec"),
  },
  {
    name: "pg-boss",
    title: "pg-boss, PostgreSQL",
    durability: COMMITTED,
    way: { processes: 1, concurrency: 128, batch: 64 },
    tried: waysOf([32, 64, 128], (concurrency) => [concurrency / 4, concurrency / 2]),
    ...onPostgres("pg-boss.mjs"),
  },
  {
    name: "graphile-worker",
    title: "graphile-worker, PostgreSQL",
    durability: COMMITTED,
    way: { processes: 1, concurrency: 64, batch: 128 },
    tried: waysOf([16, 32, 64], (concurrency) => [1, concurrency * 2, concurrency * 8]),
    ...onPostgres("graphile-worker.mjs"),
  },
  {
    name: "plainjob",
    title: "plainjob, SQLite",
    durability: SYNCED,
    needs: [],
    program: "plainjob.mjs",
    way: { processes: 2, concurrency: 32, batch: 1 },
    tried: waysOf([8, ...CONCURRENCIES]),
    async service(world) {
      return { address: join(mkdtempSync(join(world.place.folder, "plainjob-")), "jobs.db") };
    },
  },
];

const OWN_AT_A_TIME = 32;
const PEERS_AT_A_TIME = 128;

// As it comes, and with as many webhooks to one host as peers may send.
const OWN: readonly RowPlan[] = [OWN_AT_A_TIME, PEERS_AT_A_TIME].flatMap((atATime) => {
  const suffix = atATime === OWN_AT_A_TIME ? "" : `-${atATime}`;
  const shown = atATime === OWN_AT_A_TIME ? "" : `, ${atATime}`;
  const way = `${atATime} at a time (max_in_flight_per_host)`;
  const [file, server] = [onFile(atATime), onServer(atATime)];
  return [
    {
      name: `file${suffix}`,
      title: `postbackd, SQLite${shown}`,
      durability: SYNCED,
      way,
      needs: [],
      open: file,
    },
    {
      name: `server${suffix}`,
      title: `postbackd, PostgreSQL${shown}`,
      durability: COMMITTED,
      way,
      needs: ["postgres"],
      open: server,
    },
  ];
});

const SENT_AT_A_TIME = 32;
const MANY_ROWS = 16 * TASKS_PER_REQUEST;

/** All rows, in the order in which they are measured and shown. */
export const ROWS: readonly RowPlan[] = [
  ...OWN,
  ...PEERS.map(peerRow),
  {
    name: "handler",
    title: "bound: posts, bare h3 handler",
    durability: NOTHING,
    needs: [],
    open: bareHandler,
  },
  ...[TASKS_PER_REQUEST, MANY_ROWS].map((rows) => ({
    name: `inserts-${rows}`,
    title: `bound: inserts, ${rows} a transaction`,
    durability: SYNCED,
    needs: [],
    open: rawInserts(rows),
  })),
  {
    name: "sender",
    title: "bound: webhooks, undici alone",
    way: `${SENT_AT_A_TIME} at a time`,
    durability: NOTHING,
    needs: ["packages"],
    open: bareSender(SENT_AT_A_TIME),
  },
];

const HOW_TO_GET: Readonly<Record<Exclude<Need, "packages">, string>> = {
  redis: HOW_TO_GET_REDIS,
  postgres: HOW_TO_GET_POSTGRES,
};

/** Those that this machine can measure; says why it leaves out the others. */
export function measurableRows(
  rows: readonly RowPlan[],
  note: (news: string) => void,
): readonly RowPlan[] {
  const missing = new Set<Need>();
  if (findRedis() === null) missing.add("redis");
  if (findPostgres() === null) missing.add("postgres");
  return rows.filter(({ name, needs }) => {
    const lacked = needs.find((need) => missing.has(need));
    if (lacked === undefined || lacked === "packages") return true;
    note(`${name} is left out: ${HOW_TO_GET[lacked]}`);
    return false;
  });
}
