import { parseProgress, type TaskProgress } from "../../domain/task/progress.ts";
import type { RunProgress, Store } from "../store.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import type { SetSteps } from "./steps.ts";
import { toUuid } from "./task-columns.ts";

const NOTE_PROGRESS = `
  UPDATE queue AS q SET progress_text = a.progress_text
  FROM unnest($1::uuid[], $2::text[]) AS a (id, progress_text) JOIN tasks AS t ON t.id = a.id
  WHERE q.task_seq = t.seq AND q.state = 'running'`;

const FIND_PROGRESS = `
  SELECT t.id, q.progress_text AS "progressText"
  FROM tasks AS t JOIN queue AS q ON q.task_seq = t.seq
  WHERE t.id = ANY($1::uuid[]) AND q.state = 'running' AND q.progress_text IS NOT NULL`;

export function progressWrites(sql: BatchSql) {
  return {
    async noteProgress(lists) {
      const newest = new Map(lists.flat().map(({ id, progress }) => [toUuid(id), progress]));
      const texts = [...newest.values()].map((progress) => JSON.stringify(progress));
      if (texts.length > 0) sql.send(NOTE_PROGRESS, [[...newest.keys()], texts]);
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
