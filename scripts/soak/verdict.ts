import { isDeepStrictEqual } from "node:util";

import { z } from "zod";

import { ApiClient } from "../kit/api-client.ts";
import type { NewAccount } from "../kit/daemon-process.ts";
import { DatabaseView } from "../kit/database-view.ts";
import { explainArrivals, recordedAttempts } from "./duplicates.ts";
import { judgeLeasedRun, judgeOwnRun, type ShownTask } from "./ending-judge.ts";
import { inspectFinished } from "./inspection.ts";
import { judgeLeases } from "./lease-judge.ts";
import type { LeaseLedger } from "./lease-ledger.ts";
import type { Ledger } from "./ledger.ts";
import { COMMAND_RETRIES, LEASE_TYPES, countStarts } from "./setup.ts";
import type { BookedTask } from "./soak-client.ts";

/** All that was seen and promised while a soak went on. */
export interface SoakEvidence {
  readonly database: string;
  /** The folder of the daemon. */
  readonly folder: string;
  /** One for each account. */
  readonly ledgers: readonly Ledger[];
  readonly leases: LeaseLedger;
  readonly book: ReadonlyMap<string, BookedTask>;
  /** When each killed daemon was gone, in epoch milliseconds. */
  readonly killedAt: readonly number[];
}

/** The contents of the database in the end. */
export interface SoakTally {
  readonly completed: number;
  readonly failed: number;
  readonly cancelled: number;
  /** Started more than once. */
  readonly rerun: number;
  /** Webhooks that came twice, each explained by a kill. */
  readonly duplicates: number;
  /** Everything that must never be, in words. */
  readonly faults: readonly string[];
}

/** Holds the database of a daemon that has finished and stopped against all that was seen. */
export function judgeSoak(evidence: SoakEvidence): SoakTally {
  const { database, ledgers, killedAt, book } = evidence;
  const tasks = [...shownTasks(database)];
  const found = new Set(tasks.map(({ id }) => id));
  const lost = [...book.keys()].filter((id) => !found.has(id));
  const arrivals = ledgers.flatMap((ledger) => ledger.arrivals);
  const attempts = recordedAttempts(database);
  const explanation = explainArrivals({ arrivals, attempts, killedAt });
  const promised = new Map(ledgers.flatMap((ledger) => [...ledger.promised]));
  const faults = [
    ...lost.map((id) => `${id} was acknowledged and is lost`),
    ...judgeTasks(tasks, evidence),
    ...evidence.leases.faults,
    ...ledgers.flatMap((ledger) => ledger.faults),
    ...inspectFinished(database, { cancelled: allCancelled(ledgers), promised }),
    ...explanation.faults,
  ];
  const count = (state: string): number => tasks.filter((task) => task.state === state).length;
  return {
    completed: count("completed"),
    failed: count("failed"),
    cancelled: count("cancelled"),
    rerun: tasks.filter(({ runs }) => runs > 1).length,
    duplicates: explanation.duplicates,
    faults,
  };
}

/** Tasks of all accounts whose cancelling was acknowledged. */
export function allCancelled(ledgers: readonly Ledger[]): ReadonlySet<string> {
  return new Set(ledgers.flatMap((ledger) => [...ledger.cancelled]));
}

/** Finds completions that were answered ok and are not in the file, which must be read after each kill. */
export function lostCompletions(database: string, leases: LeaseLedger): readonly string[] {
  using view = new DatabaseView(database);
  const found = new Set(view.column("SELECT id FROM tasks WHERE state = 'completed'"));
  const lost = [...leases.completed.keys()].filter((id) => !found.has(id));
  return lost.map((id) => `${id} is not completed any more`);
}

/** Judges the observations of workers' tasks that have not changed since `before`. */
export function judgeSettled(leases: LeaseLedger, before: number): readonly string[] {
  return [...leases.settled(before)].flatMap(({ type, history }) => {
    const rule = LEASE_TYPES[type];
    return rule === undefined ? [] : judgeLeases(history, rule);
  });
}

function judgeTasks(tasks: readonly ShownTask[], evidence: SoakEvidence): readonly string[] {
  const { book, leases, killedAt } = evidence;
  const starts = countStarts(evidence.folder);
  return tasks.flatMap((task) => {
    const booked = book.get(task.id);
    if (booked === undefined)
      return [`${task.id} stands in the database and was never acknowledged`];
    if (task.completedAt === null) return [`${task.id} of ${task.type} is still ${task.state}`];
    const { expected, cancel } = booked;
    const rule = LEASE_TYPES[task.type];
    if (rule !== undefined) {
      const history = leases.history(task.id);
      const { lostClaims } = leases;
      const { retries } = rule;
      const end = judgeLeasedRun(task, { history, rule, retries, lostClaims });
      return [...judgeLeases(history, rule), ...end];
    }
    if (expected === null) return [`${task.id} has a type that nobody posted: ${task.type}`];
    const isCommand = task.type === "command";
    const seen = isCommand ? (starts.get(task.id) ?? 0) : null;
    const retries = isCommand ? COMMAND_RETRIES : 0;
    return judgeOwnRun(task, { expected, cancel, starts: seen, killedAt, retries });
  });
}

const taskRow = z.tuple([
  z.string(),
  z.string(),
  z.string(),
  z.number(),
  z.number(),
  z.number(),
  z.number().nullable(),
  z.string().nullable(),
  z.string().nullable(),
]);

function* shownTasks(database: string): Generator<ShownTask> {
  using view = new DatabaseView(database);
  const rows = view.rows(`
    SELECT t.id, t.type, t.state, t.status_code, t.runs, t.created_at, t.completed_at, r.result_text, r.error_text
    FROM tasks AS t LEFT JOIN task_results AS r ON r.task_seq = t.seq`);
  for (const row of rows) {
    const [id, type, state, code, runs, createdAt, completedAt, resultText, errorText] =
      taskRow.parse(row);
    yield { id, type, state, code, runs, createdAt, completedAt, resultText, errorText };
  }
}

const SHOWN = 200;

/** Asks task_get for some tasks whose completion was answered ok; it must show the result that was brought. */
export async function judgeShown(
  evidence: SoakEvidence,
  { url, accounts }: { readonly url: string; readonly accounts: readonly NewAccount[] },
): Promise<readonly string[]> {
  const clients = new Map(
    accounts.map((account) => [account.login, new ApiClient({ url, ...account })]),
  );
  const { completed } = evidence.leases;
  const faults: string[] = [];
  const every = Math.ceil(completed.size / SHOWN);
  for (const [i, [id, result]] of [...completed].entries()) {
    const client = clients.get(evidence.book.get(id)?.account ?? "");
    if (i % every > 0 || client === undefined) continue;
    const [task] = (await client.get(id)).tasks;
    const isSame = isDeepStrictEqual(task?.result, JSON.parse(result));
    if (task?.state !== "completed" || !isSame) faults.push(`task_get shows ${id} otherwise`);
  }
  return faults;
}
