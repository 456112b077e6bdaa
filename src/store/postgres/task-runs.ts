import { countFinished } from "../../domain/stats/work-changes.ts";
import { textBytes } from "../common/byte-sizes.ts";
import type { ClaimedTask, LaneRef, Store, TaskClaim, TaskFinish } from "../store.ts";
import type { BatchChanges } from "./batch-changes.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import { missing } from "./missing.ts";
import { inWaves, type SetSteps } from "./steps.ts";
import { taskClaims } from "./task-claims.ts";
import { toUuid } from "./task-columns.ts";
import { endTasks, lanesOf, type TaskEnd } from "./task-ends.ts";

export function taskRunWrites(sql: BatchSql, changes: BatchChanges) {
  return {
    claimTasks: (claims) => claimTasks({ sql, changes }, claims),
    finishTask: (finishes) =>
      inWaves(
        finishes,
        ({ seq }) => seq,
        (wave) => finishTasks({ sql, changes }, wave),
      ),
    retryTask: missing("retryTask"),
    requeueTasks: missing("requeueTasks"),
    releaseTask: missing("releaseTask"),
    releaseDelayed: missing("releaseDelayed"),
  } satisfies SetSteps;
}

/** What the steps of a batch work with. */
interface Batch {
  readonly sql: BatchSql;
  readonly changes: BatchChanges;
}

/** Claims of the same type go one after the other, because they share its turns. */
async function claimTasks(
  { sql, changes }: Batch,
  claims: readonly TaskClaim[],
): Promise<readonly (readonly ClaimedTask[])[]> {
  const claimInTurn = taskClaims(sql, changes);
  const claimed: (readonly ClaimedTask[])[] = [];
  const byType = Map.groupBy(claims.entries(), ([, { type }]) => type);
  await Promise.all(
    [...byType.values()].map(async (ofType) => {
      for (const [index, claim] of ofType) claimed[index] = await claimInTurn(claim);
    }),
  );
  return claimed;
}

async function finishTasks(
  { sql, changes }: Batch,
  finishes: readonly TaskFinish[],
): Promise<readonly (readonly LaneRef[])[]> {
  const ended = await endTasks(
    sql,
    finishes.map(({ seq, id, run, ...end }): TaskEnd => ({
      ...end,
      seq,
      from: ["running"],
      nodeSeq: sql.nodeSeq,
      run: run ?? null,
      id: id === undefined ? null : toUuid(id),
    })),
  );
  const bySeq = new Map(ended.map((task) => [task.seq, task]));
  return finishes.map(({ seq, state, endedAt, resultText, errorText }) => {
    const task = bySeq.get(seq);
    if (task === undefined) return [];
    const bytes = textBytes(resultText, errorText);
    countFinished(changes, { accountSeq: task.accountSeq, from: "running", state, endedAt, bytes });
    return lanesOf(task);
  });
}

export function taskQueueReads(_sql: Sql) {
  return {
    findOldestQueued: missing("findOldestQueued"),
    listQueuedTypes: missing("listQueuedTypes"),
    findEndedTasks: missing("findEndedTasks"),
  } satisfies Partial<Store>;
}

export function typeWorkReads(_sql: Sql) {
  return {
    listTypeWork: missing("listTypeWork"),
  } satisfies Partial<Store>;
}
