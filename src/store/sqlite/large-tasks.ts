import { entityTag } from "../../domain/entity-tag.ts";
import { taskEnvelopePieces } from "../../domain/envelope.ts";
import type { FoundTask, TaskLook } from "../store.ts";
import type { Connection } from "./connection.ts";
import { SUMMARY_COLUMNS, toSummary, type SummaryRow } from "./tasks.ts";

// As bytes: a text that is not Latin-1 becomes one of twice the size, and bytes again (measured with 5 MB: 27 ms instead of 2).
export const FIND_LARGE_TASK = `
  SELECT ${SUMMARY_COLUMNS}, t.ready,
    CAST(i.input_text AS BLOB) AS input, CAST(r.result_text AS BLOB) AS result,
    CAST(r.error_text AS BLOB) AS error
  FROM tasks AS t
  LEFT JOIN task_inputs AS i ON i.task_seq = t.seq
  LEFT JOIN task_results AS r ON r.task_seq = t.seq
  WHERE t.id = @id AND t.account_seq = @accountId`;

interface LargeRow extends SummaryRow {
  ready: number;
  input: Uint8Array | null;
  result: Uint8Array | null;
  error: Uint8Array | null;
}

/** The reads on tasks whose texts take long. */
export function largeTaskReads(connection: Connection) {
  const find = connection.prepare<[object], LargeRow>(FIND_LARGE_TASK);

  return {
    /** A task and its envelope; null for an unknown id and for another account's alike. */
    findLargeTask({ accountId, id, progress }: TaskLook): FoundTask | null {
      const row = find.get({ accountId, id });
      if (row === undefined) return null;
      const { input, result, error } = row;
      const summary = toSummary(row);
      const texts = { inputText: input, resultText: result, errorText: error };
      const pieces = taskEnvelopePieces({ ...summary, ...texts }, progress);
      const bytes = Buffer.concat(pieces.map(toBytes));
      // The bytes hold all the rest, and go to another thread without a copy.
      const task = { ...summary, dataText: "{}", ...NO_TEXTS };
      return { task, isReady: row.ready === 1, envelope: { bytes, tag: entityTag(bytes) } };
    },
  };
}

const NO_TEXTS = { inputText: null, resultText: null, errorText: null };

function toBytes(piece: Uint8Array | string): Uint8Array {
  return typeof piece === "string" ? Buffer.from(piece) : piece;
}
