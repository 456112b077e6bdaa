import { STORED_STATES } from "../../domain/task/task.ts";
import { ANSWER_OVERHEAD_BYTES } from "../common/large-task.ts";
import { takeWithin, type SizedRow } from "../common/list.ts";
import { ON_SQLITE } from "../sql/task-columns.ts";
import { ALL_ACCOUNTS, type BatchChanges } from "./counts.ts";
import { type Connection, eraseSome } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";
import { ATTEMPT_BYTES } from "./tasks.ts";
import { taskEraser } from "./upkeep.ts";

const FIND_ACCOUNT = `
  SELECT seq, disabled_at IS NOT NULL AS isDisabled FROM accounts WHERE login = ?`;

export const ACCOUNT_TASKS = `
  SELECT t.seq, ${ON_SQLITE.textBytes} + ${ATTEMPT_BYTES} AS bytes
  FROM tasks AS t INDEXED BY tasks_by_state
  ${ON_SQLITE.joins}
  WHERE t.account_seq = @accountSeq AND t.state = @state
  LIMIT @max`;

export const ACCOUNT_ANSWERS = `
  SELECT seq, octet_length(answer_text) AS bytes FROM idempotency_keys
  WHERE account_seq = @accountSeq
  LIMIT @max`;

const ERASE_ANSWER = `DELETE FROM idempotency_keys WHERE seq = ?`;

const OF_ACCOUNT = "WHERE account_seq = @accountSeq";

/** The next rows by host: those of {@link STATISTICS}. */
const HOURS = `
  SELECT at, host, attempts, succeeded, durations_text FROM host_traffic ${OF_ACCOUNT} ORDER BY at, host LIMIT @max`;
const FAILURES = `
  SELECT host, ended_at, task_seq FROM host_failures ${OF_ACCOUNT} ORDER BY host LIMIT @max`;

export const SUBTRACT_HOURS = `
  UPDATE host_traffic AS t
  SET attempts = t.attempts - own.attempts, succeeded = t.succeeded - own.succeeded, durations_text = (
    SELECT json_group_array(n) FROM (
      SELECT coalesce(a.value, 0) - coalesce(b.value, 0) AS n
      FROM json_each(t.durations_text) AS a LEFT JOIN json_each(own.durations_text) AS b ON b.key = a.key
      ORDER BY a.key
    )
  )
  FROM (${HOURS}) AS own
  WHERE t.account_seq = ${ALL_ACCOUNTS} AND t.at = own.at AND t.host = own.host`;

export const ERASE_EMPTY_HOURS = `
  DELETE FROM host_traffic
  WHERE account_seq = ${ALL_ACCOUNTS} AND attempts <= 0 AND (at, host) IN (SELECT at, host FROM (${HOURS}))`;

export const ERASE_SHARED_FAILURES = `
  DELETE FROM host_failures
  WHERE account_seq = ${ALL_ACCOUNTS} AND (host, ended_at, task_seq) IN (${FAILURES})`;

/**
 * Erases by the primary key: its first column is account_seq, so a part is a range. The last statement of each list erases
 * a part of a table. Those before it take the part out of the rows of all accounts together: a name of a host must not
 * outlive the only account that used it.
 */
const STATISTICS = [
  [eraseSome("traffic", OF_ACCOUNT, "account_seq, step_ms, at")],
  [
    SUBTRACT_HOURS,
    ERASE_EMPTY_HOURS,
    eraseSome("host_traffic", `${OF_ACCOUNT} ORDER BY at, host`, "account_seq, at, host"),
  ],
  [
    ERASE_SHARED_FAILURES,
    eraseSome("host_failures", `${OF_ACCOUNT} ORDER BY host`, "account_seq, host"),
  ],
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
const ROWS_MAX = 200;

/** An account is erased part by part. */
export function accountErasureWrites(connection: Connection, changes: BatchChanges) {
  const find = connection.prepare<[string], { seq: number; isDisabled: 0 | 1 }>(FIND_ACCOUNT);
  const listTasks = connection.prepare<[object], SizedRow>(ACCOUNT_TASKS);
  const listAnswers = connection.prepare<[object], SizedRow>(ACCOUNT_ANSWERS);
  const eraseAnswer = connection.prepare<[number]>(ERASE_ANSWER);
  const statistics = STATISTICS.map((list) => list.map((sql) => connection.prepare<[object]>(sql)));
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
    for (const list of statistics) {
      const erased = list.map((statement) => statement.run(part).changes).at(-1) ?? 0;
      if (erased > 0) return erased;
    }
    return 0;
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
