import { type Connection, sqlStateOf } from "./connection.ts";
import type { Sql } from "./sql.ts";

/** The outcome of transactions: of a transaction whose COMMIT got no reply, and of the last ones after a failover. */

/** A stripe of a node's life. Its row is locked by every batch that belongs to it. */
export interface Stripe {
  readonly stripe: number;
  readonly nodeSeq: number;
}

/** The last transactions of a node's life that are known to be committed. */
export interface LastCommits {
  readonly nodeSeq: number;
  /** Their ids, by stripe. */
  readonly lastCommits: ReadonlyMap<number, string>;
}

/** A transaction whose outcome is unknown. */
export interface Doubt {
  readonly xid: string;
  /** Whether it was the last to lock its stripe when this was read first; undefined before. */
  isLocker?: boolean;
}

/** This life of the node is over: it has lost its stripes and can commit nothing more. */
export class Fenced extends Error {
  override readonly name = "Fenced" as const;
}

// Every batch locks the stripe's row, so a later batch waits until this transaction has ended, even if its connection is
// lost. Locking writes no new version of the row. The id is read now, because it cannot be read after the COMMIT was sent.
// The transaction sets synchronous_commit and lock_timeout itself: a pooler may give it a connection whose session has
// other settings.
const FENCE = `
  SELECT pg_current_xact_id()::text AS xid, set_config('lock_timeout', $3, true), set_config('synchronous_commit',
    CASE WHEN current_setting('synchronous_commit') = 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true)
  FROM stripes WHERE stripe = $1 AND node_seq = $2 FOR UPDATE`;

/** Locks the stripe for the transaction, and returns its id; undefined if the stripe was taken away. */
export function fence(
  sql: Sql,
  { stripe, nodeSeq }: Stripe,
  lockMs: number,
): Promise<{ readonly xid: string } | undefined> {
  return sql.get(FENCE, [stripe, nodeSeq, String(lockMs)]);
}

const FIND_NODE = `SELECT 1 FROM nodes WHERE seq = $1`;

// A promoted standby that lacks the transaction may not have reached its id yet, and then refuses to return the status.
// The status of an old transaction is not kept. `locker` is the lower half of an id.
const FIND_COMMITS = `
  SELECT a.xid, s.xmax::text AS locker, CASE WHEN a.xid::xid8 < pg_snapshot_xmax(pg_current_snapshot())
    THEN coalesce(pg_xact_status(a.xid::xid8), 'too old') END AS status
  FROM unnest($2::int[], $3::text[]) AS a (stripe, xid)
    LEFT JOIN stripes AS s ON s.stripe = a.stripe AND s.node_seq = $1`;

interface FoundCommit {
  readonly xid: string;
  /** Null if the server has not reached this id yet. */
  readonly status: string | null;
  /** Null if the stripe was taken away. */
  readonly locker: string | null;
}

function findCommits(sql: Sql, nodeSeq: number, commits: ReadonlyMap<number, string>) {
  return sql.all<FoundCommit>(FIND_COMMITS, [nodeSeq, [...commits.keys()], [...commits.values()]]);
}

/** The distance in ids to the last lock of the stripe: 0 if this transaction was the last, or if the row has no lock. */
function lockedAfter({ xid, locker }: FoundCommit): bigint {
  const isKnown = locker !== null && locker !== "0";
  return isKnown ? BigInt.asIntN(32, BigInt(locker) - BigInt(xid)) : 0n;
}

/**
 * True if the server lacks a transaction of the list, because a standby was promoted without it. Such a server gives the
 * id to another transaction, which may have committed. But the stripe's row then shows an earlier last lock.
 */
export async function hasLostCommits(
  sql: Sql,
  { nodeSeq, lastCommits }: LastCommits,
): Promise<boolean> {
  const [node, commits] = await Promise.all([
    sql.get(FIND_NODE, [nodeSeq]),
    findCommits(sql, nodeSeq, lastCommits),
  ]);
  const isKept = ({ status }: FoundCommit) => status === "committed" || status === "too old";
  return (
    node === undefined || !commits.every((commit) => isKept(commit) && lockedAfter(commit) >= 0n)
  );
}

// A transaction in doubt may hold its stripe for longer; then the lock is tried again.
const SETTLE_LOCK_MS = 4000;

/**
 * Returns whether a transaction of this stripe has committed. After a crash the server reuses the ids of transactions that
 * had not reached its disk, so a committed id may belong to another node. But the stripe's row is on disk with the
 * transaction that locked it last. Rejects with {@link Fenced} if it has not committed and the stripe was taken away.
 */
export async function hasCommitted(
  connection: Connection,
  stripe: Stripe,
  doubt: Doubt,
): Promise<boolean> {
  const find = async (): Promise<FoundCommit | undefined> =>
    (await findCommits(connection, stripe.nodeSeq, new Map([[stripe.stripe, doubt.xid]])))[0];
  if (doubt.isLocker === undefined) {
    // Read before the row is locked again.
    const found = await find();
    doubt.isLocker = found === undefined || lockedAfter(found) === 0n;
  }
  await connection.command("BEGIN");
  try {
    // Waits until the transaction in doubt has ended. The COMMIT below waits for the standbys, which then have both.
    const own = await fence(connection, stripe, SETTLE_LOCK_MS);
    const found = await find();
    await connection.command("COMMIT");
    // A node that took the stripe away has locked the row since: then only the status decides.
    if (found?.status === "committed" && (own === undefined || doubt.isLocker)) return true;
    if (own === undefined) throw new Fenced();
    return false;
  } catch (error) {
    if (sqlStateOf(error) !== "") await connection.command("ROLLBACK");
    throw error;
  }
}
