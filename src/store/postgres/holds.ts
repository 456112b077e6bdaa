import type { Account } from "../../domain/account/account.ts";
import { toTaskCounts } from "../../domain/stats/work-counts.ts";
import type { Store } from "../store.ts";
import { ACCOUNT_COLUMNS } from "./accounts.ts";
import { readWorkCounts } from "./counts.ts";
import type { BatchSql, ReadSql, Sql } from "./machine/sql.ts";
import type { NodeMemory } from "./scan-starts.ts";
import { each, type SetSteps } from "./steps.ts";

// Whoever takes the next number waits until this one is visible: so nobody who has read a change overlooks an earlier
// one. Comes before the lock of an account's row, so that two of them do not wait for each other.
const LOCK_HOLD_CHANGES = `LOCK TABLE hold_changes IN EXCLUSIVE MODE`;

/** Leaves an account that is already as wished: then nobody need hear of it. A change has a number above all earlier ones. */
const CHANGE_HOLD = `
  WITH changed AS (
    UPDATE accounts SET disabled_at = $2
    WHERE login = $1 AND (disabled_at IS NULL) = ($2::bigint IS NOT NULL)
    RETURNING seq
  )
  INSERT INTO hold_changes (account_seq) SELECT seq FROM changed
  ON CONFLICT (account_seq) DO UPDATE SET seq = excluded.seq`;

/** Ends the sessions of its active keys: those of revoked keys have ended already. */
const END_ACCOUNT_SESSIONS = `
  DELETE FROM sessions
  WHERE key_seq IN (
    SELECT k.seq FROM keys AS k JOIN accounts AS a ON a.seq = k.account_seq
    WHERE a.login = $1 AND k.revoked_at IS NULL
  )`;

const SELECT_ACCOUNT = `SELECT ${ACCOUNT_COLUMNS} FROM accounts WHERE login = $1`;

const LIST_HOLD_CHANGES = `
  SELECT h.seq, h.account_seq AS "accountId", a.disabled_at IS NOT NULL AS "isDisabled"
  FROM hold_changes AS h JOIN accounts AS a ON a.seq = h.account_seq
  WHERE h.seq > $1
  ORDER BY h.seq`;

/** Counts scheduled attempts. The cost grows with the account's queue. */
const COUNT_SCHEDULED = `
  SELECT count(*) AS count FROM outbox WHERE started_at IS NULL AND account_seq = $1`;

/** Counts attempts in flight: as many as all nodes make at once. */
const COUNT_IN_FLIGHT = `
  SELECT count(*) AS count FROM outbox WHERE started_at IS NOT NULL AND account_seq = $1`;

interface HoldChangeRow {
  readonly seq: number;
  readonly accountId: number;
  readonly isDisabled: boolean;
}

export function holdWrites(sql: BatchSql) {
  return {
    setAccountDisabled: each(async ({ login, disabledAt }) => {
      sql.send(LOCK_HOLD_CHANGES);
      sql.send(CHANGE_HOLD, [login, disabledAt]);
      if (disabledAt !== null) sql.send(END_ACCOUNT_SESSIONS, [login]);
      return (await sql.get<Account>(SELECT_ACCOUNT, [login])) ?? null;
    }),
  } satisfies SetSteps;
}

export function holdReads(sql: ReadSql, memory: NodeMemory) {
  return {
    async listHoldChanges({ after }) {
      const rows = await sql.all<HoldChangeRow>(LIST_HOLD_CHANGES, [after]);
      // Claims passed over what was disabled.
      if (rows.length > 0) memory.forgetStarts();
      const accounts = rows.map(({ accountId, isDisabled }) => ({ accountId, isDisabled }));
      return { accounts, last: rows.at(-1)?.seq ?? after };
    },
  } satisfies Partial<Store>;
}

export function heldWorkReads(sql: Sql) {
  return {
    async findHeldWork({ accountId }) {
      const [work, scheduled, inFlight] = await Promise.all([
        readWorkCounts(sql, accountId),
        sql.get<{ count: number }>(COUNT_SCHEDULED, [accountId]),
        sql.get<{ count: number }>(COUNT_IN_FLIGHT, [accountId]),
      ]);
      const { queued, running } = toTaskCounts(work);
      return { queued, running, webhooks: (scheduled?.count ?? 0) + (inFlight?.count ?? 0) };
    },
  } satisfies Partial<Store>;
}
