import type { Account } from "../../domain/account/account.ts";
import { hasRoomBeside, openTasksOf, type OwnLimits } from "../../domain/account/quota.ts";
import { toTaskCounts } from "../../domain/stats/work-counts.ts";
import { toKeyHolder, toOwnLimits, type KeyHolderRow } from "../common/account-row.ts";
import type { AccountState, Key, NewAccount, NewKey, Store, WebhookSecrets } from "../store.ts";
import { readWorkCounts } from "./counts.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import { each, type SetSteps } from "./steps.ts";
import { turnLookUp, type Keyed } from "./turn-reads.ts";

const INSERT_ACCOUNT = `
  INSERT INTO accounts (login, webhook_secret, created_at) VALUES ($1, $2, $3)
  ON CONFLICT (login) DO NOTHING
  RETURNING seq`;

const SELECT_ACCOUNT_SEQ = `SELECT seq FROM accounts WHERE login = $1`;

/** Lets nobody else change the account, or count what belongs to it, until the batch has ended. */
const LOCK_ACCOUNT = `SELECT seq FROM accounts WHERE login = $1 FOR NO KEY UPDATE`;

const INSERT_KEY = `
  INSERT INTO keys (key_id, account_seq, hash, last_four, label, created_at)
  VALUES ($1, $2, $3, $4, $5, $6)`;

// After the lock: a statement sees what was committed when it begins.
const COUNT_ACTIVE_KEYS = `
  SELECT count(*) AS active FROM keys
  WHERE account_seq = (${SELECT_ACCOUNT_SEQ}) AND revoked_at IS NULL`;

const KEY_COLUMNS = `
  key_id AS "keyId", last_four AS "lastFour", label, created_at AS "createdAt", last_used_at AS "lastUsedAt",
  revoked_at AS "revokedAt"`;

const REVOKE_KEY = `
  UPDATE keys SET revoked_at = coalesce(revoked_at, $3)
  WHERE key_id = $1 AND ($2::bigint IS NULL OR account_seq = $2)
  RETURNING ${KEY_COLUMNS}`;

// In the order of their numbers, so that two batches do not wait for each other.
const TOUCH_KEYS = `
  WITH used AS MATERIALIZED (
    SELECT k.seq, a.used_at
    FROM (
      SELECT key_id, max(used_at) AS used_at FROM unnest($1::text[], $2::bigint[]) AS u (key_id, used_at)
      GROUP BY key_id
    ) AS a JOIN keys AS k ON k.key_id = a.key_id
    WHERE k.last_used_at IS NULL OR k.last_used_at < a.used_at
    ORDER BY k.seq FOR NO KEY UPDATE OF k
  )
  UPDATE keys AS k SET last_used_at = used.used_at FROM used WHERE k.seq = used.seq`;

const ROTATE_SECRET = `
  UPDATE accounts SET webhook_secret_next = $2 WHERE login = $1 AND webhook_secret_next IS NULL`;

const FINISH_ROTATION = `
  UPDATE accounts SET webhook_secret = webhook_secret_next, webhook_secret_next = NULL
  WHERE login = $1 AND webhook_secret_next IS NOT NULL`;

/** The columns of an {@link Account}. */
export const ACCOUNT_COLUMNS = `login, created_at AS "createdAt", disabled_at AS "disabledAt"`;

/** The columns of {@link WebhookSecrets}; only accounts have columns of these names. */
export const SECRET_COLUMNS = `
  webhook_secret AS "webhookSecret", webhook_secret_next AS "webhookSecretNext"`;

/** The columns of {@link OwnLimits}; only accounts have columns of these names. */
export const LIMIT_COLUMNS = `
  bytes_max AS bytes, open_tasks_max AS "openTasks", requests_per_minute AS "requestsPerMinute",
  tasks_per_minute AS "tasksPerMinute"`;

const LOCK_LIMITS = `SELECT ${LIMIT_COLUMNS} FROM accounts WHERE login = $1 FOR NO KEY UPDATE`;

const UPDATE_LIMITS = `
  UPDATE accounts
  SET bytes_max = $2, open_tasks_max = $3, requests_per_minute = $4, tasks_per_minute = $5
  WHERE login = $1`;

const SELECT_ACCOUNTS = `SELECT ${ACCOUNT_COLUMNS} FROM accounts ORDER BY login`;

const SELECT_SECOND = `SELECT 1 FROM accounts LIMIT 1 OFFSET 1`;

const SELECT_ACCOUNT = `
  SELECT seq AS "accountId", ${ACCOUNT_COLUMNS}, webhook_secret_next IS NOT NULL AS "isRotating",
    ${LIMIT_COLUMNS}
  FROM accounts WHERE login = $1`;

const SELECT_SECRETS = `SELECT ${SECRET_COLUMNS} FROM accounts WHERE login = $1`;

const SELECT_ACCOUNT_DATA = `SELECT login, ${SECRET_COLUMNS} FROM accounts WHERE seq = $1`;

// All active keys, of which there are few, and the last revoked ones; NULL is no limit. In one statement: a key that is
// revoked between two would be in both or in neither.
const SELECT_KEYS = `
  SELECT ${KEY_COLUMNS} FROM (
    SELECT * FROM keys WHERE account_seq = $1 AND revoked_at IS NULL
    UNION ALL (
      SELECT * FROM keys WHERE account_seq = $1 AND revoked_at IS NOT NULL
      ORDER BY revoked_at DESC, seq DESC
      LIMIT $2
    )
  ) AS k
  ORDER BY seq`;

