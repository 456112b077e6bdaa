import { copyRows, editDatabase, NEW_ID } from "../kit/database-edit.ts";
import { DatabaseView } from "../kit/database-view.ts";
import { until } from "../kit/until.ts";
import type { Target } from "./target.ts";

const FINISHED_MS_MAX = 60_000;

/**
 * Gives an account so many finished, uncollected tasks, all with one tag: copies of one that the daemon itself made.
 */
export async function fillReady(
  target: Target,
  { login, tag, tasks }: { readonly login: string; readonly tag: string; readonly tasks: number },
): Promise<void> {
  await target.start();
  const [id = ""] = await target.post(login, [{ type: "echo", tag, input: {} }]);
  await untilReady(target.database);
  await target.stop();
  editDatabase(target.database, (database) => {
    const where = `id = '${id}'`;
    copyRows(database, { table: "tasks", where, times: tasks, anew: { seq: "NULL", id: NEW_ID } });
    database.exec(
      `UPDATE task_counts SET count = count + ${tasks}
      WHERE state IN ('completed', 'ready') AND account_seq = (SELECT account_seq FROM tasks WHERE ${where})`,
    );
  });
}

/** Not by asking the daemon for the task: that would collect it. */
async function untilReady(database: string): Promise<void> {
  using view = new DatabaseView(database);
  const ready = "SELECT count(*) FROM tasks WHERE ready = 1";
  const fault = (): string => "the task to copy was not finished";
  await until(() => view.number(ready) > 0, { msMax: FINISHED_MS_MAX, fault });
}
