import Database from "better-sqlite3";
import { z } from "zod";

import { DatabaseView } from "../kit/database-view.ts";
import { until } from "../kit/until.ts";
import type { Target } from "./target.ts";

const FINISHED_MS_MAX = 60_000;

const column = z.object({ name: z.string() });

/**
 * Gives an account so many finished, uncollected tasks, all with one tag: copies of one that the daemon itself made,
 * whatever columns it has. Posting them would take longer than the whole measurement.
 */
export async function fillReady(
  target: Target,
  { login, tag, tasks }: { readonly login: string; readonly tag: string; readonly tasks: number },
): Promise<void> {
  await target.start();
  const [id = ""] = await target.post(login, [{ type: "echo", tag, input: {} }]);
  await untilReady(target.database);
  await target.daemon.stop();
  const database = new Database(target.database);
  try {
    const columns = z.array(column).parse(database.pragma("table_info(tasks)"));
    const names = columns.map(({ name }) => name);
    const copied = names.filter((name) => name !== "seq" && name !== "id");
    const copies = database.prepare(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
      INSERT INTO tasks (id, ${copied.join(", ")})
      SELECT printf('%s%012x', substr(id, 1, 24), i), ${copied.join(", ")} FROM tasks, n WHERE id = ?`,
    );
    const counts = database.prepare(
      `UPDATE task_counts SET count = count + ?
      WHERE state IN ('completed', 'ready') AND account_seq = (SELECT account_seq FROM tasks WHERE id = ?)`,
    );
    database.transaction(() => {
      copies.run(tasks, id);
      counts.run(tasks, id);
    })();
  } finally {
    database.close();
  }
}

/** Not by asking the daemon for the task: that would collect it. */
async function untilReady(database: string): Promise<void> {
  using view = new DatabaseView(database);
  const ready = "SELECT count(*) FROM tasks WHERE ready = 1";
  const fault = (): string => "the task to copy was not finished";
  await until(() => view.number(ready) > 0, { msMax: FINISHED_MS_MAX, fault });
}
