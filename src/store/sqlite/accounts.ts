import type { Account } from "../../domain/account.ts";
import type { KeyHolder } from "../../domain/credentials.ts";
import type { Key, NewAccount, NewKey } from "../store.ts";
import type { Connection } from "./connection.ts";

const INSERT_ACCOUNT = `
  INSERT INTO accounts (login, webhook_secret, created_at)
  VALUES (@login, @webhookSecret, @createdAt)
  ON CONFLICT (login) DO NOTHING`;

const SELECT_ACCOUNT_SEQ = `SELECT seq FROM accounts WHERE login = ?`;

const DISABLE_ACCOUNT = `
  UPDATE accounts SET disabled_at = coalesce(disabled_at, @disabledAt) WHERE login = @login
  RETURNING login, created_at, disabled_at`;

const ENABLE_ACCOUNT = `
  UPDATE accounts SET disabled_at = NULL WHERE login = @login
  RETURNING login, created_at, disabled_at`;

const INSERT_KEY = `
  INSERT INTO keys (key_id, account_seq, hash, last_four, label, created_at)
  VALUES (@keyId, @accountSeq, @hash, @lastFour, @label, @createdAt)`;

const COUNT_ACTIVE_KEYS = `
  SELECT count(*) FROM keys WHERE account_seq = ? AND revoked_at IS NULL`;

const KEY_COLUMNS = `key_id, last_four, label, created_at, last_used_at, revoked_at`;

const REVOKE_KEY = `
  UPDATE keys SET revoked_at = coalesce(revoked_at, @revokedAt) WHERE key_id = @keyId
  RETURNING ${KEY_COLUMNS}`;

const SELECT_ACCOUNTS = `SELECT login, created_at, disabled_at FROM accounts ORDER BY login`;

const SELECT_KEYS = `SELECT ${KEY_COLUMNS} FROM keys WHERE account_seq = ? ORDER BY seq`;

/** Runs on every request: two index look-ups. */
export const SELECT_KEY_HOLDER = `
  SELECT a.seq, a.login, a.webhook_secret, k.key_id, k.revoked_at, a.disabled_at
  FROM keys AS k JOIN accounts AS a ON a.seq = k.account_seq
  WHERE k.hash = ?`;

interface AccountRow {
  login: string;
  created_at: number;
  disabled_at: number | null;
}

interface KeyRow {
  key_id: string;
  last_four: string;
  label: string | null;
  created_at: number;
  last_used_at: number | null;
  revoked_at: number | null;
}

interface KeyHolderRow {
  seq: number;
  login: string;
  webhook_secret: string;
  key_id: string;
  revoked_at: number | null;
  disabled_at: number | null;
}

/** The writes on accounts and keys. Each runs inside the transaction of its batch. */
export function accountWrites(connection: Connection) {
  const insertAccount = connection.prepare(INSERT_ACCOUNT);
  const selectSeq = connection.prepare<[string], number>(SELECT_ACCOUNT_SEQ).pluck();
  const disable = connection.prepare<[object], AccountRow>(DISABLE_ACCOUNT);
  const enable = connection.prepare<[object], AccountRow>(ENABLE_ACCOUNT);
  const insertKey = connection.prepare(INSERT_KEY);
  const countActive = connection.prepare<[number], number>(COUNT_ACTIVE_KEYS).pluck();
  const revoke = connection.prepare<[object], KeyRow>(REVOKE_KEY);

  return {
    createAccount(account: NewAccount): "created" | "exists" {
      const { firstKey, ...row } = account;
      const { changes, lastInsertRowid } = insertAccount.run(row);
      if (changes === 0) return "exists";
      insertKey.run({ ...firstKey, accountSeq: lastInsertRowid, createdAt: account.createdAt });
      return "created";
    },

    setAccountDisabled(change: { login: string; disabledAt: number | null }): Account | null {
      const row = change.disabledAt === null ? enable.get(change) : disable.get(change);
      return row === undefined ? null : toAccount(row);
    },

    createKey(key: NewKey): "created" | "no account" | "limit reached" {
      const accountSeq = selectSeq.get(key.login);
      if (accountSeq === undefined) return "no account";
      if ((countActive.get(accountSeq) ?? 0) >= key.activeMax) return "limit reached";
      insertKey.run({ ...key, accountSeq });
      return "created";
    },

    revokeKey(change: { keyId: string; revokedAt: number }): Key | null {
      const row = revoke.get(change);
      return row === undefined ? null : toKey(row);
    },
  };
}

/** The reads on accounts and keys. */
export function accountReads(connection: Connection) {
  const selectAccounts = connection.prepare<[], AccountRow>(SELECT_ACCOUNTS);
  const selectSeq = connection.prepare<[string], number>(SELECT_ACCOUNT_SEQ).pluck();
  const selectKeys = connection.prepare<[number], KeyRow>(SELECT_KEYS);
  const selectKeyHolder = connection.prepare<[string], KeyHolderRow>(SELECT_KEY_HOLDER);

  return {
    listAccounts(): readonly Account[] {
      return selectAccounts.all().map(toAccount);
    },

    listKeys(login: string): readonly Key[] | null {
      const seq = selectSeq.get(login);
      return seq === undefined ? null : selectKeys.all(seq).map(toKey);
    },

    findKeyHolder(keyHash: string): KeyHolder | null {
      const row = selectKeyHolder.get(keyHash);
      return row === undefined ? null : toKeyHolder(row);
    },
  };
}

function toAccount(row: AccountRow): Account {
  return { login: row.login, createdAt: row.created_at, disabledAt: row.disabled_at };
}

function toKey(row: KeyRow): Key {
  return {
    keyId: row.key_id,
    lastFour: row.last_four,
    label: row.label,
    createdAt: row.created_at,
    lastUsedAt: row.last_used_at,
    revokedAt: row.revoked_at,
  };
}

function toKeyHolder(row: KeyHolderRow): KeyHolder {
  return {
    accountId: row.seq,
    login: row.login,
    webhookSecret: row.webhook_secret,
    keyId: row.key_id,
    keyRevoked: row.revoked_at !== null,
    accountDisabled: row.disabled_at !== null,
  };
}
