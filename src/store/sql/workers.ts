import { rows, type WriteRules } from "../common/write-rule.ts";
import type { Worker, WorkerHolder } from "../store.ts";
import { eachDialect, lookUp, statement, type Flag } from "./statement.ts";
import { touch, touchOf } from "./touches.ts";
import { all, get, run, send, type StoreUseCases } from "./use-case.ts";

const INSERT_WORKER = statement(`
  INSERT INTO workers (name, hash, last_four, types_text, created_at)
  VALUES (@name, @hash, @lastFour, @typesText, @createdAt)
  ON CONFLICT (name) WHERE revoked_at IS NULL DO NOTHING`);

export const REVOKE_WORKER = statement(`
  UPDATE workers SET revoked_at = @revokedAt WHERE name = @name AND revoked_at IS NULL`);

export const TOUCH_WORKERS = touchOf({
  table: "workers",
  key: "seq",
  keyType: "bigint",
  time: "last_seen_at",
});

/** A row, in which its types are the text of a JSON array. */
type WorkerRow = Omit<Worker, "types"> & { readonly typesText: string };

interface HolderRow extends Omit<WorkerHolder, "types" | "isRevoked"> {
  readonly typesText: string;
  readonly isRevoked: Flag;
}

/** Runs for every request of a worker: one index look-up. */
export const FIND_WORKER_HOLDER = lookUp<HolderRow, WorkerHolder>(
  {
    columns: `
      seq AS "workerId", name, types_text AS "typesText", revoked_at IS NOT NULL AS "isRevoked"`,
    from: "workers",
    key: "hash",
  },
  ({ workerId, name, typesText, isRevoked }) => ({
    workerId,
    name,
    types: parseTypes(typesText),
    isRevoked: Boolean(isRevoked),
  }),
);

// Counts all held leases, once for the list: only operators ask for it. Of several workers with one
// name the newest is listed.
const selectWorkers = (heldLeases: string): string => `
  SELECT w.seq AS "workerId", w.name, w.last_four AS "lastFour", w.types_text AS "typesText",
    w.created_at AS "createdAt", w.last_seen_at AS "lastSeenAt", w.revoked_at AS "revokedAt",
    coalesce(h.leases, 0) AS leases
  FROM workers AS w
  LEFT JOIN (
    SELECT worker_seq, count(*) AS leases FROM ${heldLeases} GROUP BY worker_seq
  ) AS h ON h.worker_seq = w.seq`;

const SELECT_ON_SQLITE = selectWorkers("leases INDEXED BY leases_held WHERE ending IS NULL");
const SELECT_ON_POSTGRES = selectWorkers(
  "queue WHERE lease_id IS NOT NULL AND lease_ending IS NULL",
);

const listWorkers = (end: string) =>
  eachDialect({
    sqlite: `${SELECT_ON_SQLITE} ${end}`,
    postgres: `${SELECT_ON_POSTGRES} ${end}`,
  });

const LIST_WORKERS = listWorkers(`ORDER BY w.name, w.seq DESC`);
const FIND_WORKER = listWorkers(`WHERE w.name = @name ORDER BY w.seq DESC LIMIT 1`);

export const workerWrites = {
  *createWorker({ name, hash, lastFour, types, createdAt }) {
    const row = { name, hash, lastFour, typesText: JSON.stringify(types), createdAt };
    return (yield* run(INSERT_WORKER, row)) === 0 ? "exists" : "created";
  },

  *revokeWorker({ name, revokedAt }) {
    yield* send(REVOKE_WORKER, { name, revokedAt });
    const row = yield* get<WorkerRow>(FIND_WORKER, { name });
    return row === undefined ? null : toWorker(row);
  },
} satisfies StoreUseCases;

export const workerTouches = {
  *touchWorkers(uses) {
    yield* touch(
      TOUCH_WORKERS,
      uses.map(({ workerId, seenAt }) => ({ key: workerId, time: seenAt })),
    );
  },
} satisfies StoreUseCases;

export const workerReads = {
  *listWorkers() {
    return (yield* all<WorkerRow>(LIST_WORKERS)).map(toWorker);
  },
} satisfies StoreUseCases;

function toWorker({ typesText, ...row }: WorkerRow): Worker {
  return { ...row, types: parseTypes(typesText) };
}

function parseTypes(typesText: string): readonly string[] {
  const types: unknown = JSON.parse(typesText);
  if (Array.isArray(types) && types.every((type) => typeof type === "string")) return types;
  throw new Error(`the database has a worker whose types are not a list: ${typesText}`);
}

export const workerRules = {
  createWorker: { hasEffect: (outcome) => outcome === "created" },
  revokeWorker: { hasEffect: (worker, { revokedAt }) => worker?.revokedAt === revokedAt },
  touchWorkers: { weight: (uses) => rows(uses.length) },
} satisfies WriteRules;
