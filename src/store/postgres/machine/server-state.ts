import { StoreError } from "../../store-error.ts";
import type { Connection } from "./connection.ts";

/** The settings that a node expects of a session, and of the server that it reached. */

/** How a connection is used. */
export interface Session {
  /** A statement that is not answered for so long costs the connection. */
  readonly deadlineMs: number;
  /** The server breaks a statement off after this time; 0 for never. */
  readonly statementMs: number;
  /** The server breaks a wait for a row off after this time; 0 for never. */
  readonly lockMs: number;
  /**
   * True where a commit may be lost when the server crashes, and need not wait for the disk nor for standbys: a
   * heartbeat must not stop because a standby does.
   */
  readonly mayLose: boolean;
}

const OLDEST_VERSION = 140_000;

// A process that was stopped inside a transaction holds its locks no longer than this.
const IDLE_MS_MAX = 10_000;

// A plan outlives what it was made for: one that was made when a table was empty, or by figures from before a burst of
// posts, reads whole tables until the server has counted anew, a minute later at best (measured with 100,000 waiting
// tasks: 140 ms for a claim instead of 1.2). Every statement has an index to go by, mostly one that has its rows in their
// order: a bitmap of it loses that, and then all that is delayed is sorted for the next few (17 ms instead of 0.6 with
// 10,000 delayed tasks). A scan of a whole table that has to be is then given a price at which the server would compile
// its plan: that took 100 ms and more (measured), for a statement that runs in 1.
// Defaults of the role, the database or the URL must not change how texts, arrays and times are read and written, nor end
// a session or a transaction early. Only PostgreSQL 17 and later know transaction_timeout.
const SET_UP = `
  SELECT set_config('client_encoding', 'UTF8', false), set_config('standard_conforming_strings', 'on', false),
    set_config('DateStyle', 'ISO', false), set_config('extra_float_digits', '1', false),
    set_config('array_nulls', 'on', false), set_config('transform_null_equals', 'off', false),
    set_config('idle_session_timeout', '0', false),
    CASE WHEN current_setting('transaction_timeout', true) <> '' THEN set_config('transaction_timeout', '0', false) END,
    set_config('enable_seqscan', 'off', false), set_config('enable_bitmapscan', 'off', false),
    set_config('jit', 'off', false), set_config('idle_in_transaction_session_timeout', '${IDLE_MS_MAX}', false),
    set_config('statement_timeout', $1, false), set_config('lock_timeout', $2, false),
    set_config('default_transaction_isolation', 'read committed', false),
    set_config('synchronous_commit',
      CASE WHEN $3 THEN 'off' WHEN current_setting('synchronous_commit') = 'remote_apply' THEN 'remote_apply' ELSE 'on' END,
      false)`;

const FIND_VERSION = `
  SELECT current_setting('server_version_num')::int AS version, current_setting('synchronous_commit') AS commits,
    current_setting('client_encoding') AS encoding`;

/**
 * Sets a session up, and reads back what the server makes of it. Rejects with a StoreError of kind `failed` when the
 * server is too old, or keeps less than it acknowledges.
 */
export async function setUp(
  connection: Connection,
  { statementMs, lockMs, mayLose }: Session,
): Promise<void> {
  const [, state] = await Promise.all([
    connection.run(SET_UP, [String(statementMs), String(lockMs), mayLose]),
    connection.get<{ version: number; commits: string; encoding: string }>(FIND_VERSION),
  ]);
  const { version = 0, commits = "", encoding = "" } = state ?? {};
  if (version < OLDEST_VERSION) {
    const major = Math.floor(version / 10_000);
    throw new StoreError("failed", `the server is PostgreSQL ${major}: 14 is the oldest known`);
  }
  // A pooler in between may not have passed the settings on.
  if (encoding !== "UTF8") {
    const message = `client_encoding stays ${encoding}: set it to UTF8 in the pooler`;
    throw new StoreError("failed", message);
  }
  if (!mayLose && commits !== "on" && commits !== "remote_apply") {
    const message = `synchronous_commit stays ${commits}, so acknowledged tasks could be lost`;
    throw new StoreError("failed", message);
  }
}

const FIND_TIMELINE = `SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) AS timeline`;

/**
 * Which server this is, of those that it may be since a failover: another timeline after each promotion of a standby.
 * Null where this user may not see it.
 */
export async function findTimeline(connection: Connection): Promise<string | null> {
  const row = await connection.get<{ timeline: string }>(FIND_TIMELINE);
  return row?.timeline ?? null;
}
