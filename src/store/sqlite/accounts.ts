import type { Account } from "../../domain/account/account.ts";
import { hasRoomBeside, type OwnLimits } from "../../domain/account/quota.ts";
import { toKeyHolder, toOwnLimits, type KeyHolderRow } from "../common/account-row.ts";
import type { AccountState, Key, KeyUse, WebhookSecrets } from "../store.ts";
import { taskCountReads } from "./counts.ts";
import type { Connection } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";

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

const KEY_COLUMNS = `
  key_id AS keyId, last_four AS lastFour, label, created_at AS createdAt, last_used_at AS lastUsedAt,
  revoked_at AS revokedAt`;

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

/** The columns of an {@link Account}. */
export const ACCOUNT_COLUMNS = `login, created_at AS createdAt, disabled_at AS disabledAt`;

/** The columns of {@link WebhookSecrets}; only accounts have columns of these names. */
export const SECRET_COLUMNS = `
  webhook_secret AS webhookSecret, webhook_secret_next AS webhookSecretNext`;

/** The columns of {@link OwnLimits}; only accounts have columns of these names. */
export const LIMIT_COLUMNS = `
  bytes_max AS bytes, open_tasks_max AS openTasks, requests_per_minute AS requestsPerMinute,
  tasks_per_minute AS tasksPerMinute`;

export const SELECT_LIMITS = `SELECT ${LIMIT_COLUMNS} FROM accounts WHERE login = ?`;

const UPDATE_LIMITS = `
  UPDATE accounts
  SET bytes_max = @bytes, open_tasks_max = @openTasks, requests_per_minute = @requestsPerMinute,
      tasks_per_minute = @tasksPerMinute
  WHERE login = @login`;

const SELECT_ACCOUNTS = `SELECT ${ACCOUNT_COLUMNS} FROM accounts ORDER BY login`;

const SELECT_SECOND = `SELECT 1 FROM accounts LIMIT 1 OFFSET 1`;

const SELECT_ACCOUNT = `
  SELECT seq AS accountId, ${ACCOUNT_COLUMNS}, webhook_secret_next IS NOT NULL AS isRotating,
    ${LIMIT_COLUMNS}
  FROM accounts WHERE login = ?`;

const SELECT_SECRETS = `SELECT ${SECRET_COLUMNS} FROM accounts WHERE login = ?`;

export const SELECT_ACCOUNT_DATA = `SELECT login, ${SECRET_COLUMNS} FROM accounts WHERE seq = ?`;

/** There are few: `activeMax` bounds them where they are made. */
export const SELECT_ACTIVE_KEYS = `
  SELECT seq, ${KEY_COLUMNS} FROM keys WHERE account_seq = ? AND revoked_at IS NULL`;

export const SELECT_REVOKED_KEYS = `
  SELECT seq, ${KEY_COLUMNS} FROM keys WHERE account_seq = ? AND revoked_at IS NOT NULL
  ORDER BY revoked_at DESC, seq DESC
  LIMIT ?`;

/** Runs on every request: two index look-ups. */
export const SELECT_KEY_HOLDER = `
  SELECT a.seq AS accountId, a.login, k.key_id AS keyId, k.revoked_at AS revokedAt,
    a.disabled_at AS disabledAt, ${LIMIT_COLUMNS}
  FROM keys AS k JOIN accounts AS a ON a.seq = k.account_seq
  WHERE k.hash = ?`;

interface AccountStateRow extends Omit<AccountState, "isRotating" | "ownLimits">, OwnLimits {
  readonly isRotating: 0 | 1;
}

interface KeyRow extends Key {
  readonly seq: number;
}

