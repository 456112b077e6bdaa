import type { Account } from "../../domain/account/account.ts";
import type { KeyHolder } from "../../domain/account/credentials.ts";
import { hasRoomBeside, openTasksOf, type OwnLimits } from "../../domain/account/quota.ts";
import { toTaskCounts } from "../../domain/stats/work-counts.ts";
import { rows, type WriteRules } from "../common/write-rule.ts";
import type { AccountState, Key, NewAccount, NewKey, WebhookSecrets } from "../store.ts";
import { eachDialect, lookUp, statement, type Flag } from "./statement.ts";
import { touch, touchOf } from "./touches.ts";
import { all, get, run, send, together, type StoreUseCases, type UseCase } from "./use-case.ts";
import { countWork } from "./work-counts.ts";

/** The columns of an {@link Account}. */
export const ACCOUNT_COLUMNS = `login, created_at AS "createdAt", disabled_at AS "disabledAt"`;

/** The columns of {@link WebhookSecrets}; only accounts have columns of these names. */
export const SECRET_COLUMNS = `
  webhook_secret AS "webhookSecret", webhook_secret_next AS "webhookSecretNext"`;

/** The columns of {@link OwnLimits}; only accounts have columns of these names. */
export const LIMIT_COLUMNS = `
  bytes_max AS bytes, open_tasks_max AS "openTasks", requests_per_minute AS "requestsPerMinute",
  tasks_per_minute AS "tasksPerMinute"`;

const VALUES = `@login, @webhookSecret, @createdAt) ON CONFLICT (login) DO NOTHING RETURNING seq`;

const INSERT_ACCOUNT = eachDialect({
  // Daemons keep facts of an erased account in memory by its seq, so a seq is never used twice.
  sqlite: `
    INSERT INTO accounts (seq, login, webhook_secret, created_at)
    VALUES (1 + max(
      (SELECT coalesce(max(seq), 0) FROM accounts),
      (SELECT coalesce(max(last_seq), 0) FROM erased_accounts)
    ), ${VALUES}`,
  postgres: `INSERT INTO accounts (login, webhook_secret, created_at) VALUES (${VALUES}`,
});

const SELECT_SEQ = statement(`SELECT seq FROM accounts WHERE login = @login`);

/** Locks the account: until the batch ends, no other batch changes it or counts its rows. */
const LOCK_ACCOUNT = statement(`SELECT seq FROM accounts WHERE login = @login FOR NO KEY UPDATE`);

const INSERT_KEY = statement(`
  INSERT INTO keys (key_id, account_seq, hash, last_four, label, created_at)
  VALUES (@keyId, @accountId, @hash, @lastFour, @label, @createdAt)`);

// After the lock: a statement sees what was committed when it begins.
export const COUNT_ACTIVE_KEYS = statement(`
  SELECT count(*) AS active FROM keys
  WHERE account_seq = (SELECT seq FROM accounts WHERE login = @login) AND revoked_at IS NULL`);

const KEY_COLUMNS = `
  key_id AS "keyId", last_four AS "lastFour", label, created_at AS "createdAt", last_used_at AS "lastUsedAt",
  revoked_at AS "revokedAt"`;

export const REVOKE_KEY = statement(`
  UPDATE keys SET revoked_at = coalesce(revoked_at, @revokedAt)
  WHERE key_id = @keyId AND (@accountId::bigint IS NULL OR account_seq = @accountId)
  RETURNING ${KEY_COLUMNS}`);

export const TOUCH_KEYS = touchOf({
  table: "keys",
  key: "key_id",
  keyType: "text",
  time: "last_used_at",
});

const ROTATE_SECRET = statement(`
  UPDATE accounts SET webhook_secret_next = @next WHERE login = @login AND webhook_secret_next IS NULL`);

const FINISH_ROTATION = statement(`
  UPDATE accounts SET webhook_secret = webhook_secret_next, webhook_secret_next = NULL
  WHERE login = @login AND webhook_secret_next IS NOT NULL`);

