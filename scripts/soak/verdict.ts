import { isDeepStrictEqual } from "node:util";

import { z } from "zod";

import { Caller } from "../kit/client.ts";
import type { DaemonProcess } from "../kit/daemon.ts";
import { DatabaseView } from "../kit/database.ts";
import { benchInput } from "../kit/http.ts";
import { until } from "../kit/until.ts";
import { type Explanation, explainArrivals, recordedAttempts } from "./duplicates.ts";
import {
  SHOWN_TASKS,
  type ShownTask,
  judgeLeasedRun,
  judgeOwnRun,
  shownTask,
} from "./ending-judge.ts";
import { inspectFinished } from "./inspection.ts";
import { judgeLeases } from "./lease-judge.ts";
import type { LeaseLedger, Ledger } from "./ledger.ts";
import { COMMAND_RETRIES, LEASE_TYPES } from "./services.ts";

/** All that was seen and promised of a database. */
export interface Evidence {
  readonly ledger: Ledger;
  /** When each killed daemon was gone, in epoch milliseconds, the earliest first. */
  readonly killedAt: readonly number[];
  /** Of workers, where there were any. */
  readonly leases?: LeaseLedger;
  /** How often a command was started for each task, by its own word. */
  readonly starts?: ReadonlyMap<string, number>;
  /** True if tasks were also posted without a key: their acknowledgement may be lost, and they are not posted again. */
  readonly hasLoad?: boolean;
}

export interface Tally extends Explanation {
  readonly completed: number;
  readonly failed: number;
  readonly cancelled: number;
  /** Tasks that were on disk when the daemon died before it could say so. */
  readonly unacknowledged: number;
  /** Tasks that were started more than once. */
  readonly rerun: number;
  /** Attempts that a crash cut off: their outcome is unknown, so they were made again. */
  readonly interrupted: number;
}

/** Holds the database of a daemon that has finished and stopped against all that was seen. */
export function judgeFinished(database: string, evidence: Evidence): Tally {
  const { ledger, killedAt, leases } = evidence;
  using view = new DatabaseView(database);
  const tasks = [...view.rows(SHOWN_TASKS, shownTask)];
  const explanation = explainArrivals({
    arrivals: ledger.arrivals,
    attempts: recordedAttempts(database),
    killedAt,
  });
  const missing = ledger.missing === 0 ? [] : [`${ledger.missing} webhooks are missing`];
  const faults = [
    ...tasks.flatMap((task) => judgeTask(task, evidence)),
    ...(leases?.faults ?? []),
    ...ledger.faults,
    ...inspectFinished(database, ledger),
    ...missing,
    ...explanation.faults,
  ];
  const count = (state: string): number => tasks.filter((task) => task.state === state).length;
  return {
    ...explanation,
    completed: count("completed"),
    failed: count("failed"),
    cancelled: count("cancelled"),
    unacknowledged: tasks.length - ledger.tasks.size,
    rerun: tasks.filter(({ runs }) => runs > 1).length,
    interrupted: view.number("SELECT count(*) FROM attempts WHERE outcome = 'interrupted'"),
    faults,
  };
}

/** Judges the observations of workers' tasks that have not changed since `before`. */
export function judgeSettled(leases: LeaseLedger, before: number): readonly string[] {
  return [...leases.settled(before)].flatMap(({ type, history }) => {
    const rule = LEASE_TYPES[type];
    return rule === undefined ? [] : judgeLeases(history, rule);
  });
}

/** Of a task that the load posts. */
export const LOAD_EXPECTED = { kind: "completed", result: benchInput() } as const;

function judgeTask(task: ShownTask, evidence: Evidence): readonly string[] {
  const { ledger, leases, killedAt, starts, hasLoad } = evidence;
  const { id, type } = task;
  const promised = ledger.tasks.get(id);
  if (promised === undefined && (task.tag !== null || hasLoad !== true))
    return [`${id} stands in the database and was never acknowledged`];
  if (task.completedAt === null) return [`${id} of ${type} is still ${task.state}`];
  const rule = LEASE_TYPES[type];
  if (rule !== undefined && leases !== undefined) {
    const history = leases.history(id);
    const { lostClaims } = leases;
    const end = judgeLeasedRun(task, { history, rule, retries: rule.retries, lostClaims });
    return [...judgeLeases(history, rule), ...end];
  }
  const expected = promised === undefined ? LOAD_EXPECTED : promised.expected;
  if (expected === null) return [`${id} has a type that nobody posted: ${type}`];
  const isCommand = type === "command";
  const seen = isCommand ? (starts?.get(id) ?? 0) : null;
  const retries = isCommand ? COMMAND_RETRIES : 0;
  const cancel = ledger.cancels.get(id) ?? null;
  return judgeOwnRun(task, { expected, cancel, starts: seen, killedAt, retries });
}

const SHOWN = 200;
const shownTasks = z.object({
  tasks: z.array(z.object({ state: z.string(), result: z.unknown() })),
});

/** Asks task_get for some tasks whose completion was answered ok; it must show the result that was brought. */
export async function judgeShown(ledger: Ledger, url: string): Promise<readonly string[]> {
  const faults: string[] = [];
  const every = Math.ceil(ledger.finished.size / SHOWN);
  for (const [i, [id, result]] of [...ledger.finished].entries()) {
    const key = ledger.tasks.get(id)?.key;
    if (i % every > 0 || key === undefined) continue;
    const caller = Caller.withKey(url, key);
    const text = await caller.done(caller.get(`/v1/tasks/task_get/${id}`));
    const [task] = shownTasks.parse(JSON.parse(text)).tasks;
    const isSame = isDeepStrictEqual(task?.result, JSON.parse(result));
    if (task?.state !== "completed" || !isSame) faults.push(`task_get shows ${id} otherwise`);
  }
  return faults;
}

/**
 * Lets a daemon finish everything that it has, promised or not. Rejects when it ends instead, and when it stands still
 * for longer.
 */
export async function finish(
  daemon: DaemonProcess,
  of: { readonly database: string; readonly ledger: Ledger; readonly stallMsMax: number },
): Promise<void> {
  const { database, ledger, stallMsMax } = of;
  using view = new DatabaseView(database);
  const isQuiet = (): boolean => {
    daemon.requireRunning();
    return view.isQuiet();
  };
  await until(isQuiet, {
    msMax: stallMsMax,
    progress: () => ledger.arrivals.length,
    fault: () =>
      `not everything is done, and ${ledger.missing} webhooks are missing: ${daemon.log}`,
  });
}
