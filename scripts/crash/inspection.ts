import { DatabaseView } from "../database-view.ts";

/** What a database looks like after the crashes. */
export interface Inspection {
  /** What must never be, in words. */
  readonly faults: readonly string[];
  readonly tasks: number;
  /** Tasks that were on disk when the daemon died before it could say so. */
  readonly unacknowledged: number;
  /** Tasks that were started more than once. */
  readonly rerun: number;
  /** Attempts that a crash cut off: their outcome is unknown, so they were made again. */
  readonly interrupted: number;
}

/** Compares the database of a daemon that has finished and stopped with the ids that it acknowledged. */
export function inspectDatabase(file: string, acknowledged: ReadonlySet<string>): Inspection {
  using view = new DatabaseView(file);
  const completed = view.column("SELECT id FROM tasks WHERE state = 'completed'");
  const found = new Set(completed);
  const lost = [...acknowledged].filter((id) => !found.has(id));
  const count = (what: string): number => view.number(`SELECT count(*) FROM ${what}`);
  const tasks = count("tasks");
  const faults = [
    ...checkIntegrity(view),
    fault(lost.length, `acknowledged tasks are not completed, ${lost[0] ?? ""} for one`),
    fault(completed.length - found.size, "ids stand twice in the database"),
    fault(tasks - completed.length, "tasks are not completed"),
    fault(count("deliveries WHERE state <> 'delivered'"), "deliveries are not over"),
    fault(count("attempts WHERE ended_at IS NULL"), "attempts have no end"),
  ].filter((text) => text !== "");
  const rerun = count("tasks WHERE runs > 1");
  const interrupted = count("attempts WHERE outcome = 'interrupted'");
  return { faults, tasks, unacknowledged: tasks - acknowledged.size, rerun, interrupted };
}

function checkIntegrity(view: DatabaseView): readonly string[] {
  const findings = view.column("PRAGMA integrity_check").filter((finding) => finding !== "ok");
  const orphans = view.column("PRAGMA foreign_key_check").length;
  return [...findings.map(String), fault(orphans, "rows refer to rows that are not there")];
}

function fault(count: number, text: string): string {
  return count === 0 ? "" : `${count} ${text}`;
}
