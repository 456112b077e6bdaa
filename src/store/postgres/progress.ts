import { type TaskProgress, parseProgress } from "../../domain/task/run.ts";
import type { RunProgress, Store } from "../store.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import type { SetSteps } from "./steps.ts";
import { toUuid } from "./task-columns.ts";

// Whoever changes several tasks locks them in this order.
const NOTE_PROGRESS = `
  WITH told AS MATERIALIZED (
    SELECT q.task_seq, a.progress_text
    FROM unnest($2::uuid[], $3::text[], $4::int[], $5::text[]) AS a (id, progress_text, of_run, of_lease)
      JOIN tasks AS t ON t.id = a.id JOIN queue AS q ON q.task_seq = t.seq
    WHERE q.state = 'running'
      AND (q.node_seq = $1 AND q.runs = a.of_run OR q.node_seq IS NULL AND q.lease_id = a.of_lease)
    ORDER BY q.task_seq FOR UPDATE OF q
  )
  UPDATE queue AS q SET progress_text = told.progress_text FROM told WHERE q.task_seq = told.task_seq`;

const FIND_PROGRESS = `
  SELECT t.id, q.progress_text AS "progressText"
  FROM tasks AS t JOIN queue AS q ON q.task_seq = t.seq
  WHERE t.id = ANY($1::uuid[]) AND q.state = 'running' AND q.progress_text IS NOT NULL`;

export function progressWrites(sql: BatchSql) {
  return {
    async noteProgress(lists) {
      const byRun = new Map(lists.flat().map((each) => [JSON.stringify([each.id, each.by]), each]));
      const newest = [...byRun.values()];
      if (newest.length > 0) {
        sql.send(NOTE_PROGRESS, [
          sql.nodeSeq,
          newest.map(({ id }) => toUuid(id)),
          newest.map(({ progress }) => JSON.stringify(progress)),
          newest.map(({ by }) => ("run" in by ? by.run : null)),
          newest.map(({ by }) => ("run" in by ? null : by.leaseId)),
        ]);
      }
      return lists.map(() => {});
    },
  } satisfies SetSteps;
}

export function progressReads(sql: Sql) {
  return {
    async findProgress({ ids }) {
      const rows = await sql.all<{ id: string; progressText: string }>(FIND_PROGRESS, [
        ids.map(toUuid),
      ]);
      return rows.flatMap(({ id, progressText }): readonly RunProgress[] => {
        const progress = toProgress(progressText);
        return progress === null ? [] : [{ id, progress }];
      });
    },
  } satisfies Partial<Store>;
}

/** Reads the column that noteProgress writes; null where a run has told nothing. */
export function toProgress(progressText: string | null): TaskProgress | null {
  return progressText === null ? null : parseProgress(JSON.parse(progressText));
}
