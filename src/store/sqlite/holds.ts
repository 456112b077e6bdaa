import type { Account } from "../../domain/account/account.ts";
import { ACCOUNT_COLUMNS } from "./accounts.ts";
import { taskCountReads } from "./counts.ts";
import type { Connection } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";

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

const SELECT_ACCOUNT = `SELECT ${ACCOUNT_COLUMNS} FROM accounts WHERE login = ?`;

export const LIST_HOLD_CHANGES = `
  SELECT h.seq, h.account_seq AS accountId, a.disabled_at IS NOT NULL AS isDisabled
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

interface HoldChangeRow {
  readonly seq: number;
  readonly accountId: number;
  readonly isDisabled: 0 | 1;
}

export function holdWrites(connection: Connection) {
  const disable = connection.prepare<[object], number>(DISABLE_ACCOUNT).pluck();
  const enable = connection.prepare<[object], number>(ENABLE_ACCOUNT).pluck();
  const noteChange = connection.prepare<[number]>(NOTE_HOLD_CHANGE);
  const endSessions = connection.prepare<[string]>(END_ACCOUNT_SESSIONS);
  const select = connection.prepare<[string], Account>(SELECT_ACCOUNT);

  return {
    setAccountDisabled(change) {
      const isDisabling = change.disabledAt !== null;
      const changed = isDisabling ? disable.get(change) : enable.get(change);
      if (changed !== undefined) noteChange.run(changed);
      if (isDisabling) endSessions.run(change.login);
      return select.get(change.login) ?? null;
    },
  } satisfies Steps;
}

export function holdReads(connection: Connection) {
  const listChanges = connection.prepare<[number], HoldChangeRow>(LIST_HOLD_CHANGES);

  return {
    listHoldChanges({ after }) {
      const rows = listChanges.all(after);
      const accounts = rows.map((row) => ({
        accountId: row.accountId,
        isDisabled: row.isDisabled === 1,
      }));
      return { accounts, last: rows.at(-1)?.seq ?? after };
    },
  } satisfies Steps;
}

export function heldWorkReads(connection: Connection) {
  const countWebhooks = connection.prepare<[object], number>(COUNT_OPEN_WEBHOOKS).pluck();
  const { countTasks } = taskCountReads(connection);

  return {
    // All reads see one moment: a task that ended between two would be counted both as running and by its webhook.
    findHeldWork: connection.transaction(({ accountId }: { accountId: number }) => {
      const { queued, running } = countTasks(accountId);
      return { queued, running, webhooks: countWebhooks.get({ accountId }) ?? 0 };
    }),
  } satisfies Steps;
}
