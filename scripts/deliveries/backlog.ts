import { Caller } from "../kit/caller.ts";
import { startDaemon, type DaemonFile } from "../kit/daemon-file.ts";
import { NEW_ID, copyRows, editDatabase } from "../kit/database-edit.ts";
import { DatabaseView } from "../kit/database-view.ts";
import { benchInput } from "../kit/request.ts";
import { until } from "../kit/until.ts";
import { tagText } from "./arrivals.ts";

/** Retries that are in a file before its daemon starts. */
export interface Backlog {
  readonly retries: number;
  /** They answer 500 while the file is filled. */
  readonly hosts: readonly string[];
  readonly port: number;
  /** They fall due evenly over so many milliseconds. */
  readonly spreadMs: number;
  /** Which retries of their series they are, in turn. */
  readonly retryNumbers: readonly number[];
}

const FAILED_MS_MAX = 30_000;

/**
 * Fills a daemon's file with tasks whose first postback failed and is to be sent again: copies of one for each host,
 * which the daemon itself has run and sent. The first retry is due at 0: see {@link moveBacklog}.
 */
export async function fillBacklog(file: DaemonFile, backlog: Backlog): Promise<void> {
  const hosts = backlog.hosts.slice(0, backlog.retries);
  await failOnce(
    file,
    hosts.map((host) => `http://${host}:${backlog.port}/postback`),
  );
  const times = Math.ceil(backlog.retries / hosts.length) - 1;
  editDatabase(file.database, (database) => {
    const copy = (
      table: string,
      seq: string,
      anew: Readonly<Record<string, string>> = {},
    ): void => {
      const copied = `${seq} + n.i * ${hosts.length}`;
      const where = `${copied} <= ${backlog.retries}`;
      copyRows(database, { table, where, times, anew: { ...anew, [seq]: copied } });
    };
    copy("tasks", "seq", { id: NEW_ID });
    for (const table of ["task_inputs", "task_results", "deliveries"]) copy(table, "task_seq");
    copy("attempts", "task_seq", { seq: "NULL" });
    database.exec(spreadSql(backlog, hosts.length));
  });
  using view = new DatabaseView(file.database);
  const waiting = view.number("SELECT count(*) FROM attempts WHERE started_at IS NULL");
  if (waiting !== backlog.retries) throw new Error(`${waiting} retries are in the file`);
}

/** Posts a task for each URL, and settles when the first attempt of each has failed. */
async function failOnce(file: DaemonFile, urls: readonly string[]): Promise<void> {
  await using daemon = await startDaemon(file);
  const task = { type: "echo", tag: tagText({ kind: "retry", at: 0 }), input: benchInput() };
  const tasks = urls.map((url) => ({ ...task, postback_url: url }));
  await Caller.withKey(daemon.url, file.account.key).postAll(tasks);
  using view = new DatabaseView(file.database);
  const failed = "SELECT count(*) FROM attempts WHERE retry = 1 AND started_at IS NULL";
  const haveFailed = (): boolean => view.number(failed) === urls.length;
  const fault = (): string => "the deliveries to be sent again have not failed";
  await until(haveFailed, { msMax: FAILED_MS_MAX, fault });
  await daemon.stop();
}

/** Gives each task its time, in its tag too, and counts what was copied. */
function spreadSql({ retries, spreadMs, retryNumbers }: Backlog, made: number): string {
  const dueAt = (seq: string): string => `(${seq} - 1) * ${Math.round(spreadMs)} / ${retries}`;
  return `
    UPDATE tasks SET tag = 'retry ' || (${dueAt("seq")}),
      data_text = replace(data_text, '"retry 0"', '"retry ' || (${dueAt("seq")}) || '"');
    UPDATE attempts SET due_at = ${dueAt("task_seq")},
      retry = json_extract('${JSON.stringify(retryNumbers)}', '$[' || (task_seq % ${retryNumbers.length}) || ']')
      WHERE started_at IS NULL;
    UPDATE task_counts SET count = count * ${retries} / ${made};
    UPDATE host_counts SET retrying = (
      SELECT count(*) FROM attempts WHERE attempts.host = host_counts.host AND started_at IS NULL);`;
}

/** Has the first retry due at that time, in epoch milliseconds, and the others after it. */
export function moveBacklog(file: DaemonFile, firstDueAt: number): void {
  editDatabase(file.database, (database) => {
    const move = "UPDATE attempts SET due_at = due_at + ? WHERE started_at IS NULL";
    database.prepare(move).run(firstDueAt);
  });
}
