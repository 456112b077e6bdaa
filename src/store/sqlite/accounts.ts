import type { Account } from "../../domain/account/account.ts";
import type { KeyHolder } from "../../domain/account/credentials.ts";
import { hasRoomBeside } from "../../domain/account/quota.ts";
import type {
  AccountData,
  AccountState,
  Key,
  KeyRevocation,
  KeyUse,
  NewAccount,
  NewKey,
  RotationEnd,
  RotationStart,
  WebhookSecrets,
} from "../store.ts";
import { LIMIT_COLUMNS, toOwnLimits, type LimitsRow } from "./account-limits.ts";
import type { Connection } from "./machine/connection.ts";
import { taskCountReads } from "./task-counts.ts";

// A daemon remembers things of an erased account, which must not come to another one: no seq is given twice.
const FRESH_SEQ = `
  1 + max(
    (SELECT coalesce(max(seq), 0) FROM accounts),
    (SELECT coalesce(max(last_seq), 0) FROM erased_accounts)
  )`;

const INSERT_ACCOUNT = `
  INSERT INTO accounts (seq, login, webhook_secret, created_at)
  VALUES (${FRESH_SEQ}, @login, @webhookSecret, @createdAt)
  ON CONFLICT (login) DO NOTHING`;

const SELECT_ACCOUNT_SEQ = `SELECT seq FROM accounts WHERE login = ?`;

const INSERT_KEY = `
  INSERT INTO keys (key_id, account_seq, hash, last_four, label, created_at)
  VALUES (@keyId, @accountSeq, @hash, @lastFour, @label, @createdAt)`;

export const COUNT_ACTIVE_KEYS = `
  SELECT count(*) FROM keys WHERE account_seq = ? AND revoked_at IS NULL`;

const KEY_COLUMNS = `seq, key_id, last_four, label, created_at, last_used_at, revoked_at`;

export const REVOKE_KEY = `
  UPDATE keys SET revoked_at = coalesce(revoked_at, @revokedAt)
  WHERE key_id = @keyId AND (@accountId IS NULL OR account_seq = @accountId)
  RETURNING ${KEY_COLUMNS}`;

export const TOUCH_KEY = `
  UPDATE keys SET last_used_at = @usedAt
  WHERE key_id = @keyId AND (last_used_at IS NULL OR last_used_at < @usedAt)`;

const ROTATE_SECRET = `
  UPDATE accounts SET webhook_secret_next = @next
  WHERE login = @login AND webhook_secret_next IS NULL`;

const FINISH_ROTATION = `
  UPDATE accounts SET webhook_secret = webhook_secret_next, webhook_secret_next = NULL
  WHERE login = ? AND webhook_secret_next IS NOT NULL`;

const SELECT_ACCOUNTS = `SELECT login, created_at, disabled_at FROM accounts ORDER BY login`;

const SELECT_SECOND = `SELECT 1 FROM accounts LIMIT 1 OFFSET 1`;

const SELECT_ACCOUNT = `
  SELECT seq, login, created_at, disabled_at, webhook_secret_next IS NOT NULL AS is_rotating,
    ${LIMIT_COLUMNS}
  FROM accounts WHERE login = ?`;

const SELECT_SECRETS = `SELECT webhook_secret, webhook_secret_next FROM accounts WHERE login = ?`;

export const SELECT_ACCOUNT_DATA = `
  SELECT login, webhook_secret, webhook_secret_next FROM accounts WHERE seq = ?`;

/** There are few: `activeMax` bounds them where they are made. */
export const SELECT_ACTIVE_KEYS = `
  SELECT ${KEY_COLUMNS} FROM keys WHERE account_seq = ? AND revoked_at IS NULL`;

export const SELECT_REVOKED_KEYS = `
  SELECT ${KEY_COLUMNS} FROM keys WHERE account_seq = ? AND revoked_at IS NOT NULL
  ORDER BY revoked_at DESC, seq DESC
  LIMIT ?`;

/** Runs on every request: two index look-ups. */
export const SELECT_KEY_HOLDER = `
  SELECT a.seq, a.login, k.key_id, k.revoked_at, a.disabled_at, ${LIMIT_COLUMNS}
  FROM keys AS k JOIN accounts AS a ON a.seq = k.account_seq
  WHERE k.hash = ?`;

interface AccountRow {
  login: string;
  created_at: number;
  disabled_at: number | null;
}

interface AccountStateRow extends AccountRow, LimitsRow {
  seq: number;
  is_rotating: number;
}

interface SecretsRow {
  webhook_secret: string;
  webhook_secret_next: string | null;
}

interface KeyRow {
  seq: number;
  key_id: string;
  last_four: string;
  label: string | null;
  created_at: number;
  last_used_at: number | null;
  revoked_at: number | null;
}

interface KeyHolderRow extends LimitsRow {
  seq: number;
  login: string;
  key_id: string;
  revoked_at: number | null;
  disabled_at: number | null;
}

