import { withTypes } from "../common/worker-row.ts";
import type { Store, Worker, WorkerHolder } from "../store.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import { each, type SetSteps } from "./steps.ts";
import { turnLookUp, type Keyed } from "./turn-reads.ts";

const INSERT_WORKER = `
  INSERT INTO workers (name, hash, last_four, types_text, created_at) VALUES ($1, $2, $3, $4, $5)
  ON CONFLICT (name) WHERE revoked_at IS NULL DO NOTHING`;

const REVOKE_WORKER = `
  UPDATE workers SET revoked_at = $2 WHERE name = $1 AND revoked_at IS NULL`;

// In the order of their numbers, so that two batches do not wait for each other.
const TOUCH_WORKERS = `
  WITH used AS MATERIALIZED (
    SELECT w.seq, a.seen_at
    FROM (
      SELECT seq, max(seen_at) AS seen_at FROM unnest($1::bigint[], $2::bigint[]) AS u (seq, seen_at) GROUP BY seq
    ) AS a JOIN workers AS w ON w.seq = a.seq
    WHERE w.last_seen_at IS NULL OR w.last_seen_at < a.seen_at
    ORDER BY w.seq FOR NO KEY UPDATE OF w
  )
  UPDATE workers AS w SET last_seen_at = used.seen_at FROM used WHERE w.seq = used.seq`;

/** Runs for the requests of workers of each turn: one index look-up for each. */
const FIND_WORKER_HOLDERS = `
  SELECT hash AS key, seq AS "workerId", name, types_text AS "typesText", revoked_at IS NOT NULL AS "isRevoked"
  FROM workers WHERE hash = ANY($1::text[])`;

// Counts all held leases, once for the list: only operators ask for it. The last worker of a name is the one that is
// active, or was the last to be.
const SELECT_WORKERS = `
  SELECT w.seq AS "workerId", w.name, w.last_four AS "lastFour", w.types_text AS "typesText",
    w.created_at AS "createdAt", w.last_seen_at AS "lastSeenAt", w.revoked_at AS "revokedAt",
    coalesce(h.leases, 0) AS leases
  FROM workers AS w
  LEFT JOIN (
    SELECT worker_seq, count(*) AS leases FROM queue
    WHERE lease_id IS NOT NULL AND lease_ending IS NULL
    GROUP BY worker_seq
  ) AS h ON h.worker_seq = w.seq`;

const LIST_WORKERS = `${SELECT_WORKERS} ORDER BY w.name, w.seq DESC`;
const FIND_WORKER = `${SELECT_WORKERS} WHERE w.name = $1 ORDER BY w.seq DESC LIMIT 1`;

interface TypesText {
  readonly typesText: string;
}

type WorkerRow = Omit<Worker, "types"> & TypesText;
type HolderRow = Omit<WorkerHolder, "types"> & TypesText;

export function workerWrites(sql: BatchSql) {
  return {
    createWorker: each(async ({ name, hash, lastFour, types, createdAt }) => {
      const values = [name, hash, lastFour, JSON.stringify(types), createdAt];
      return (await sql.run(INSERT_WORKER, values)) === 0 ? "exists" : "created";
    }),

    revokeWorker: each(async ({ name, revokedAt }) => {
      sql.send(REVOKE_WORKER, [name, revokedAt]);
      const row = await sql.get<WorkerRow>(FIND_WORKER, [name]);
      return row === undefined ? null : withTypes(row);
    }),

    async touchWorkers(list) {
      const uses = list.flat();
      const seqs = uses.map(({ workerId }) => workerId);
      const times = uses.map(({ seenAt }) => seenAt);
      sql.send(TOUCH_WORKERS, [seqs, times]);
      return list.map(() => {});
    },
  } satisfies SetSteps;
}

export function workerReads(sql: Sql) {
  const lookUp = turnLookUp((hashes) => sql.all<HolderRow & Keyed>(FIND_WORKER_HOLDERS, [hashes]));

  return {
    listWorkers: async () => (await sql.all<WorkerRow>(LIST_WORKERS)).map(withTypes),

    async findWorkerHolder(tokenHash) {
      const row = await lookUp(tokenHash);
      if (row === undefined) return null;
      const { key: _, ...holder } = row;
      return withTypes(holder);
    },
  } satisfies Partial<Store>;
}