export const LOCK_LIMITS = statement(
  `SELECT ${LIMIT_COLUMNS} FROM accounts WHERE login = @login FOR NO KEY UPDATE`,
);

const UPDATE_LIMITS = statement(`
  UPDATE accounts
  SET bytes_max = @bytes, open_tasks_max = @openTasks, requests_per_minute = @requestsPerMinute,
      tasks_per_minute = @tasksPerMinute
  WHERE login = @login`);

const SELECT_ACCOUNTS = statement(`SELECT ${ACCOUNT_COLUMNS} FROM accounts ORDER BY login`);
const SELECT_SECOND = statement(`SELECT 1 FROM accounts LIMIT 1 OFFSET 1`);

const SELECT_ACCOUNT = statement(`
  SELECT seq AS "accountId", ${ACCOUNT_COLUMNS}, webhook_secret_next IS NOT NULL AS "isRotating",
    ${LIMIT_COLUMNS}
  FROM accounts WHERE login = @login`);

const SELECT_SECRETS = statement(`SELECT ${SECRET_COLUMNS} FROM accounts WHERE login = @login`);

export const SELECT_ACCOUNT_DATA = statement(
  `SELECT login, ${SECRET_COLUMNS} FROM accounts WHERE seq = @accountId`,
);

// All active keys, of which there are few, and the last revoked ones. In one statement: a key that is revoked between
// two would be in both or in neither.
export const SELECT_KEYS = statement(`
  SELECT ${KEY_COLUMNS} FROM (
    SELECT * FROM keys WHERE account_seq = @accountId AND revoked_at IS NULL
    UNION ALL SELECT * FROM (
      SELECT * FROM keys WHERE account_seq = @accountId AND revoked_at IS NOT NULL
      ORDER BY revoked_at DESC, seq DESC
      LIMIT @revokedMax
    ) AS r
  ) AS k
  ORDER BY seq`);

interface KeyHolderRow extends Pick<KeyHolder, "accountId" | "login" | "keyId">, OwnLimits {
  readonly revokedAt: number | null;
  readonly disabledAt: number | null;
}

/** Runs for every request: two index look-ups. */
export const FIND_KEY_HOLDER = lookUp<KeyHolderRow, KeyHolder>(
  {
    columns: `
      a.seq AS "accountId", a.login, k.key_id AS "keyId", k.revoked_at AS "revokedAt",
      a.disabled_at AS "disabledAt", ${LIMIT_COLUMNS}`,
    from: `keys AS k JOIN accounts AS a ON a.seq = k.account_seq`,
    key: "k.hash",
  },
  (row) => {
    const { accountId, login, keyId, revokedAt, disabledAt } = row;
    const keyRevoked = revokedAt !== null;
    const accountDisabled = disabledAt !== null;
    return { accountId, login, keyId, keyRevoked, accountDisabled, ownLimits: toOwnLimits(row) };
  },
);

interface Seq {
  readonly seq: number;
}

export const accountWrites = {
  *createAccount(account) {
    return (yield* makeAccount(account)) === null ? "exists" : "created";
  },

  *changeLimits({ login, limits }) {
    const own = yield* get<OwnLimits>(LOCK_LIMITS, { login });
    if (own === undefined) return null;
    const changed = { ...own, ...limits };
    yield* send(UPDATE_LIMITS, { login, ...changed });
    return changed;
  },

  *createKey(key) {
    const { login, activeMax } = key;
    const [account, count] = yield* together(
      get<Seq>(LOCK_ACCOUNT, { login }),
      get<{ active: number }>(COUNT_ACTIVE_KEYS, { login }),
    );
    if (account === undefined) return "no account";
    if (!hasRoomBeside(count?.active ?? 0, activeMax)) return "limit reached";
    yield* insertKey(key, account.seq);
    return "created";
  },

  *revokeKey({ keyId, accountId, revokedAt }) {
    return (yield* get<Key>(REVOKE_KEY, { keyId, accountId, revokedAt })) ?? null;
  },

  *rotateSecret({ login, next }) {
    if ((yield* run(ROTATE_SECRET, { login, next })) > 0) return "rotating";
    return (yield* findSeq(login)) === null ? "no account" : "already rotating";
  },

  *finishRotation({ login }) {
    if ((yield* run(FINISH_ROTATION, { login })) > 0) return "finished";
    return (yield* findSeq(login)) === null ? "no account" : "not rotating";
  },
} satisfies StoreUseCases;

