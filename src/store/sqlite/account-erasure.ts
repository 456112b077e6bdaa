import { STORED_STATES } from "../../domain/task/task.ts";
import { ANSWER_OVERHEAD_BYTES } from "../common/byte-sizes.ts";
import { takeWithin, type SizedRow } from "../common/take-within.ts";
import type { BatchChanges } from "./batch-changes.ts";
import { eraseSome } from "./erase-some.ts";
import type { Connection } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";
import { ATTEMPT_BYTES, TASK_TEXT_BYTES, TEXT_JOINS } from "./task-bytes.ts";
import { taskEraser } from "./task-erasure.ts";

const FIND_ACCOUNT = `
  SELECT seq, disabled_at IS NOT NULL AS isDisabled FROM accounts WHERE login = ?`;

export const ACCOUNT_TASKS = `
  SELECT t.seq, ${TASK_TEXT_BYTES} + ${ATTEMPT_BYTES} AS bytes
  FROM tasks AS t INDEXED BY tasks_by_state
  ${TEXT_JOINS}
  WHERE t.account_seq = @accountSeq AND t.state = @state
  LIMIT @max`;

export const ACCOUNT_ANSWERS = `
  SELECT seq, octet_length(answer_text) AS bytes FROM idempotency_keys
  WHERE account_seq = @accountSeq
  LIMIT @max`;

const ERASE_ANSWER = `DELETE FROM idempotency_keys WHERE seq = ?`;

// Erases by the primary key: its first column is account_seq, so a part is a range.
const STATISTICS = [
  eraseSome("traffic", "WHERE account_seq = @accountSeq", "account_seq, step_ms, at"),
  eraseSome("host_traffic", "WHERE account_seq = @accountSeq", "account_seq, at, host"),
  eraseSome("host_failures", "WHERE account_seq = @accountSeq", "account_seq, host"),
];

const ERASE_ORDERS = `DELETE FROM redelivery_orders WHERE filter_text ->> '$.login' = @login`;

const KEEP_SEQ = `
  INSERT INTO erased_accounts (one, last_seq) VALUES (1, @accountSeq)
  ON CONFLICT (one) DO UPDATE SET last_seq = max(last_seq, excluded.last_seq)`;

const LAST = [
  `DELETE FROM sessions WHERE key_seq IN (SELECT seq FROM keys WHERE account_seq = @accountSeq)`,
  `DELETE FROM keys WHERE account_seq = @accountSeq`,
  `DELETE FROM access_requests WHERE account_seq = @accountSeq`,
  `DELETE FROM task_counts WHERE account_seq = @accountSeq`,
  `DELETE FROM host_counts WHERE account_seq = @accountSeq`,
  `DELETE FROM accounts WHERE seq = @accountSeq`,
  KEEP_SEQ,
];

const TASKS_MAX = 100;
const ROWS_MAX = 1000;

/** An account is erased part by part. */
export function accountErasureWrites(connection: Connection, changes: BatchChanges) {
  const find = connection.prepare<[string], { seq: number; isDisabled: 0 | 1 }>(FIND_ACCOUNT);
  const listTasks = connection.prepare<[object], SizedRow>(ACCOUNT_TASKS);
  const listAnswers = connection.prepare<[object], SizedRow>(ACCOUNT_ANSWERS);
  const eraseAnswer = connection.prepare<[number]>(ERASE_ANSWER);
  const statistics = STATISTICS.map((sql) => connection.prepare<[object]>(sql));
  const last = LAST.map((sql) => connection.prepare<[object]>(sql));
  const eraseOrders = connection.prepare<[object]>(ERASE_ORDERS);
  const eraseTasks = taskEraser(connection, changes);

  function eraseSomeTasks(accountSeq: number): number {
    for (const state of STORED_STATES) {
      const rows = takeWithin(listTasks.iterate({ accountSeq, state, max: TASKS_MAX }));
      const seqs = rows.map(({ seq }) => seq);
      if (seqs.length > 0) return eraseTasks(seqs, "has retries");
    }
    return 0;
  }

  function eraseSomeRows(accountSeq: number): number {
    const part = { accountSeq, max: ROWS_MAX };
    const answers = takeWithin(listAnswers.iterate(part));
    for (const { seq, bytes } of answers) {
      eraseAnswer.run(seq);
      changes.counts.add(accountSeq, "bytes", -(ANSWER_OVERHEAD_BYTES + bytes));
    }
    if (answers.length > 0) return answers.length;
    return statistics.reduce((sum, erase) => (sum > 0 ? sum : erase.run(part).changes), 0);
  }

  return {
    eraseAccountPart({ login }) {
      const account = find.get(login);
      if (account === undefined) return { kind: "unknown" };
      if (account.isDisabled === 0) return { kind: "enabled" };
      const { seq: accountSeq } = account;
      const tasks = eraseSomeTasks(accountSeq);
      if (tasks > 0) return { kind: "more", tasks };
      if (eraseSomeRows(accountSeq) > 0) return { kind: "more", tasks: 0 };
      eraseOrders.run({ login });
      for (const erase of last) erase.run({ accountSeq });
      return { kind: "done" };
    },
  } satisfies Steps;
}
