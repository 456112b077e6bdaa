import type { Account } from "../../domain/account/account.ts";
import { toTaskCounts } from "../../domain/stats/work-counts.ts";
import type { WriteRules } from "../common/write-rule.ts";
import { ACCOUNT_COLUMNS } from "./accounts.ts";
import { eachDialect, onlyPostgres, statement, type Flag } from "./statement.ts";
import { all, get, send, together, type StoreUseCases, type UseCase } from "./use-case.ts";
import { countWork } from "./work-counts.ts";

// The next number is given only after this one is visible, so a reader of a change never misses an earlier change.
// This lock comes before the lock of the account, so that two batches do not wait for each other.
const LOCK_CHANGES = onlyPostgres(`LOCK TABLE suspension_changes IN EXCLUSIVE MODE`);

/** Changes nothing, and records no change, if the account already has that state. */
const CHANGE_ACCOUNT = statement(`
  UPDATE accounts SET disabled_at = @disabledAt
  WHERE login = @login AND (disabled_at IS NULL) = (@disabledAt::bigint IS NOT NULL)
  RETURNING seq`);

/** Each change has a number of its own, above all earlier ones. */
const NOTE_CHANGE = eachDialect({
  sqlite: `INSERT OR REPLACE INTO suspension_changes (account_seq) VALUES (@seq)`,
  postgres: `
    INSERT INTO suspension_changes (account_seq) VALUES (@seq)
    ON CONFLICT (account_seq) DO UPDATE SET seq = excluded.seq`,
});

/** Ends the sessions of the account's active keys. A revoked key has no sessions. */
export const END_ACCOUNT_SESSIONS = statement(`
  DELETE FROM sessions
  WHERE key_seq IN (
    SELECT seq FROM keys
    WHERE account_seq = (SELECT seq FROM accounts WHERE login = @login) AND revoked_at IS NULL
  )`);

const SELECT_ACCOUNT = statement(`SELECT ${ACCOUNT_COLUMNS} FROM accounts WHERE login = @login`);

// CROSS JOIN keeps SQLite from going through all accounts.
const listChanges = (join: string): string => `
  SELECT h.seq, h.account_seq AS "accountId", a.disabled_at IS NOT NULL AS "isDisabled"
  FROM suspension_changes AS h ${join} accounts AS a ON a.seq = h.account_seq
  WHERE h.seq > @after
  ORDER BY h.seq`;

export const LIST_SUSPENSION_CHANGES = eachDialect({
  sqlite: listChanges("CROSS JOIN"),
  postgres: listChanges("JOIN"),
});

/** Counts scheduled attempts and those in flight. The cost grows with the account's queue. */
export const COUNT_OPEN_WEBHOOKS = eachDialect({
  sqlite: `
    SELECT
      (
        SELECT count(*) FROM attempts INDEXED BY attempts_due
        WHERE started_at IS NULL AND account_seq = @accountId
      ) + (
        SELECT count(*) FROM attempts INDEXED BY attempts_in_flight
        WHERE started_at IS NOT NULL AND ended_at IS NULL AND account_seq = @accountId
      ) AS count`,
  postgres: `
    SELECT (SELECT count(*) FROM outbox WHERE started_at IS NULL AND account_seq = @accountId)
      + (SELECT count(*) FROM outbox WHERE started_at IS NOT NULL AND account_seq = @accountId) AS count`,
});

export const suspensionWrites = {
  *setAccountDisabled({ login, disabledAt }) {
    yield* send(LOCK_CHANGES);
    const changed = yield* get<{ seq: number }>(CHANGE_ACCOUNT, { login, disabledAt });
    if (changed !== undefined) yield* send(NOTE_CHANGE, { seq: changed.seq });
    if (disabledAt !== null) yield* send(END_ACCOUNT_SESSIONS, { login });
    return (yield* get<Account>(SELECT_ACCOUNT, { login })) ?? null;
  },
} satisfies StoreUseCases;

export const suspensionReads = {
  *listSuspensionChanges({ after }) {
    type Row = { seq: number; accountId: number; isDisabled: Flag };
    const rows = yield* all<Row>(LIST_SUSPENSION_CHANGES, { after });
    const accounts = rows.map(({ accountId, isDisabled }) => ({
      accountId,
      isDisabled: Boolean(isDisabled),
    }));
    return { accounts, last: rows.at(-1)?.seq ?? after };
  },
} satisfies StoreUseCases;

/** The open work of a suspended account. */
export function* findSuspendedWork({ accountId }: { readonly accountId: number }): UseCase<{
  queued: number;
  running: number;
  webhooks: number;
}> {
  const [work, open] = yield* together(
    countWork(accountId),
    get<{ count: number }>(COUNT_OPEN_WEBHOOKS, { accountId }),
  );
  const { queued, running } = toTaskCounts(work);
  return { queued, running, webhooks: open?.count ?? 0 };
}

export const suspendedWorkReads = { findSuspendedWork } satisfies StoreUseCases;

export const suspensionRules = {
  setAccountDisabled: {
    hasEffect: (account, { disabledAt }) => account?.disabledAt === disabledAt,
  },
} satisfies WriteRules;
