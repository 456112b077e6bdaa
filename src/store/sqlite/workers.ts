import type { NewWorker, Worker, WorkerHolder, WorkerUse } from "../store.ts";
import type { Connection } from "./machine/connection.ts";

const INSERT_WORKER = `
  INSERT INTO workers (name, hash, last_four, types_text, created_at)
  VALUES (@name, @hash, @lastFour, @typesText, @createdAt)
  ON CONFLICT (name) WHERE revoked_at IS NULL DO NOTHING`;

export const REVOKE_WORKER = `
  UPDATE workers SET revoked_at = @revokedAt WHERE name = @name AND revoked_at IS NULL`;

export const TOUCH_WORKER = `
  UPDATE workers SET last_seen_at = @seenAt
  WHERE seq = @workerId AND (last_seen_at IS NULL OR last_seen_at < @seenAt)`;

/** Runs on every request of a worker: one index look-up. */
export const FIND_WORKER_HOLDER = `
  SELECT seq, name, types_text, revoked_at FROM workers WHERE hash = ?`;

// Counts all held leases, once for the list: only operators ask for it. The last worker of a name is the one that is
// active, or was the last to be.
const SELECT_WORKERS = `
  SELECT w.seq, w.name, w.last_four, w.types_text, w.created_at, w.last_seen_at, w.revoked_at,
    coalesce(h.leases, 0) AS leases
  FROM workers AS w
  LEFT JOIN (
    SELECT worker_seq, count(*) AS leases FROM leases INDEXED BY leases_held
    WHERE ending IS NULL
    GROUP BY worker_seq
  ) AS h ON h.worker_seq = w.seq`;

const LIST_WORKERS = `${SELECT_WORKERS} ORDER BY w.name, w.seq DESC`;
const FIND_WORKER = `${SELECT_WORKERS} WHERE w.name = ? ORDER BY w.seq DESC LIMIT 1`;

interface WorkerRow {
  seq: number;
  name: string;
  last_four: string;
  types_text: string;
  created_at: number;
  last_seen_at: number | null;
  revoked_at: number | null;
  leases: number;
}

interface WorkerHolderRow {
  seq: number;
  name: string;
  types_text: string;
  revoked_at: number | null;
}

/** The writes on workers. Each runs inside the transaction of its batch. */
export function workerWrites(connection: Connection) {
  const insert = connection.prepare(INSERT_WORKER);
  const revoke = connection.prepare<[object]>(REVOKE_WORKER);
  const find = connection.prepare<[string], WorkerRow>(FIND_WORKER);
  const touch = connection.prepare<[WorkerUse]>(TOUCH_WORKER);

  return {
    createWorker({ types, ...row }: NewWorker): "created" | "exists" {
      const { changes } = insert.run({ ...row, typesText: JSON.stringify(types) });
      return changes === 0 ? "exists" : "created";
    },

    revokeWorker(change: { name: string; revokedAt: number }): Worker | null {
      revoke.run(change);
      const row = find.get(change.name);
      return row === undefined ? null : toWorker(row);
    },

    touchWorkers(uses: readonly WorkerUse[]): void {
      for (const use of uses) touch.run(use);
    },
  };
}

/** The reads on workers. */
export function workerReads(connection: Connection) {
  const list = connection.prepare<[], WorkerRow>(LIST_WORKERS);
  const findHolder = connection.prepare<[string], WorkerHolderRow>(FIND_WORKER_HOLDER);

  return {
    listWorkers(): readonly Worker[] {
      return list.all().map(toWorker);
    },

    findWorkerHolder(tokenHash: string): WorkerHolder | null {
      const row = findHolder.get(tokenHash);
      if (row === undefined) return null;
      const { seq: workerId, name } = row;
      return { workerId, name, types: toTypes(row.types_text), isRevoked: row.revoked_at !== null };
    },
  };
}

function toWorker(row: WorkerRow): Worker {
  return {
    workerId: row.seq,
    name: row.name,
    lastFour: row.last_four,
    types: toTypes(row.types_text),
    createdAt: row.created_at,
    lastSeenAt: row.last_seen_at,
    revokedAt: row.revoked_at,
    leases: row.leases,
  };
}

function toTypes(text: string): readonly string[] {
  const types: unknown = JSON.parse(text);
  if (Array.isArray(types) && types.every((type) => typeof type === "string")) return types;
  throw new Error(`the database holds a worker with types that are no list: ${text}`);
}
