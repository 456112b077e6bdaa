import { withTypes } from "../common/worker-row.ts";
import type { Worker, WorkerHolder, WorkerUse } from "../store.ts";
import type { Connection } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";

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
  SELECT seq AS workerId, name, types_text AS typesText, revoked_at IS NOT NULL AS isRevoked
  FROM workers WHERE hash = ?`;

// Counts all held leases, once for the list: only operators ask for it. The last worker of a name is the one that is
// active, or was the last to be.
const SELECT_WORKERS = `
  SELECT w.seq AS workerId, w.name, w.last_four AS lastFour, w.types_text AS typesText,
    w.created_at AS createdAt, w.last_seen_at AS lastSeenAt, w.revoked_at AS revokedAt,
    coalesce(h.leases, 0) AS leases
  FROM workers AS w
  LEFT JOIN (
    SELECT worker_seq, count(*) AS leases FROM leases INDEXED BY leases_held
    WHERE ending IS NULL
    GROUP BY worker_seq
  ) AS h ON h.worker_seq = w.seq`;

const LIST_WORKERS = `${SELECT_WORKERS} ORDER BY w.name, w.seq DESC`;
const FIND_WORKER = `${SELECT_WORKERS} WHERE w.name = ? ORDER BY w.seq DESC LIMIT 1`;

type WorkerRow = Omit<Worker, "types"> & { readonly typesText: string };

interface HolderRow extends Omit<WorkerHolder, "types" | "isRevoked"> {
  readonly typesText: string;
  readonly isRevoked: 0 | 1;
}

export function workerWrites(connection: Connection) {
  const insert = connection.prepare(INSERT_WORKER);
  const revoke = connection.prepare<[object]>(REVOKE_WORKER);
  const find = connection.prepare<[string], WorkerRow>(FIND_WORKER);
  const touch = connection.prepare<[WorkerUse]>(TOUCH_WORKER);

  return {
    createWorker({ types, ...row }) {
      const { changes } = insert.run({ ...row, typesText: JSON.stringify(types) });
      return changes === 0 ? "exists" : "created";
    },

    revokeWorker(change) {
      revoke.run(change);
      const row = find.get(change.name);
      return row === undefined ? null : withTypes(row);
    },

    touchWorkers(uses) {
      for (const use of uses) touch.run(use);
    },
  } satisfies Steps;
}

export function workerReads(connection: Connection) {
  const list = connection.prepare<[], WorkerRow>(LIST_WORKERS);
  const findHolder = connection.prepare<[string], HolderRow>(FIND_WORKER_HOLDER);

  return {
    listWorkers: () => list.all().map(withTypes),

    findWorkerHolder(tokenHash) {
      const row = findHolder.get(tokenHash);
      return row === undefined ? null : { ...withTypes(row), isRevoked: row.isRevoked === 1 };
    },
  } satisfies Steps;
}
