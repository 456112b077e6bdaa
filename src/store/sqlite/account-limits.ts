import type { OwnLimits } from "../../domain/account/quota.ts";
import type { Connection } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";

/** The columns of {@link OwnLimits}; for statements in which no other table has columns of these names. */
export const LIMIT_COLUMNS = `
  bytes_max AS bytes, open_tasks_max AS openTasks, requests_per_minute AS requestsPerMinute,
  tasks_per_minute AS tasksPerMinute`;

export const SELECT_LIMITS = `SELECT ${LIMIT_COLUMNS} FROM accounts WHERE login = ?`;

const UPDATE_LIMITS = `
  UPDATE accounts
  SET bytes_max = @bytes, open_tasks_max = @openTasks, requests_per_minute = @requestsPerMinute,
      tasks_per_minute = @tasksPerMinute
  WHERE login = @login`;

export function accountLimitWrites(connection: Connection) {
  const select = connection.prepare<[string], OwnLimits>(SELECT_LIMITS);
  const update = connection.prepare<[object]>(UPDATE_LIMITS);

  return {
    changeLimits({ login, limits }) {
      const own = select.get(login);
      if (own === undefined) return null;
      const changed = { ...own, ...limits };
      update.run({ login, ...changed });
      return changed;
    },
  } satisfies Steps;
}

/** Takes the limits out of a row that has more. */
export function toOwnLimits(row: OwnLimits): OwnLimits {
  const { bytes, openTasks, requestsPerMinute, tasksPerMinute } = row;
  return { bytes, openTasks, requestsPerMinute, tasksPerMinute };
}
