import { SIGN_IN_LINK_MS } from "../../domain/account/account.ts";
import type { OwnLimits } from "../../domain/account/quota.ts";
import { CLIENT_WRITE, rows, type WriteRules } from "../common/write-rule.ts";
import type { NewSession, Session } from "../store.ts";
import { LIMIT_COLUMNS, toOwnLimits } from "./accounts.ts";
import { lookUp, onlyPostgres, statement } from "./statement.ts";
import { touch, touchOf } from "./touches.ts";
import { run, send, type StoreUseCases, type UseCase } from "./use-case.ts";

// The operator's sessions have no row to lock, and are few: the lock makes every other new session wait.
const LOCK_SESSIONS = onlyPostgres(`LOCK TABLE sessions IN SHARE ROW EXCLUSIVE MODE`);

const INSERT_OPERATOR_SESSION = statement(`
  INSERT INTO sessions (hash, key_seq, created_at, last_seen_at)
  VALUES (@hash, NULL, @createdAt, @createdAt)`);

// Locking the account makes a concurrent disable run before this, or find the new session and end it. Locking the key
// makes its sessions count one after the other.
const INSERT_KEY_SESSION = statement(`
  INSERT INTO sessions (hash, key_seq, created_at, last_seen_at)
  SELECT @hash, k.seq, @createdAt, @createdAt
  FROM keys AS k JOIN accounts AS a ON a.seq = k.account_seq
  WHERE k.key_id = @keyId AND k.revoked_at IS NULL AND a.disabled_at IS NULL
  FOR SHARE OF a FOR NO KEY UPDATE OF k`);

/** Ends the oldest sessions of an owner, beyond so many. */
const trimSessions = (isOfOwner: string): string => `
  DELETE FROM sessions
  WHERE ${isOfOwner} AND seq <= (
    SELECT seq FROM sessions WHERE ${isOfOwner} ORDER BY seq DESC LIMIT 1 OFFSET @sessionsMax
  )`;

export const TRIM_OPERATOR_SESSIONS = statement(trimSessions(`key_seq IS NULL`));
export const TRIM_KEY_SESSIONS = statement(
  trimSessions(`key_seq = (SELECT k.seq FROM keys AS k WHERE k.key_id = @keyId)`),
);

export const TOUCH_SESSIONS = touchOf({
  table: "sessions",
  key: "seq",
  keyType: "bigint",
  time: "last_seen_at",
});

const END_SESSION = statement(`DELETE FROM sessions WHERE hash = @hash`);

const INSERT_LINK = statement(
  `INSERT INTO sign_in_links (hash, expires_at) VALUES (@hash, @expiresAt)`,
);

// A link that expires much later than any can was made while the clock was ahead.
const USE_LINK = statement(`
  DELETE FROM sign_in_links
  WHERE hash = @hash AND expires_at > @now AND expires_at <= @now + ${2 * SIGN_IN_LINK_MS}`);

/** A session with its key and account; without them it is the operator's. */
interface SessionRow extends Omit<Session, "holder">, OwnLimits {
  readonly keyId: string | null;
  readonly accountId: number | null;
  readonly login: string | null;
}

/** Runs for every request of a session: look-ups by index. Only a session without a key belongs to the operator. */
export const FIND_SESSION = lookUp<SessionRow, Session>(
  {
    columns: `
      s.seq AS "sessionId", s.created_at AS "createdAt", s.last_seen_at AS "lastSeenAt",
      k.key_id AS "keyId", a.seq AS "accountId", a.login, ${LIMIT_COLUMNS}`,
    from: `
      sessions AS s LEFT JOIN keys AS k ON k.seq = s.key_seq
      LEFT JOIN accounts AS a ON a.seq = k.account_seq`,
    key: "s.hash",
    condition: `AND (
      s.key_seq IS NULL
      OR (a.seq IS NOT NULL AND k.revoked_at IS NULL AND a.disabled_at IS NULL)
    )`,
  },
  (row) => {
    const { sessionId, createdAt, lastSeenAt, keyId, accountId, login } = row;
    const isAccount = keyId !== null && accountId !== null && login !== null;
    const holder = isAccount ? { accountId, login, keyId, ownLimits: toOwnLimits(row) } : null;
    return { sessionId, holder, createdAt, lastSeenAt };
  },
);

export const sessionWrites = {
  createSession,

  *endSession(hash) {
    yield* send(END_SESSION, { hash });
  },

  *createSignInLink({ hash, expiresAt }) {
    yield* send(INSERT_LINK, { hash, expiresAt });
  },

  *useSignInLink({ hash, now, session }) {
    const isUsed = (yield* run(USE_LINK, { hash, now })) > 0;
    return isUsed ? yield* createSession(session) : "refused";
  },
} satisfies StoreUseCases;

function* createSession(session: NewSession): UseCase<"created" | "refused"> {
  const { hash, keyId, createdAt, sessionsMax } = session;
  if (keyId === null) {
    yield* send(LOCK_SESSIONS);
    yield* send(INSERT_OPERATOR_SESSION, { hash, createdAt });
    yield* send(TRIM_OPERATOR_SESSIONS, { sessionsMax });
    return "created";
  }
  if ((yield* run(INSERT_KEY_SESSION, { hash, keyId, createdAt })) === 0) return "refused";
  yield* send(TRIM_KEY_SESSIONS, { sessionsMax, keyId });
  return "created";
}

export const sessionTouches = {
  *touchSessions(uses) {
    yield* touch(
      TOUCH_SESSIONS,
      uses.map(({ sessionId, seenAt }) => ({ key: sessionId, time: seenAt })),
    );
  },
} satisfies StoreUseCases;

export const sessionRules = {
  createSession: { weight: CLIENT_WRITE, hasEffect: (outcome) => outcome === "created" },
  touchSessions: { weight: (uses) => rows(uses.length) },
  endSession: {},
  createSignInLink: { hasEffect: () => true },
  useSignInLink: { hasEffect: (outcome) => outcome === "created" },
} satisfies WriteRules;
