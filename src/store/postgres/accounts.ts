import { toKeyHolder, type KeyHolderRow } from "../common/account-row.ts";
import type { NewKey, Store } from "../store.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import { missing } from "./missing.ts";
import { each, type SetSteps } from "./steps.ts";

const INSERT_ACCOUNT = `
  INSERT INTO accounts (login, webhook_secret, created_at) VALUES ($1, $2, $3)
  ON CONFLICT (login) DO NOTHING
  RETURNING seq`;

const INSERT_KEY = `
  INSERT INTO keys (key_id, account_seq, hash, last_four, label, created_at)
  VALUES ($1, $2, $3, $4, $5, $6)`;

/** The columns of an {@link Account}. */
export const ACCOUNT_COLUMNS = `login, created_at AS "createdAt", disabled_at AS "disabledAt"`;

/** The columns of {@link OwnLimits}; only accounts have columns of these names. */
export const LIMIT_COLUMNS = `
  bytes_max AS bytes, open_tasks_max AS "openTasks", requests_per_minute AS "requestsPerMinute",
  tasks_per_minute AS "tasksPerMinute"`;

/** Runs on every request: two index look-ups. */
const SELECT_KEY_HOLDER = `
  SELECT a.seq AS "accountId", a.login, k.key_id AS "keyId", k.revoked_at AS "revokedAt",
    a.disabled_at AS "disabledAt", ${LIMIT_COLUMNS}
  FROM keys AS k JOIN accounts AS a ON a.seq = k.account_seq
  WHERE k.hash = $1`;

export function accountWrites(sql: BatchSql) {
  const insertKey = (key: Omit<NewKey, "login" | "activeMax">, accountSeq: number) =>
    sql.run(INSERT_KEY, [key.keyId, accountSeq, key.hash, key.lastFour, key.label, key.createdAt]);

  return {
    createAccount: each(async ({ login, webhookSecret, createdAt, firstKey }) => {
      const made = await sql.get<{ seq: number }>(INSERT_ACCOUNT, [
        login,
        webhookSecret,
        createdAt,
      ]);
      if (made === undefined) return "exists";
      await insertKey({ ...firstKey, createdAt }, made.seq);
      return "created";
    }),
    changeLimits: missing("changeLimits"),
    createKey: missing("createKey"),
    revokeKey: missing("revokeKey"),
    touchKeys: missing("touchKeys"),
    rotateSecret: missing("rotateSecret"),
    finishRotation: missing("finishRotation"),
  } satisfies SetSteps;
}

export function accountReads(sql: Sql) {
  return {
    listAccounts: missing("listAccounts"),
    hasSeveralAccounts: missing("hasSeveralAccounts"),
    findAccount: missing("findAccount"),
    listKeys: missing("listKeys"),
    async findKeyHolder(keyHash) {
      const row = await sql.get<KeyHolderRow>(SELECT_KEY_HOLDER, [keyHash]);
      return row === undefined ? null : toKeyHolder(row);
    },
    findAccountData: missing("findAccountData"),
    findSecrets: missing("findSecrets"),
  } satisfies Partial<Store>;
}
