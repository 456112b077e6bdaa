import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import pg from "pg";

import { queryOnce } from "../../scripts/kit/database.ts";
import { sumOf } from "../../scripts/kit/measure.ts";
import {
  requireWarning,
  type ClusterWorld,
  type Fact,
  type Fault,
} from "../../scripts/soak/cluster.ts";
import { reasonToSkipPostgres } from "../helpers/postgres.ts";
import { runShort } from "./fault.ts";

const how = { skip: reasonToSkipPostgres(), timeout: 240_000 };

const PARTS = 10;
// After a minute a snapshot is warned of, and each daemon looks every five seconds.
const OLD_SECONDS = 70;
const DEAD_ROWS = 20_000;

/**
 * So many index entries may be read for a task, of the tables whose rows come and go: its own are some dozens, those of
 * the last ten seconds are looked through once per second, and all of them once per minute. It is the same on any machine,
 * and the dead rows of the beginning alone are several times as many.
 */
const ENTRIES_MAX = 5000;

// The long form: `seconds: 600`.
test(
  "a snapshot that is held open keeps no task from its end, and claims do not read all dead rows",
  how,
  (t) => runShort(t, pinSnapshot, { seconds: 10 }),
);

const pinSnapshot: Fault = {
  about: "Another transaction keeps an old snapshot open, as pg_dump does.",
  usual: { rounds: 1, seconds: 600 },
  async damage(world, { seconds }) {
    const { server, cluster } = world;
    const before = await measure(world, seconds / PARTS);
    const client = new pg.Client(server.url);
    await client.connect();
    await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
    await client.query("SELECT count(*) FROM queue");
    await leaveDead(server.url);
    const parts: Measured[] = [];
    for (let part = 0; part < PARTS; part++) parts.push(await measure(world, seconds / PARTS));
    if (seconds > OLD_SECONDS) {
      for (const { url } of cluster.nodes) await requireWarning(url, /kept the database from/);
    }
    await client.query("COMMIT");
    await client.end();
    const after = await measure(world, seconds / PARTS);
    const entries =
      sumOf(parts.map((part) => part.entries)) / sumOf(parts.map((part) => part.tasks));
    if (!(entries <= ENTRIES_MAX))
      throw new Error(
        `${entries.toFixed(0)} index entries were read for a task under the snapshot`,
      );
    return [
      ...facts("in a tenth of the time before", before),
      ...facts("in its first tenth", parts[0]),
      ...facts("in its last", parts.at(-1)),
      ...facts("in as much after its end", after),
    ];
  },
};

/** What happened in some seconds. */
interface Measured {
  readonly tasks: number;
  readonly perSecond: number;
  /** From a post to the start of its run, p99. */
  readonly msToStart: number;
  /** Index entries that were read. */
  readonly entries: number;
}

async function measure({ server, ledger }: ClusterWorld, seconds: number): Promise<Measured> {
  const before = ledger.tasks.size;
  const entriesBefore = await valueOf(server.url, ENTRIES_READ);
  await sleep(seconds * 1000);
  const tasks = ledger.tasks.size - before;
  const entries = (await valueOf(server.url, ENTRIES_READ)) - entriesBefore;
  const msToStart = await valueOf(server.url, MS_TO_START, [seconds]);
  return { tasks, perSecond: tasks / seconds, msToStart, entries };
}

function facts(when: string, measured: Measured | undefined): readonly Fact[] {
  const { tasks = 0, perSecond = 0, msToStart = 0, entries = 0 } = measured ?? {};
  return [
    [`tasks per second ${when}`, perSecond.toFixed(0)],
    [`from a post to the start of its run ${when}, p99 ms`, msToStart.toFixed(0)],
    [`index entries read for a task ${when}`, (entries / tasks).toFixed(0)],
  ];
}

const MS_TO_START = `
  SELECT percentile_disc(0.99) WITHIN GROUP (ORDER BY started_at - created_at)::float8 AS value FROM ends
  WHERE started_at IS NOT NULL AND start_at IS NULL AND runs = 1
    AND created_at > (extract(epoch FROM clock_timestamp()) - $1) * 1000`;

// Each session reports what it has read once per second.
const ENTRIES_READ = `
  SELECT sum(idx_tup_read)::float8 AS value FROM pg_stat_user_indexes WHERE relname IN ('queue', 'outbox')`;

const DEAD_TASKS = `
  INSERT INTO queue (task_seq, account_seq, type, priority, state, created_at)
  SELECT n, (SELECT max(seq) FROM accounts), 'echo', 0, 'queued', 0 FROM generate_series(1, $1::int) AS n`;

const DEAD_ATTEMPTS = `
  INSERT INTO outbox (seq, task_seq, kind, account_seq, number, retry, host, due_at)
  SELECT n, n, 'postback', (SELECT max(seq) FROM accounts), 1, 0,
    (SELECT host FROM deliveries GROUP BY host ORDER BY count(*) DESC LIMIT 1), 0
  FROM generate_series(1, $1::int) AS n`;

/** Leaves rows that only the snapshot keeps the server from removing, and lets it count the living rows. */
async function leaveDead(url: string): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  await client.query("BEGIN");
  await client.query(DEAD_TASKS, [DEAD_ROWS]);
  await client.query(DEAD_ATTEMPTS, [DEAD_ROWS]);
  await client.query("DELETE FROM queue WHERE task_seq <= $1", [DEAD_ROWS]);
  await client.query("DELETE FROM outbox WHERE seq <= $1", [DEAD_ROWS]);
  await client.query("COMMIT");
  await client.query("VACUUM ANALYZE queue, outbox");
  await client.end();
}

async function valueOf(url: string, sql: string, values: readonly number[] = []): Promise<number> {
  const [row] = await queryOnce<{ value: number | null }>(url, sql, values);
  return row?.value ?? Number.NaN;
}
