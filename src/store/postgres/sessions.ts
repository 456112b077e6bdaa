import { SIGN_IN_LINK_MS } from "../../domain/account/account.ts";
import { toSession, type SessionRow } from "../common/session-row.ts";
import type { NewSession, Store } from "../store.ts";
import { LIMIT_COLUMNS } from "./accounts.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import { each, type SetSteps } from "./steps.ts";
import { turnLookUp, type Keyed } from "./turn-reads.ts";

// The operator's sessions have no row of their own to lock, and are few: whoever else opens a session meanwhile waits.
const LOCK_SESSIONS = `LOCK TABLE sessions IN SHARE ROW EXCLUSIVE MODE`;

const INSERT_OPERATOR_SESSION = `
  INSERT INTO sessions (hash, key_seq, created_at, last_seen_at) VALUES ($1, NULL, $2, $2)`;

// The account is locked so that a disabling comes before this, or finds the session and ends it; the key so that its
// sessions are counted one after the other.
const INSERT_KEY_SESSION = `
  INSERT INTO sessions (hash, key_seq, created_at, last_seen_at)
  SELECT $2, k.seq, $3, $3
  FROM keys AS k JOIN accounts AS a ON a.seq = k.account_seq
  WHERE k.key_id = $1 AND k.revoked_at IS NULL AND a.disabled_at IS NULL
  FOR SHARE OF a FOR NO KEY UPDATE OF k`;

/** Ends the oldest sessions of an owner, beyond $1. */
function trimSessions(isOfOwner: string): string {
  return `
    DELETE FROM sessions
    WHERE ${isOfOwner} AND seq <= (
      SELECT seq FROM sessions WHERE ${isOfOwner} ORDER BY seq DESC LIMIT 1 OFFSET $1
    )`;
}

const TRIM_OPERATOR_SESSIONS = trimSessions(`key_seq IS NULL`);
const TRIM_KEY_SESSIONS = trimSessions(
  `key_seq = (SELECT k.seq FROM keys AS k WHERE k.key_id = $2)`,
);

// In the order of their numbers, so that two batches do not wait for each other.
const TOUCH_SESSIONS = `
  WITH used AS MATERIALIZED (
    SELECT s.seq, a.seen_at
    FROM (
      SELECT seq, max(seen_at) AS seen_at FROM unnest($1::bigint[], $2::bigint[]) AS u (seq, seen_at) GROUP BY seq
    ) AS a JOIN sessions AS s ON s.seq = a.seq
    WHERE s.last_seen_at < a.seen_at
    ORDER BY s.seq FOR NO KEY UPDATE OF s
  )
  UPDATE sessions AS s SET last_seen_at = used.seen_at FROM used WHERE s.seq = used.seq`;

const END_SESSION = `DELETE FROM sessions WHERE hash = $1`;

const INSERT_LINK = `INSERT INTO sign_in_links (hash, expires_at) VALUES ($1, $2)`;

// A link that expires much later than any can was made while the clock was ahead.
const USE_LINK = `
  DELETE FROM sign_in_links
  WHERE hash = $1 AND expires_at > $2 AND expires_at <= $2 + ${2 * SIGN_IN_LINK_MS}`;

/** Runs for the requests of sessions of each turn: look-ups by index. Only a session without a key belongs to the operator. */
const FIND_SESSIONS = `
  SELECT s.hash AS key, s.seq AS "sessionId", s.created_at AS "createdAt", s.last_seen_at AS "lastSeenAt",
    k.key_id AS "keyId", a.seq AS "accountId", a.login, ${LIMIT_COLUMNS}
  FROM sessions AS s
  LEFT JOIN keys AS k ON k.seq = s.key_seq
  LEFT JOIN accounts AS a ON a.seq = k.account_seq
  WHERE s.hash = ANY($1::text[]) AND (
    s.key_seq IS NULL
    OR (a.seq IS NOT NULL AND k.revoked_at IS NULL AND a.disabled_at IS NULL)
  )`;

export function sessionWrites(sql: BatchSql) {
  async function createSession(session: NewSession): Promise<"created" | "refused"> {
    const { hash, keyId, createdAt, sessionsMax } = session;
    if (keyId === null) {
      sql.send(LOCK_SESSIONS);
      sql.send(INSERT_OPERATOR_SESSION, [hash, createdAt]);
      sql.send(TRIM_OPERATOR_SESSIONS, [sessionsMax]);
      return "created";
    }
    const inserted = sql.run(INSERT_KEY_SESSION, [keyId, hash, createdAt]);
    sql.send(TRIM_KEY_SESSIONS, [sessionsMax, keyId]);
    return (await inserted) === 0 ? "refused" : "created";
  }

  return {
    createSession: each(createSession),

    async touchSessions(list) {
      const uses = list.flat();
      const seqs = uses.map(({ sessionId }) => sessionId);
      const times = uses.map(({ seenAt }) => seenAt);
      sql.send(TOUCH_SESSIONS, [seqs, times]);
      return list.map(() => {});
    },

    endSession: each(async (hash) => sql.send(END_SESSION, [hash])),

    createSignInLink: each(async ({ hash, expiresAt }) => sql.send(INSERT_LINK, [hash, expiresAt])),

    useSignInLink: each(async ({ hash, now, session }) =>
      (await sql.run(USE_LINK, [hash, now])) === 0 ? "refused" : createSession(session),
    ),
  } satisfies SetSteps;
}

export function sessionReads(sql: Sql) {
  const lookUp = turnLookUp((hashes) => sql.all<SessionRow & Keyed>(FIND_SESSIONS, [hashes]));

  return {
    async findSession(hash) {
      const row = await lookUp(hash);
      return row === undefined ? null : toSession(row);
    },
  } satisfies Partial<Store>;
}
