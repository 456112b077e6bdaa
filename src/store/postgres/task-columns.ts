/** The columns that statements select of tasks. */

/**
 * The columns of a summary, of a task that has ended, with `ends AS e` alone: it has no row in `queue`.
 */
export const ENDED_HEAD_COLUMNS = `
  t.id, e.state, e.status_code AS "statusCode", e.status_message AS "statusMessage", t.type,
  t.created_at AS "createdAt", e.started_at AS "startedAt", e.completed_at AS "completedAt",
  e.expires_at AS "expiresAt", e.runs`;

/** The texts with which a task was posted and ended. */
export const TEXT_COLUMNS = `
  t.data_text AS "dataText", t.input_text AS "inputText", e.result_text AS "resultText", e.error_text AS "errorText"`;

/** A task's id as a parameter: anything but an id in lower case becomes an id that no task has. */
export function toUuid(id: string): string {
  return UUID.test(id) ? id : NO_TASK;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const NO_TASK = "00000000-0000-0000-0000-000000000000";

/** In a statement: true when the account with this seq is disabled. A look-up in an index that is mostly empty. */
export function isSuspended(seq: string): string {
  return `EXISTS (SELECT 1 FROM accounts AS h WHERE h.disabled_at IS NOT NULL AND h.seq = ${seq})`;
}

/** In a statement: the next enabled account after a seq; passes over the disabled ones in between. */
export function nextEnabled(seq: string): string {
  return `(SELECT h.seq FROM accounts AS h WHERE h.disabled_at IS NULL AND h.seq > ${seq} ORDER BY h.seq LIMIT 1)`;
}

/** In a statement: true when the node with this seq has ended, so that others may take up what it had under way. */
export function hasEnded(nodeSeq: string): string {
  return `NOT EXISTS (SELECT 1 FROM nodes AS n WHERE n.seq = ${nodeSeq} AND n.ended_at IS NULL)`;
}