export const keyTouches = {
  *touchKeys(uses) {
    yield* touch(
      TOUCH_KEYS,
      uses.map(({ keyId, usedAt }) => ({ key: keyId, time: usedAt })),
    );
  },
} satisfies StoreUseCases;

/** Makes an account with its first key; returns its number, or null if the login is taken. */
export function* makeAccount(account: NewAccount): UseCase<number | null> {
  const { login, webhookSecret, createdAt, firstKey } = account;
  const made = yield* get<Seq>(INSERT_ACCOUNT, { login, webhookSecret, createdAt });
  if (made === undefined) return null;
  yield* insertKey({ ...firstKey, createdAt }, made.seq);
  return made.seq;
}

function* insertKey(key: Omit<NewKey, "login" | "activeMax">, accountId: number): UseCase<void> {
  const { keyId, hash, lastFour, label, createdAt } = key;
  yield* send(INSERT_KEY, { keyId, accountId, hash, lastFour, label, createdAt });
}

function* findSeq(login: string): UseCase<number | null> {
  return (yield* get<Seq>(SELECT_SEQ, { login }))?.seq ?? null;
}

export const accountReads = {
  *listAccounts() {
    return yield* all<Account>(SELECT_ACCOUNTS);
  },

  *hasSeveralAccounts() {
    return (yield* get(SELECT_SECOND)) !== undefined;
  },

  *findAccount(login) {
    type Row = Omit<AccountState, "isRotating" | "ownLimits"> & { isRotating: Flag } & OwnLimits;
    const row = yield* get<Row>(SELECT_ACCOUNT, { login });
    if (row === undefined) return null;
    const { accountId, createdAt, disabledAt } = row;
    const isRotating = Boolean(row.isRotating);
    return { accountId, login, createdAt, disabledAt, isRotating, ownLimits: toOwnLimits(row) };
  },

  *listKeys(login) {
    const accountId = yield* findSeq(login);
    return accountId === null ? null : yield* listKeys(accountId, Number.MAX_SAFE_INTEGER);
  },

  *findAccountData({ accountId, revokedMax }) {
    const [row, keys, counts] = yield* together(
      get<WebhookSecrets & { login: string }>(SELECT_ACCOUNT_DATA, { accountId }),
      listKeys(accountId, revokedMax),
      countWork(accountId),
    );
    if (row === undefined) return null;
    const usage = { bytes: counts.bytes, openTasks: openTasksOf(counts) };
    return { ...row, keys, taskCounts: toTaskCounts(counts), usage };
  },

  *findSecrets(login) {
    return (yield* get<WebhookSecrets>(SELECT_SECRETS, { login })) ?? null;
  },
} satisfies StoreUseCases;

function listKeys(accountId: number, revokedMax: number): UseCase<readonly Key[]> {
  return all<Key>(SELECT_KEYS, { accountId, revokedMax });
}

/** Takes the limits out of a row that has more. */
export function toOwnLimits(row: OwnLimits): OwnLimits {
  const { bytes, openTasks, requestsPerMinute, tasksPerMinute } = row;
  return { bytes, openTasks, requestsPerMinute, tasksPerMinute };
}

export const accountRules = {
  createAccount: { hasEffect: (outcome) => outcome === "created" },
  changeLimits: { hasEffect: (limits) => limits !== null },
  createKey: { hasEffect: (outcome) => outcome === "created" },
  revokeKey: { hasEffect: (key, { revokedAt }) => key?.revokedAt === revokedAt },
  touchKeys: { weight: (uses) => rows(uses.length) },
  rotateSecret: { hasEffect: (outcome) => outcome === "rotating" },
  finishRotation: { hasEffect: (outcome) => outcome === "finished" },
} satisfies WriteRules;
