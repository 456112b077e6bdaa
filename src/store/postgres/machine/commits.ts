import { type Connection, sqlStateOf } from "./connection.ts";
import type { Sql } from "./sql.ts";

/** What became of transactions: of one whose COMMIT got no reply, and of the last ones after a failover. */

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
  /** Whether it was the last to lock its stripe, as it was found first; undefined before the first look. */
  isLocker?: boolean;
}

/** This life of the node is over: its stripes are no longer its own, so nothing of it is written any more. */
export class Fenced extends Error {
  override readonly name = "Fenced" as const;
}

// The stripe's row is locked by every batch: a later one waits until this transaction has ended, whatever became
// of its connection. Locking writes no new version of the row. The id is read here, because after the COMMIT was
// sent it is too late. That the COMMIT waits for the disk, and for standbys, is said of this transaction by itself: a
// pooler that hands connections out by transaction may have given it one whose session was told otherwise. How long it
// waits for a row is said here too.
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

// A server that was promoted before it had got the transaction may not have come to its id yet, and would refuse to give
// its status. The status of a transaction from long ago is not kept. `locker` is the lower half of an id.
const FIND_COMMITS = `
  SELECT a.xid, s.xmax::text AS locker, CASE WHEN a.xid::xid8 < pg_snapshot_xmax(pg_current_snapshot())
    THEN coalesce(pg_xact_status(a.xid::xid8), 'too old') END AS status
  FROM unnest($2::int[], $3::text[]) AS a (stripe, xid)
    LEFT JOIN stripes AS s ON s.stripe = a.stripe AND s.node_seq = $1`;

interface FoundCommit {
  readonly xid: string;
  /** Null if the server has not come to this id yet. */
  readonly status: string | null;
  /** Null if the stripe was taken away. */
  readonly locker: string | null;
}

function findCommits(sql: Sql, nodeSeq: number, commits: ReadonlyMap<number, string>) {
  return sql.all<FoundCommit>(FIND_COMMITS, [nodeSeq, [...commits.keys()], [...commits.values()]]);
}

/** How much later than the transaction the stripe was locked last: 0 if by itself, or if the row does not tell. */
function lockedAfter({ xid, locker }: FoundCommit): bigint {
  const isKnown = locker !== null && locker !== "0";
  return isKnown ? BigInt.asIntN(32, BigInt(locker) - BigInt(xid)) : 0n;
}

/**
 * True if the server lacks one of these transactions: a standby was promoted that had not got it yet. A server that has
 * lost a transaction gives its id to another one, which may have committed. But it has then lost, too, that the stripe
 * was locked so late.
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
 * Finds out whether a transaction of this stripe has committed. A server that crashed gives the ids of those transactions
 * again that had not reached its disk, so one that committed may be another node's. But what the last lock of the row left
 * in it is on disk when its transaction is. Rejects with {@link Fenced} if it has not, and the stripe was taken away.
 */
export async function hasCommitted(
  connection: Connection,
  stripe: Stripe,
  doubt: Doubt,
): Promise<boolean> {
  const find = async (): Promise<FoundCommit | undefined> =>
    (await findCommits(connection, stripe.nodeSeq, new Map([[stripe.stripe, doubt.xid]])))[0];
  if (doubt.isLocker === undefined) {
    // To be found before the row is locked again.
    const found = await find();
    doubt.isLocker = found === undefined || lockedAfter(found) === 0n;
  }
  await connection.command("BEGIN");
  try {
    // Waits until the transaction in doubt has ended. The COMMIT below waits for the standbys, which then have both.
    const own = await fence(connection, stripe, SETTLE_LOCK_MS);
    const found = await find();
    await connection.command("COMMIT");
    // Who takes the stripe away locks the row too, after the transaction: then only its status is left to go by.
    if (found?.status === "committed" && (own === undefined || doubt.isLocker)) return true;
    if (own === undefined) throw new Fenced();
    return false;
  } catch (error) {
    if (sqlStateOf(error) !== "") await connection.command("ROLLBACK");
    throw error;
  }
}
