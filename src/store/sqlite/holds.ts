import type { Account } from "../../domain/account/account.ts";
import type { HeldWork, HoldChanges } from "../store.ts";
import type { Connection } from "./machine/connection.ts";
import { taskCountReads } from "./task-counts.ts";

/** Leaves an account that is already as wished: then nobody need hear of it. */
const DISABLE_ACCOUNT = `
  UPDATE accounts SET disabled_at = @disabledAt WHERE login = @login AND disabled_at IS NULL
  RETURNING seq`;

const ENABLE_ACCOUNT = `
  UPDATE accounts SET disabled_at = NULL WHERE login = @login AND disabled_at IS NOT NULL
  RETURNING seq`;

/** Each change has a number of its own, above all earlier ones. */
const NOTE_HOLD_CHANGE = `INSERT OR REPLACE INTO hold_changes (account_seq) VALUES (?)`;

/** Ends the sessions of its active keys: those of revoked keys have ended already. */
export const END_ACCOUNT_SESSIONS = `
  DELETE FROM sessions
  WHERE key_seq IN (
    SELECT seq FROM keys
    WHERE account_seq = (SELECT seq FROM accounts WHERE login = ?) AND revoked_at IS NULL
  )`;

const SELECT_ACCOUNT = `SELECT login, created_at, disabled_at FROM accounts WHERE login = ?`;

export const LIST_HOLD_CHANGES = `
  SELECT h.seq, h.account_seq, a.disabled_at
  FROM hold_changes AS h CROSS JOIN accounts AS a ON a.seq = h.account_seq
  WHERE h.seq > ?
  ORDER BY h.seq`;

/** Counts scheduled attempts and those in flight. The cost grows with the account's queue. */
export const COUNT_OPEN_WEBHOOKS = `
  SELECT
    (
      SELECT count(*) FROM attempts INDEXED BY attempts_due
      WHERE started_at IS NULL AND account_seq = @accountId
    ) + (
      SELECT count(*) FROM attempts INDEXED BY attempts_in_flight
      WHERE started_at IS NOT NULL AND ended_at IS NULL AND account_seq = @accountId
    )`;

/** In a statement: true when the account with this seq is disabled. A look-up in an index that is mostly empty. */
export function isHeld(seq: string): string {
  return `EXISTS (
    SELECT 1 FROM accounts INDEXED BY accounts_disabled WHERE disabled_at IS NOT NULL AND seq = ${seq}
  )`;
}

/** In a statement: the next enabled account after a seq. One seek, however many disabled ones are in between. */
export function nextEnabled(seq: string): string {
  return `(
    SELECT min(seq) FROM accounts INDEXED BY accounts_enabled WHERE disabled_at IS NULL AND seq > ${seq}
  )`;
}

interface AccountRow {
  login: string;
  created_at: number;
  disabled_at: number | null;
}

interface HoldChangeRow {
  seq: number;
  account_seq: number;
  disabled_at: number | null;
}

/** The write that disables and enables accounts. Runs inside the transaction of its batch. */
export function holdWrites(connection: Connection) {
  const disable = connection.prepare<[object], number>(DISABLE_ACCOUNT).pluck();
  const enable = connection.prepare<[object], number>(ENABLE_ACCOUNT).pluck();
  const noteChange = connection.prepare<[number]>(NOTE_HOLD_CHANGE);
  const endSessions = connection.prepare<[string]>(END_ACCOUNT_SESSIONS);
  const select = connection.prepare<[string], AccountRow>(SELECT_ACCOUNT);

  return {
    setAccountDisabled(change: { login: string; disabledAt: number | null }): Account | null {
      const isDisabling = change.disabledAt !== null;
      const changed = isDisabling ? disable.get(change) : enable.get(change);
      if (changed !== undefined) noteChange.run(changed);
      if (isDisabling) endSessions.run(change.login);
      const row = select.get(change.login);
      if (row === undefined) return null;
      return { login: row.login, createdAt: row.created_at, disabledAt: row.disabled_at };
    },
  };
}

/** The read on the accounts that were disabled or enabled. */
export function holdReads(connection: Connection) {
  const listChanges = connection.prepare<[number], HoldChangeRow>(LIST_HOLD_CHANGES);

  return {
    listHoldChanges({ after }: { after: number }): HoldChanges {
      const rows = listChanges.all(after);
      const accounts = rows.map(({ account_seq: accountId, disabled_at: disabledAt }) => ({
        accountId,
        isDisabled: disabledAt !== null,
      }));
      return { accounts, last: rows.at(-1)?.seq ?? after };
    },
  };
}

/** The read on the held work of an account. */
export function heldWorkReads(connection: Connection) {
  const countWebhooks = connection.prepare<[object], number>(COUNT_OPEN_WEBHOOKS).pluck();
  const { countTasks } = taskCountReads(connection);

  // All reads see one moment: a task that ended between two reads would be counted both as running and by its webhook.
  const read = connection.transaction((accountId: number): HeldWork => {
    const { queued, running } = countTasks(accountId);
    return { queued, running, webhooks: countWebhooks.get({ accountId }) ?? 0 };
  });

  return {
    findHeldWork({ accountId }: { accountId: number }): HeldWork {
      return read(accountId);
    },
  };
}