export function accountWrites(connection: Connection) {
  const insertAccount = connection.prepare(INSERT_ACCOUNT);
  const selectSeq = connection.prepare<[string], number>(SELECT_ACCOUNT_SEQ).pluck();
  const insertKey = connection.prepare(INSERT_KEY);
  const countActive = connection.prepare<[number], number>(COUNT_ACTIVE_KEYS).pluck();
  const revoke = connection.prepare<[object], Key>(REVOKE_KEY);
  const touch = connection.prepare<[KeyUse]>(TOUCH_KEY);
  const rotate = connection.prepare(ROTATE_SECRET);
  const finish = connection.prepare<[string]>(FINISH_ROTATION);
  const selectLimits = connection.prepare<[string], OwnLimits>(SELECT_LIMITS);
  const updateLimits = connection.prepare<[object]>(UPDATE_LIMITS);

  return {
    createAccount({ firstKey, ...account }) {
      const { changes, lastInsertRowid } = insertAccount.run(account);
      if (changes === 0) return "exists";
      insertKey.run({ ...firstKey, accountSeq: lastInsertRowid, createdAt: account.createdAt });
      return "created";
    },

    changeLimits({ login, limits }) {
      const own = selectLimits.get(login);
      if (own === undefined) return null;
      const changed = { ...own, ...limits };
      updateLimits.run({ login, ...changed });
      return changed;
    },

    createKey(key) {
      const accountSeq = selectSeq.get(key.login);
      if (accountSeq === undefined) return "no account";
      const active = countActive.get(accountSeq) ?? 0;
      if (!hasRoomBeside(active, key.activeMax)) return "limit reached";
      insertKey.run({ ...key, accountSeq });
      return "created";
    },

    revokeKey: (change) => revoke.get(change) ?? null,

    touchKeys(uses) {
      for (const use of uses) touch.run(use);
    },

    rotateSecret(rotation) {
      if (rotate.run(rotation).changes > 0) return "rotating";
      return selectSeq.get(rotation.login) === undefined ? "no account" : "already rotating";
    },

    finishRotation({ login }) {
      if (finish.run(login).changes > 0) return "finished";
      return selectSeq.get(login) === undefined ? "no account" : "not rotating";
    },
  } satisfies Steps;
}

/** SQLite takes a negative LIMIT for none. */
const NO_LIMIT = -1;

export function accountReads(connection: Connection) {
  const selectAccounts = connection.prepare<[], Account>(SELECT_ACCOUNTS);
  const selectSecond = connection.prepare(SELECT_SECOND);
  const selectSeq = connection.prepare<[string], number>(SELECT_ACCOUNT_SEQ).pluck();
  const selectActive = connection.prepare<[number], KeyRow>(SELECT_ACTIVE_KEYS);
  const selectRevoked = connection.prepare<[number, number], KeyRow>(SELECT_REVOKED_KEYS);
  const selectKeyHolder = connection.prepare<[string], KeyHolderRow>(SELECT_KEY_HOLDER);
  const selectAccount = connection.prepare<[string], AccountStateRow>(SELECT_ACCOUNT);
  const selectSecrets = connection.prepare<[string], WebhookSecrets>(SELECT_SECRETS);
  const selectData = connection.prepare<[number], WebhookSecrets & { login: string }>(
    SELECT_ACCOUNT_DATA,
  );
  const { countTasks, findUsage } = taskCountReads(connection);

  function keysOf(accountSeq: number, revokedMax: number): readonly Key[] {
    const rows = [...selectActive.all(accountSeq), ...selectRevoked.all(accountSeq, revokedMax)];
    return rows.sort((a, b) => a.seq - b.seq).map(({ seq: _seq, ...key }) => key);
  }

  return {
    listAccounts: () => selectAccounts.all(),
    hasSeveralAccounts: () => selectSecond.get() !== undefined,

    findAccount(login) {
      const row = selectAccount.get(login);
      if (row === undefined) return null;
      const { accountId, createdAt, disabledAt } = row;
      const isRotating = row.isRotating === 1;
      return { accountId, login, createdAt, disabledAt, isRotating, ownLimits: toOwnLimits(row) };
    },

    // Both reads see one moment: a key that is revoked between two would be in both or in neither.
    listKeys: connection.transaction((login: string) => {
      const seq = selectSeq.get(login);
      return seq === undefined ? null : keysOf(seq, NO_LIMIT);
    }),

    findAccountData: connection.transaction((query: { accountId: number; revokedMax: number }) => {
      const { accountId, revokedMax } = query;
      const row = selectData.get(accountId);
      if (row === undefined) return null;
      const keys = keysOf(accountId, revokedMax);
      return { ...row, keys, taskCounts: countTasks(accountId), usage: findUsage(accountId) };
    }),

    findSecrets: (login) => selectSecrets.get(login) ?? null,

    findKeyHolder(keyHash) {
      const row = selectKeyHolder.get(keyHash);
      return row === undefined ? null : toKeyHolder(row);
    },
  } satisfies Steps;
}
