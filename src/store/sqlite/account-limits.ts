import type { OwnLimits } from "../../domain/account/quota.ts";
import type { LimitChange } from "../store.ts";
import type { Connection } from "./machine/connection.ts";

/** All columns that {@link toOwnLimits} reads; for statements in which no other table has columns of these names. */
export const LIMIT_COLUMNS = `bytes_max, open_tasks_max, requests_per_minute, tasks_per_minute`;

export const SELECT_LIMITS = `SELECT ${LIMIT_COLUMNS} FROM accounts WHERE login = ?`;

const UPDATE_LIMITS = `
  UPDATE accounts
  SET bytes_max = @bytes, open_tasks_max = @openTasks, requests_per_minute = @requestsPerMinute,
      tasks_per_minute = @tasksPerMinute
  WHERE login = @login`;

export interface LimitsRow {
  bytes_max: number | null;
  open_tasks_max: number | null;
  requests_per_minute: number | null;
  tasks_per_minute: number | null;
}

/** The writes on the limits of accounts. Each runs inside the transaction of its batch. */
export function accountLimitWrites(connection: Connection) {
  const select = connection.prepare<[string], LimitsRow>(SELECT_LIMITS);
  const update = connection.prepare<[object]>(UPDATE_LIMITS);

  return {
    changeLimits({ login, limits }: LimitChange): OwnLimits | null {
      const row = select.get(login);
      if (row === undefined) return null;
      const changed = { ...toOwnLimits(row), ...limits };
      update.run({ login, ...changed });
      return changed;
    },
  };
}

/** Converts a row of {@link LIMIT_COLUMNS} into the domain's limits. */
export function toOwnLimits(row: LimitsRow): OwnLimits {
  return {
    bytes: row.bytes_max,
    openTasks: row.open_tasks_max,
    requestsPerMinute: row.requests_per_minute,
    tasksPerMinute: row.tasks_per_minute,
  };
}
