import { STATE_CODES } from "../../domain/task/task.ts";
import { eachDialect, type Statement } from "./statement.ts";

/** How a database keeps `tasks AS t`. Everything but `joins` is an expression, or a list of columns. */
export interface TaskDialect extends TaskParts {
  /** The columns of a task's summary but for what was posted. */
  readonly head: string;
  /** All columns that `toSummary` reads. */
  readonly summary: string;
  /** All columns that `toTask` reads. */
  readonly all: string;
  /** The size of the task's texts: the database knows it without reading them. */
  readonly textBytes: string;
}

interface TaskParts {
  /** Finds what the other expressions need beside `t`. */
  readonly joins: string;
  readonly state: string;
  readonly statusCode: string;
  readonly statusMessage: string;
  readonly startedAt: string;
  readonly completedAt: string;
  readonly expiresAt: string;
  readonly runs: string;
  readonly isReady: string;
  readonly inputText: string;
  readonly resultText: string;
  readonly errorText: string;
}

/** A row of `tasks` has the state; the long texts lie in tables of their own. */
export const ON_SQLITE = withLists({
  joins: `
  LEFT JOIN task_inputs AS i ON i.task_seq = t.seq
  LEFT JOIN task_results AS r ON r.task_seq = t.seq`,
  state: "t.state",
  statusCode: "t.status_code",
  statusMessage: "t.status_message",
  startedAt: "t.started_at",
  completedAt: "t.completed_at",
  expiresAt: "t.expires_at",
  runs: "t.runs",
  isReady: "t.ready",
  inputText: "i.input_text",
  resultText: "r.result_text",
  errorText: "r.error_text",
});

/**
 * A task has a row in `queue` until it ends, and then one in `ends`. That of `queue` is looked up by itself, for the
 * reason that "Rows by their numbers" in postgres/machine/sql.ts gives.
 */
export const ON_POSTGRES = withLists({
  joins: `
  LEFT JOIN LATERAL (SELECT * FROM queue WHERE task_seq = t.seq LIMIT 1) AS q ON true
  LEFT JOIN ends AS e ON e.task_seq = t.seq`,
  state: "coalesce(q.state, e.state)",
  statusCode: `
  coalesce(e.status_code, CASE q.state
    WHEN 'running' THEN ${STATE_CODES.running} ELSE ${STATE_CODES.queued}
  END)`,
  statusMessage: "e.status_message",
  startedAt: "coalesce(q.started_at, e.started_at)",
  completedAt: "e.completed_at",
  expiresAt: "e.expires_at",
  runs: "coalesce(q.runs, e.runs)",
  isReady: "EXISTS (SELECT 1 FROM ready AS r WHERE r.task_seq = t.seq)",
  inputText: "t.input_text",
  resultText: "e.result_text",
  errorText: "e.error_text",
});

/**
 * Of `queue` on PostgreSQL: always holds. Statements that want `queue_listed` say it, and others cannot have that index: with few rows
 * alive the server believes any index to be as short as another, and would look for the next task of an account among
 * all dead ones that it had.
 */
export const IN_QUEUE_LISTED = `runs >= 0`;

function withLists(of: TaskParts): TaskDialect {
  const head = `
  t.id, ${of.state} AS state, ${of.statusCode} AS "statusCode", ${of.statusMessage} AS "statusMessage", t.type,
  t.created_at AS "createdAt", ${of.startedAt} AS "startedAt", ${of.completedAt} AS "completedAt",
  ${of.expiresAt} AS "expiresAt", ${of.runs} AS runs`;
  const summary = `${head}, t.data_text AS "dataText"`;
  const all = `
  ${summary}, ${of.inputText} AS "inputText", ${of.resultText} AS "resultText", ${of.errorText} AS "errorText"`;
  const textBytes = `
  octet_length(t.data_text) + coalesce(octet_length(${of.inputText}), 0)
  + coalesce(octet_length(${of.resultText}), 0) + coalesce(octet_length(${of.errorText}), 0)`;
  return { ...of, head, summary, all, textBytes };
}

/** Makes a statement about tasks. */
export function ofTasks(text: (of: TaskDialect) => string): Statement {
  return eachDialect({ sqlite: text(ON_SQLITE), postgres: text(ON_POSTGRES) });
}
