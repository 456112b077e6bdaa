import { startDaemon, type DaemonFile, type DaemonProcess } from "../kit/daemon.ts";
import { copyRows, DatabaseView, editDatabase } from "../kit/database.ts";
import { requestText, servedText } from "../kit/http.ts";
import { sendTimes } from "../kit/load.ts";
import { until } from "../kit/until.ts";

const TASKS_PER_POST = 100;
const RUN_MS_MAX = 600_000;
const INPUT = { source: "s3://uploads/2026/clip.mov", width: 1280, height: 720 };

// `parked` tasks stay queued. An unknown field makes a task that is refused.
const PARTS = [
  { share: 0.9, task: { type: "echo", input: INPUT } },
  { share: 0.05, task: { type: "echo", tag: "tagged", input: INPUT } },
  { share: 0.045, task: { type: "parked", tag: "waiting", input: INPUT } },
  { share: 0.005, task: { type: "echo", colour: "red" } },
];

/** Posts tasks of all states, by 100, and waits until the runs of `echo` are over. */
export async function fillTasks(
  file: DaemonFile,
  daemon: DaemonProcess,
  tasks: number,
): Promise<void> {
  for (const { share, task } of PARTS) {
    const body = JSON.stringify(Array.from({ length: TASKS_PER_POST }, () => task));
    const request = requestText("POST /v1/tasks/task_post", { secret: file.account.key, body });
    const times = Math.ceil((tasks * share) / TASKS_PER_POST);
    await sendTimes(times, { port: daemon.port, request }, servedText);
    process.stderr.write(`  posted ${Math.round(tasks * share)} × ${JSON.stringify(task)}\n`);
  }
  using view = new DatabaseView(file.database);
  const left = "SELECT count(*) FROM tasks WHERE state = 'queued' AND type = 'echo'";
  const fault = (): string => "the tasks were not run in time";
  await until(() => view.number(left) === 0, { msMax: RUN_MS_MAX, everyMs: 500, fault });
}

export interface Filling {
  readonly tasks: number;
  /** Deliveries whose first attempt failed and whose retry is due in an hour; at most 0.9 of the tasks. */
  readonly retries: number;
  readonly accounts: number;
  readonly hosts: number;
}

/** The configuration that a full file needs: one account posts all tasks. */
export const NO_TASK_LIMIT = "\n[limits.account]\nopen_tasks = 0\n";

const HOUR_MS = 3_600_000;
// Any number that is not near a limit.
const BYTES_PER_TASK = 500;

/**
 * Fills a daemon's file. The daemon accepts and runs the tasks, of one account. SQL gives half of them to the other
 * accounts and makes the retries, because the daemon would need an hour for that.
 */
export async function fillFile(file: DaemonFile, filling: Filling): Promise<void> {
  await using daemon = await startDaemon(file);
  await fillTasks(file, daemon, filling.tasks);
  await daemon.stop();
  const { accounts, retries, hosts } = filling;
  const now = Date.now();
  editDatabase(file.database, (database) => {
    const anew = { seq: "NULL", login: "login || n.i" };
    copyRows(database, { table: "accounts", where: "accounts.seq = 1", times: accounts - 1, anew });
    database.exec(`
      UPDATE tasks SET account_seq = 1 + seq % ${accounts} WHERE seq % 2 = 0;
      INSERT INTO deliveries (task_seq, kind, url, host)
        SELECT seq, 'postback', 'https://h' || (seq % ${hosts}) || '.example/', 'h' || (seq % ${hosts}) || '.example'
        FROM tasks WHERE state = 'completed' ORDER BY seq LIMIT ${retries};
      INSERT INTO attempts
          (account_seq, task_seq, kind, number, retry, host, due_at, started_at, ended_at, outcome, http_status, error)
        SELECT account_seq, task_seq, kind, 1, 0, host, ${now}, ${now}, ${now}, 'failed', 500, 'answered 500'
        FROM deliveries JOIN tasks ON seq = task_seq;
      INSERT INTO attempts (account_seq, task_seq, kind, number, retry, host, due_at)
        SELECT account_seq, task_seq, kind, 2, 1, host, ${now + HOUR_MS} + task_seq
        FROM deliveries JOIN tasks ON seq = task_seq;
      DELETE FROM task_counts;
      INSERT INTO task_counts SELECT account_seq, state, count(*) FROM tasks GROUP BY account_seq, state;
      INSERT INTO task_counts SELECT account_seq, 'ready', sum(ready) FROM tasks GROUP BY account_seq;
      INSERT INTO task_counts SELECT account_seq, 'bytes', ${BYTES_PER_TASK} * count(*) FROM tasks GROUP BY account_seq;
      INSERT INTO task_counts
        SELECT account_seq, 'retrying', count(*) FROM attempts WHERE started_at IS NULL GROUP BY account_seq;
      INSERT INTO host_counts (account_seq, host, retrying)
        SELECT account_seq, host, count(*) FROM attempts WHERE started_at IS NULL GROUP BY account_seq, host;`);
  });
}