/** The writes on accounts, their secrets and keys. Each runs inside the transaction of its batch. */
export function accountWrites(connection: Connection) {
  const insertAccount = connection.prepare(INSERT_ACCOUNT);
  const selectSeq = connection.prepare<[string], number>(SELECT_ACCOUNT_SEQ).pluck();
  const insertKey = connection.prepare(INSERT_KEY);
  const countActive = connection.prepare<[number], number>(COUNT_ACTIVE_KEYS).pluck();
  const revoke = connection.prepare<[object], KeyRow>(REVOKE_KEY);
  const touch = connection.prepare<[KeyUse]>(TOUCH_KEY);
  const rotate = connection.prepare(ROTATE_SECRET);
  const finish = connection.prepare<[string]>(FINISH_ROTATION);

  return {
    createAccount(account: NewAccount): "created" | "exists" {
      const { firstKey, ...row } = account;
      const { changes, lastInsertRowid } = insertAccount.run(row);
      if (changes === 0) return "exists";
      insertKey.run({ ...firstKey, accountSeq: lastInsertRowid, createdAt: account.createdAt });
      return "created";
    },

    createKey(key: NewKey): "created" | "no account" | "limit reached" {
      const accountSeq = selectSeq.get(key.login);
      if (accountSeq === undefined) return "no account";
      const active = countActive.get(accountSeq) ?? 0;
      if (!hasRoomBeside(active, key.activeMax)) return "limit reached";
      insertKey.run({ ...key, accountSeq });
      return "created";
    },

    revokeKey(change: KeyRevocation): Key | null {
      const row = revoke.get(change);
      return row === undefined ? null : toKey(row);
    },

    touchKeys(uses: readonly KeyUse[]): void {
      for (const use of uses) touch.run(use);
    },

    rotateSecret(rotation: { login: string; next: string }): RotationStart {
      if (rotate.run(rotation).changes > 0) return "rotating";
      return selectSeq.get(rotation.login) === undefined ? "no account" : "already rotating";
    },

    finishRotation(login: string): RotationEnd {
      if (finish.run(login).changes > 0) return "finished";
      return selectSeq.get(login) === undefined ? "no account" : "not rotating";
    },
  };
}

function listReads(connection: Connection) {
  const selectAccounts = connection.prepare<[], AccountRow>(SELECT_ACCOUNTS);
  const selectSecond = connection.prepare(SELECT_SECOND);

  return {
    listAccounts(): readonly Account[] {
      return selectAccounts.all().map(toAccount);
    },

    hasSeveralAccounts(): boolean {
      return selectSecond.get() !== undefined;
    },
  };
}

/** SQLite takes a negative LIMIT for none. */
const NO_LIMIT = -1;

/** The reads on accounts, their secrets and keys. */
export function accountReads(connection: Connection) {
  const selectSeq = connection.prepare<[string], number>(SELECT_ACCOUNT_SEQ).pluck();
  const selectActive = connection.prepare<[number], KeyRow>(SELECT_ACTIVE_KEYS);
  const selectRevoked = connection.prepare<[number, number], KeyRow>(SELECT_REVOKED_KEYS);
  const selectKeyHolder = connection.prepare<[string], KeyHolderRow>(SELECT_KEY_HOLDER);
  const selectAccount = connection.prepare<[string], AccountStateRow>(SELECT_ACCOUNT);
  const selectSecrets = connection.prepare<[string], SecretsRow>(SELECT_SECRETS);
  const selectData = connection.prepare<[number], SecretsRow & { login: string }>(
    SELECT_ACCOUNT_DATA,
  );
  const { countTasks, findUsage } = taskCountReads(connection);

  function keysOf(accountSeq: number, revokedMax: number): readonly Key[] {
    const rows = [...selectActive.all(accountSeq), ...selectRevoked.all(accountSeq, revokedMax)];
    return rows.sort((a, b) => a.seq - b.seq).map(toKey);
  }

  // Both reads see one moment: a key that is revoked between two would be in both or in neither.
  const readKeys = connection.transaction((login: string): readonly Key[] | null => {
    const seq = selectSeq.get(login);
    return seq === undefined ? null : keysOf(seq, NO_LIMIT);
  });
  const readData = connection.transaction((accountSeq: number, revokedMax: number) => {
    const row = selectData.get(accountSeq);
    if (row === undefined) return null;
    const keys = keysOf(accountSeq, revokedMax);
    const taskCounts = countTasks(accountSeq);
    return { login: row.login, ...toSecrets(row), keys, taskCounts, usage: findUsage(accountSeq) };
  });

  return {
    ...listReads(connection),

    findAccount(login: string): AccountState | null {
      const row = selectAccount.get(login);
      if (row === undefined) return null;
      const isRotating = row.is_rotating === 1;
      return { ...toAccount(row), accountId: row.seq, isRotating, ownLimits: toOwnLimits(row) };
    },

    listKeys(login: string): readonly Key[] | null {
      return readKeys(login);
    },

    findAccountData(query: { accountId: number; revokedMax: number }): AccountData | null {
      return readData(query.accountId, query.revokedMax);
    },

    findSecrets(login: string): WebhookSecrets | null {
      const row = selectSecrets.get(login);
      return row === undefined ? null : toSecrets(row);
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

function toSecrets(row: SecretsRow): WebhookSecrets {
  return { webhookSecret: row.webhook_secret, webhookSecretNext: row.webhook_secret_next };
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
    keyId: row.key_id,
    keyRevoked: row.revoked_at !== null,
    accountDisabled: row.disabled_at !== null,
    ownLimits: toOwnLimits(row),
  };
}
