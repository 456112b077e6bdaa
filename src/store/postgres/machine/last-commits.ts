import type { Sql } from "./sql.ts";

/** The last transactions of a node's life that it was told are committed. */
export interface LastCommits {
  readonly nodeSeq: number;
  /** Their ids, by stripe. */
  readonly lastCommits: ReadonlyMap<number, string>;
}

interface FoundCommit {
  readonly xid: string;
  /** Null where the server has not come to this id yet. */
  readonly status: string | null;
  /** Who locked the stripe last: the lower half of its id. */
  readonly locker: string;
}

const FIND_NODE = `SELECT 1 FROM nodes WHERE seq = $1`;

// The status of a transaction from long ago is not kept.
const FIND_COMMITS = `
  SELECT a.xid, s.xmax::text AS locker, CASE WHEN a.xid::xid8 < pg_snapshot_xmax(pg_current_snapshot())
    THEN coalesce(pg_xact_status(a.xid::xid8), 'committed') END AS status
  FROM unnest($2::int[], $3::text[]) AS a (stripe, xid)
    JOIN stripes AS s ON s.stripe = a.stripe AND s.node_seq = $1`;

/**
 * True when the server lacks something of this: a standby was promoted that had not got it yet. Nothing is known of
 * stripes that were taken away, which ends the life as well.
 */
export async function hasLostCommits(
  sql: Sql,
  { nodeSeq, lastCommits }: LastCommits,
): Promise<boolean> {
  const [node, commits] = await Promise.all([
    sql.get(FIND_NODE, [nodeSeq]),
    sql.all<FoundCommit>(FIND_COMMITS, [
      nodeSeq,
      [...lastCommits.keys()],
      [...lastCommits.values()],
    ]),
  ]);
  return node === undefined || commits.some(isLost);
}

// A server that has lost a transaction gives its id to another one, which may have committed. But it has then lost, too,
// that the stripe was locked so late.
function isLost({ xid, status, locker }: FoundCommit): boolean {
  if (status !== "committed") return true;
  const isCleanedUp = locker === "0";
  return !isCleanedUp && BigInt.asIntN(32, BigInt(locker) - BigInt(xid)) < 0n;
}
