import { SIGN_IN_LINK_MS } from "../../domain/account/account.ts";
import { toSession, type SessionRow } from "../common/session-row.ts";
import type { NewSession, NewSignInLink, SessionUse } from "../store.ts";
import { LIMIT_COLUMNS } from "./accounts.ts";
import type { Connection } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";

const INSERT_OPERATOR_SESSION = `
  INSERT INTO sessions (hash, key_seq, created_at, last_seen_at)
  VALUES (@hash, NULL, @createdAt, @createdAt)`;

const INSERT_KEY_SESSION = `
  INSERT INTO sessions (hash, key_seq, created_at, last_seen_at)
  SELECT @hash, k.seq, @createdAt, @createdAt
  FROM keys AS k JOIN accounts AS a ON a.seq = k.account_seq
  WHERE k.key_id = @keyId AND k.revoked_at IS NULL AND a.disabled_at IS NULL`;

/** Ends the oldest sessions of the new session's key, beyond so many. */
export const TRIM_SESSIONS = `
  DELETE FROM sessions
  WHERE key_seq IS (SELECT key_seq FROM sessions WHERE seq = @seq) AND seq <= (
    SELECT s.seq FROM sessions AS s
    WHERE s.key_seq IS (SELECT key_seq FROM sessions WHERE seq = @seq)
    ORDER BY s.seq DESC
    LIMIT 1 OFFSET @sessionsMax
  )`;

export const TOUCH_SESSION = `
  UPDATE sessions SET last_seen_at = @seenAt WHERE seq = @sessionId AND last_seen_at < @seenAt`;

const END_SESSION = `DELETE FROM sessions WHERE hash = ?`;

const INSERT_LINK = `
  INSERT INTO sign_in_links (hash, expires_at) VALUES (@hash, @expiresAt)`;

// A link that expires much later than any can was made while the clock was ahead.
const USE_LINK = `
  DELETE FROM sign_in_links
  WHERE hash = @hash AND expires_at > @now AND expires_at <= @now + ${2 * SIGN_IN_LINK_MS}`;

/** Runs on every request of a session: look-ups by index. Only a session without a key belongs to the operator. */
export const FIND_SESSION = `
  SELECT s.seq AS sessionId, s.created_at AS createdAt, s.last_seen_at AS lastSeenAt,
    k.key_id AS keyId, a.seq AS accountId, a.login, ${LIMIT_COLUMNS}
  FROM sessions AS s
  LEFT JOIN keys AS k ON k.seq = s.key_seq
  LEFT JOIN accounts AS a ON a.seq = k.account_seq
  WHERE s.hash = ? AND (
    s.key_seq IS NULL
    OR (a.seq IS NOT NULL AND k.revoked_at IS NULL AND a.disabled_at IS NULL)
  )`;

export function sessionWrites(connection: Connection) {
  const insertOfKey = connection.prepare(INSERT_KEY_SESSION);
  const insertOfOperator = connection.prepare(INSERT_OPERATOR_SESSION);
  const trim = connection.prepare(TRIM_SESSIONS);
  const touch = connection.prepare<[SessionUse]>(TOUCH_SESSION);
  const end = connection.prepare<[string]>(END_SESSION);
  const insertLink = connection.prepare<[NewSignInLink]>(INSERT_LINK);
  const takeLink = connection.prepare(USE_LINK);

  function createSession({ keyId, sessionsMax, ...row }: NewSession): "created" | "refused" {
    const { changes, lastInsertRowid } =
      keyId === null ? insertOfOperator.run(row) : insertOfKey.run({ ...row, keyId });
    if (changes === 0) return "refused";
    trim.run({ seq: lastInsertRowid, sessionsMax });
    return "created";
  }

  return {
    createSession,

    touchSessions(uses) {
      for (const use of uses) touch.run(use);
    },

    endSession: (hash) => void end.run(hash),
    createSignInLink: (link) => void insertLink.run(link),

    useSignInLink: ({ hash, now, session }) =>
      takeLink.run({ hash, now }).changes === 0 ? "refused" : createSession(session),
  } satisfies Steps;
}

export function sessionReads(connection: Connection) {
  const find = connection.prepare<[string], SessionRow>(FIND_SESSION);

  return {
    findSession(hash) {
      const row = find.get(hash);
      return row === undefined ? null : toSession(row);
    },
  } satisfies Steps;
}