/** Runs for the requests of each turn: two index look-ups for each. */
const SELECT_KEY_HOLDERS = `
  SELECT k.hash AS key, a.seq AS "accountId", a.login, k.key_id AS "keyId", k.revoked_at AS "revokedAt",
    a.disabled_at AS "disabledAt", ${LIMIT_COLUMNS}
  FROM keys AS k JOIN accounts AS a ON a.seq = k.account_seq
  WHERE k.hash = ANY($1::text[])`;

interface Seq {
  readonly seq: number;
}

export function accountWrites(sql: BatchSql) {
  return {
    createAccount: each(async (account) =>
      (await makeAccount(sql, account)) === null ? "exists" : "created",
    ),

    changeLimits: each(async ({ login, limits }) => {
      const own = await sql.get<OwnLimits>(LOCK_LIMITS, [login]);
      if (own === undefined) return null;
      const changed = { ...own, ...limits };
      const { bytes, openTasks, requestsPerMinute, tasksPerMinute } = changed;
      sql.send(UPDATE_LIMITS, [login, bytes, openTasks, requestsPerMinute, tasksPerMinute]);
      return changed;
    }),

    createKey: each(async (key) => {
      const [account, count] = await Promise.all([
        sql.get<Seq>(LOCK_ACCOUNT, [key.login]),
        sql.get<{ active: number }>(COUNT_ACTIVE_KEYS, [key.login]),
      ]);
      if (account === undefined) return "no account";
      if (!hasRoomBeside(count?.active ?? 0, key.activeMax)) return "limit reached";
      sendKey(sql, key, account.seq);
      return "created";
    }),

    revokeKey: each(
      async ({ keyId, accountId, revokedAt }) =>
        (await sql.get<Key>(REVOKE_KEY, [keyId, accountId, revokedAt])) ?? null,
    ),

    async touchKeys(list) {
      const uses = list.flat();
      const ids = uses.map(({ keyId }) => keyId);
      const times = uses.map(({ usedAt }) => usedAt);
      sql.send(TOUCH_KEYS, [ids, times]);
      return list.map(() => {});
    },

    ...rotationWrites(sql),
  } satisfies SetSteps;
}

function rotationWrites(sql: BatchSql) {
  const change = async (login: string, text: string, values: readonly string[]) => {
    const [changed, account] = await Promise.all([
      sql.run(text, values),
      sql.get<Seq>(SELECT_ACCOUNT_SEQ, [login]),
    ]);
    if (changed > 0) return "changed";
    return account === undefined ? "no account" : "unchanged";
  };

  return {
    rotateSecret: each(async ({ login, next }) => {
      const outcome = await change(login, ROTATE_SECRET, [login, next]);
      if (outcome === "no account") return outcome;
      return outcome === "changed" ? "rotating" : "already rotating";
    }),

    finishRotation: each(async ({ login }) => {
      const outcome = await change(login, FINISH_ROTATION, [login]);
      if (outcome === "no account") return outcome;
      return outcome === "changed" ? "finished" : "not rotating";
    }),
  } satisfies SetSteps;
}

/** Makes an account with its first key; answers its number, or null when the login is taken. */
export async function makeAccount(
  sql: BatchSql,
  { login, webhookSecret, createdAt, firstKey }: NewAccount,
): Promise<number | null> {
  const made = await sql.get<Seq>(INSERT_ACCOUNT, [login, webhookSecret, createdAt]);
  if (made === undefined) return null;
  sendKey(sql, { ...firstKey, createdAt }, made.seq);
  return made.seq;
}

function sendKey(
  sql: BatchSql,
  { keyId, hash, lastFour, label, createdAt }: Omit<NewKey, "login" | "activeMax">,
  accountSeq: number,
): void {
  sql.send(INSERT_KEY, [keyId, accountSeq, hash, lastFour, label, createdAt]);
}

const NO_LIMIT = null;

export function accountReads(sql: Sql) {
  const keysOf = (accountSeq: number, revokedMax: number | null) =>
    sql.all<Key>(SELECT_KEYS, [accountSeq, revokedMax]);
  const lookUpHolder = turnLookUp((hashes) =>
    sql.all<KeyHolderRow & Keyed>(SELECT_KEY_HOLDERS, [hashes]),
  );

  return {
    listAccounts: () => sql.all<Account>(SELECT_ACCOUNTS),
    hasSeveralAccounts: async () => (await sql.get(SELECT_SECOND)) !== undefined,

    async findAccount(login) {
      const row = await sql.get<Omit<AccountState, "ownLimits"> & OwnLimits>(SELECT_ACCOUNT, [
        login,
      ]);
      if (row === undefined) return null;
      const { accountId, createdAt, disabledAt, isRotating } = row;
      return { accountId, login, createdAt, disabledAt, isRotating, ownLimits: toOwnLimits(row) };
    },

    async listKeys(login) {
      const account = await sql.get<Seq>(SELECT_ACCOUNT_SEQ, [login]);
      return account === undefined ? null : keysOf(account.seq, NO_LIMIT);
    },

    async findKeyHolder(keyHash) {
      const row = await lookUpHolder(keyHash);
      return row === undefined ? null : toKeyHolder(row);
    },

    async findAccountData({ accountId, revokedMax }) {
      const [row, keys, counts] = await Promise.all([
        sql.get<WebhookSecrets & { login: string }>(SELECT_ACCOUNT_DATA, [accountId]),
        keysOf(accountId, revokedMax),
        readWorkCounts(sql, accountId),
      ]);
      if (row === undefined) return null;
      const usage = { bytes: counts.bytes, openTasks: openTasksOf(counts) };
      return { ...row, keys, taskCounts: toTaskCounts(counts), usage };
    },

    findSecrets: async (login) => (await sql.get<WebhookSecrets>(SELECT_SECRETS, [login])) ?? null,
  } satisfies Partial<Store>;
}
