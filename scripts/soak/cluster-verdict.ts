import { z } from "zod";

import { queryOnce } from "../kit/database.ts";
import { findFaults } from "../kit/postgres-faults.ts";
import { explainArrivals, recordedAttempt, type Explanation } from "./duplicates.ts";
import { judgeOwnRun, shownTask } from "./ending-judge.ts";
import type { Ledger } from "./ledger.ts";

const TASKS = `
  SELECT t.id::text AS id, coalesce(t.type, '') AS type, t.tag, coalesce(e.state, q.state)::text AS state,
    coalesce(e.status_code, 0) AS code, coalesce(e.runs, q.runs) AS runs, t.created_at::float8 AS "createdAt",
    e.completed_at::float8 AS "completedAt", e.result_text AS "resultText", e.error_text AS "errorText"
  FROM tasks AS t LEFT JOIN ends AS e ON e.task_seq = t.seq LEFT JOIN queue AS q ON q.task_seq = t.seq`;

const ATTEMPTS = `
  SELECT t.id::text AS "taskId", a.kind::text AS kind, a.number, a.outcome::text AS outcome,
    a.http_status AS "httpStatus", a.error, a.started_at::float8 AS "startedAt", a.ended_at::float8 AS "endedAt"
  FROM attempts AS a JOIN tasks AS t ON t.seq = a.task_seq`;

const DELIVERIES = `
  SELECT t.id || '-' || d.kind AS delivery, coalesce(d.ended::text, 'open') AS state
  FROM deliveries AS d JOIN tasks AS t ON t.seq = d.task_seq JOIN ends AS e ON e.task_seq = t.seq
  WHERE e.state <> 'cancelled'`;

const shownDelivery = z.object({ delivery: z.string(), state: z.string() });

const NODE_ENDS = `SELECT ended_at::float8 AS "endedAt" FROM nodes WHERE ended_at IS NOT NULL`;

// The remaining work of tasks that were never cancelled.
const OPEN = `
  SELECT (SELECT count(*) FROM queue)::int AS queued, (SELECT count(*) FROM outbox)::int AS sending`;

/** How much is still to be done. */
export async function openWork(url: string): Promise<number> {
  const [row] = await rowsOf(url, OPEN, z.object({ queued: z.number(), sending: z.number() }));
  return row === undefined ? 0 : row.queued + row.sending;
}

export interface ClusterTally {
  readonly ended: number;
  /** Acknowledged tasks that are not there; a fault unless they may be lost. */
  readonly lost: number;
  readonly rerun: number;
  readonly interrupted: number;
  readonly duplicates: number;
  /** Of these and of the attempts those that no interruption explains; faults unless their records may be lost. */
  readonly unexplained: number;
  /** Lives of daemons that ended, those included that were cut off and joined again. */
  readonly nodeEnds: number;
  readonly faults: readonly string[];
}

/** The observations from outside. */
export interface Seen {
  readonly ledger: Ledger;
  readonly faultsAt: readonly number[];
  /** Whether the server itself may have lost what it had acknowledged last. */
  readonly mayLose: boolean;
}

/**
 * Holds the database of a cluster that has come to rest against all that was seen: each acknowledged task ended once
 * and as it had to, each webhook arrived, what came twice was interrupted at a fault, and all counts are right.
 */
export async function judgeCluster(
  url: string,
  { ledger, faultsAt, mayLose }: Seen,
): Promise<ClusterTally> {
  const tasks = await rowsOf(url, TASKS, shownTask);
  const attempts = await rowsOf(url, ATTEMPTS, recordedAttempt);
  const found = new Set(tasks.map(({ id }) => id));
  const lost = [...ledger.tasks.keys()].filter((id) => !found.has(id));
  const nodeEnds = await rowsOf(url, NODE_ENDS, z.object({ endedAt: z.number() }));
  // Work that was interrupted by a fault is marked when the node is declared dead.
  const killedAt = [...faultsAt, ...nodeEnds.map(({ endedAt }) => endedAt)].toSorted(
    (a, b) => a - b,
  );
  const arrivals = ledger.arrivals.filter(({ taskId }) => !mayLose || found.has(taskId));
  const explanation = explainArrivals({ arrivals, attempts, killedAt });
  const wrong = tasks.flatMap((task) => {
    const expected = ledger.tasks.get(task.id)?.expected ?? null;
    if (expected === null) return [`${task.id} was never acknowledged`];
    if (task.completedAt === null) return [`${task.id} is still ${task.state}`];
    const cancel = ledger.cancels.get(task.id) ?? null;
    return judgeOwnRun(task, { expected, cancel, starts: null, killedAt, retries: 0 });
  });
  const accepted = new Set(
    ledger.arrivals
      .filter(({ status }) => status === 200)
      .map(({ taskId, kind }) => `${taskId}-${kind}`),
  );
  const missing = (await rowsOf(url, DELIVERIES, shownDelivery))
    .filter(({ delivery, state }) => state !== "delivered" || !accepted.has(delivery))
    .map(({ delivery, state }) => `${delivery} is ${state}, and its receiver accepted none`);
  return {
    ended: tasks.filter(({ completedAt }) => completedAt !== null).length,
    rerun: tasks.filter(({ runs }) => runs > 1).length,
    interrupted: attempts.filter(({ outcome }) => outcome === "interrupted").length,
    duplicates: explanation.duplicates,
    nodeEnds: nodeEnds.length,
    lost: lost.length,
    unexplained: explanation.faults.length,
    faults: [
      ...(mayLose ? [] : lostOf({ ledger, lost, explanation })),
      ...wrong,
      ...ledger.faults,
      ...missing,
      ...(await findFaults(url, { erases: false })),
    ],
  };
}

interface Losses {
  readonly ledger: Ledger;
  readonly lost: readonly string[];
  readonly explanation: Explanation;
}

function lostOf({ ledger, lost, explanation }: Losses): readonly string[] {
  return [
    ...lost.map((id) => `${id} was acknowledged and is lost`),
    ...(ledger.missing === 0 ? [] : [`${ledger.missing} webhooks are missing`]),
    ...explanation.faults,
  ];
}

async function rowsOf<Row>(
  url: string,
  sql: string,
  shape: z.ZodType<Row>,
): Promise<readonly Row[]> {
  return z.array(shape).parse(await queryOnce(url, sql));
}
