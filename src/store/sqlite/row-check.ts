import { ANSWER_OVERHEAD_BYTES, TASK_OVERHEAD_BYTES } from "../common/byte-sizes.ts";
import type { Connection } from "./machine/connection.ts";
import { UNWATCHED, type CopyWatch } from "./machine/copy-pace.ts";
import { tableCheckReads } from "./machine/table-check.ts";
import { ATTEMPT_BYTES, TASK_TEXT_BYTES, TEXT_JOINS } from "./task-bytes.ts";

/** Checks that find missing rows. To SQLite itself a table without some of its rows is sound. */

/**
 * Describes the first fault of a database of this version; null if it has none. All of it must be read in one
 * transaction if another process may write.
 */
export function rowFault(connection: Connection, watch: CopyWatch = UNWATCHED): string | null {
  return referenceFault(connection, watch) ?? sizeFault(connection, watch);
}

interface Violation {
  /** Null in a table without row ids. */
  readonly rowid: number | null;
  readonly parent: string;
}

function referenceFault(connection: Connection, { check }: CopyWatch): string | null {
  for (const table of tableCheckReads(connection).listTables()) {
    const name = table.replaceAll("'", "''");
    const [first] = connection.pragma(`foreign_key_check('${name}')`) as Violation[];
    if (first !== undefined) {
      return `row ${first.rowid ?? "?"} of ${table} refers to a missing row of ${first.parent}`;
    }
    check();
  }
  return null;
}

// 0.1 s for each step.
const STEP_TASKS = 10_000;

const STEP_END = `
  SELECT max(seq) FROM (SELECT seq FROM tasks WHERE seq > ? ORDER BY seq LIMIT ${STEP_TASKS})`;

const TASK_SIZES = `
  SELECT t.account_seq AS accountSeq, sum(${TASK_OVERHEAD_BYTES} + ${TASK_TEXT_BYTES} + ${ATTEMPT_BYTES}) AS bytes
  FROM tasks AS t
  ${TEXT_JOINS}
  WHERE t.seq > ? AND t.seq <= ?
  GROUP BY t.account_seq`;

const ANSWER_SIZES = `
  SELECT account_seq AS accountSeq, sum(${ANSWER_OVERHEAD_BYTES} + octet_length(answer_text)) AS bytes
  FROM idempotency_keys
  GROUP BY account_seq`;

const COUNTED_SIZES = `
  SELECT c.account_seq AS accountSeq, a.login, c.count AS bytes
  FROM task_counts AS c JOIN accounts AS a ON a.seq = c.account_seq
  WHERE c.state = 'bytes'`;

interface Size {
  readonly accountSeq: number;
  readonly bytes: number;
}

/**
 * Compares the size of each account's rows with the size that was counted as they were written. An input, a result and
 * an attempt are optional for a task, so nothing else shows that one is missing. A larger size than counted is accepted.
 */
function sizeFault(connection: Connection, { check }: CopyWatch): string | null {
  const found = new Map<number, number>();
  const add = ({ accountSeq, bytes }: Size): void => {
    found.set(accountSeq, (found.get(accountSeq) ?? 0) + bytes);
  };
  const stepEnd = connection.prepare<[number], number | null>(STEP_END).pluck();
  const tasks = connection.prepare<[number, number], Size>(TASK_SIZES);
  let after = 0;
  for (let end = stepEnd.get(after); typeof end === "number"; end = stepEnd.get(after)) {
    tasks.all(after, end).forEach(add);
    after = end;
    check();
  }
  connection.prepare<[], Size>(ANSWER_SIZES).all().forEach(add);
  const counted = connection.prepare<[], Size & { login: string }>(COUNTED_SIZES).all();
  const short = counted.find(({ accountSeq, bytes }) => (found.get(accountSeq) ?? 0) < bytes);
  if (short === undefined) return null;
  const missing = short.bytes - (found.get(short.accountSeq) ?? 0);
  return `the rows of account ${short.login} have ${missing} bytes less than were counted: an input, a result or an attempt is missing`;
}
