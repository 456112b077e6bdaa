import type { DaemonFile } from "../kit/daemon-file.ts";
import { startDaemon } from "../kit/daemon-file.ts";
import { copyRows, editDatabase } from "../kit/database-edit.ts";
import { fillDatabase } from "../kit/fill-tasks.ts";

/** What a file holds before it is measured. */
export interface Filling {
  readonly tasks: number;
  /** Deliveries whose first attempt failed and that are due in an hour; at most 0.9 of the tasks. */
  readonly retries: number;
  readonly accounts: number;
  readonly hosts: number;
}

/** What the configuration of that file needs: one account posts all tasks. */
export const ROOM = "\n[limits.account]\nopen_tasks = 0\n";

const HOUR_MS = 3_600_000;
/** Enough to be counted; nobody's limit is near. */
const BYTES_PER_TASK = 500;

/**
 * Fills a daemon's file. The daemon itself takes in and runs the tasks, of one account; half of them are then given to
 * the others, and the retries are made, in SQL, because the rest of that way would take an hour.
 */
export async function fillFile(file: DaemonFile, filling: Filling): Promise<void> {
  await using daemon = await startDaemon(file);
  await fillDatabase({ file, daemon, tasks: filling.tasks });
  await daemon.stop();
  editDatabase(file.database, (database) => {
    const times = filling.accounts - 1;
    const anew = { seq: "NULL", login: "login || n.i" };
    copyRows(database, { table: "accounts", where: "accounts.seq = 1", times, anew });
    database.exec(spreadSql(filling));
    database.exec(retriesSql(filling, Date.now()));
    database.exec(COUNT_SQL);
  });
}

function spreadSql({ accounts }: Filling): string {
  return `UPDATE tasks SET account_seq = 1 + seq % ${accounts} WHERE seq % 2 = 0;`;
}

function retriesSql({ retries, hosts }: Filling, now: number): string {
  const failed = `${now}, ${now}, 'failed', 500, 'answered 500'`;
  return `
    INSERT INTO deliveries (task_seq, kind, url, host, state)
      SELECT seq, 'postback', 'https://h' || (seq % ${hosts}) || '.example/', 'h' || (seq % ${hosts}) || '.example', 'open'
      FROM tasks WHERE state = 'completed' ORDER BY seq LIMIT ${retries};
    INSERT INTO attempts
        (account_seq, task_seq, kind, number, retry, host, due_at, started_at, ended_at, outcome, http_status, error)
      SELECT account_seq, task_seq, kind, 1, 0, host, ${now}, ${failed}
      FROM deliveries JOIN tasks ON seq = task_seq;
    INSERT INTO attempts (account_seq, task_seq, kind, number, retry, host, due_at)
      SELECT account_seq, task_seq, kind, 2, 1, host, ${now + HOUR_MS} + task_seq
      FROM deliveries JOIN tasks ON seq = task_seq;`;
}

const COUNT_SQL = `
  DELETE FROM task_counts;
  INSERT INTO task_counts SELECT account_seq, state, count(*) FROM tasks GROUP BY account_seq, state;
  INSERT INTO task_counts SELECT account_seq, 'ready', sum(ready) FROM tasks GROUP BY account_seq;
  INSERT INTO task_counts SELECT account_seq, 'bytes', ${BYTES_PER_TASK} * count(*) FROM tasks GROUP BY account_seq;
  INSERT INTO task_counts
    SELECT account_seq, 'retrying', count(*) FROM attempts WHERE started_at IS NULL GROUP BY account_seq;
  INSERT INTO host_counts (account_seq, host, retrying)
    SELECT account_seq, host, count(*) FROM attempts WHERE started_at IS NULL GROUP BY account_seq, host;`;
