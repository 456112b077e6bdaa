import { STORED_STATES } from "../../domain/task/task.ts";
import { ANSWER_OVERHEAD_BYTES } from "../common/large-task.ts";
import type { SizedRow } from "../common/list.ts";
import { LOCKS_UNNAMED, type WriteRules } from "../common/write-rule.ts";
import {
  eachDialect,
  type Flag,
  onlyPostgres,
  onlySqlite,
  statement,
  type Statement,
} from "./statement.ts";
import { IN_QUEUE_LISTED, ON_SQLITE } from "./task-columns.ts";
import { ATTEMPTS_BYTES, END_BYTES, eraseTasks, POST_BYTES } from "./task-erasure.ts";
import {
  all,
  get,
  run,
  send,
  together,
  type Batch,
  type StoreUseCases,
  type UseCase,
  within,
} from "./use-case.ts";
import { ALL_ACCOUNTS } from "./work-counts.ts";

// A batch that suspends or enables an account locks this table before the account's row: so does this, which has to write
// to both in the end.
const LOCK_SUSPENSION_CHANGES = onlyPostgres(`LOCK TABLE suspension_changes IN ROW EXCLUSIVE MODE`);

/** No other batch enables the account until this one has ended. */
const LOCK_ACCOUNT = statement(`
  SELECT seq, disabled_at IS NOT NULL AS "isDisabled" FROM accounts WHERE login = @login FOR NO KEY UPDATE`);

const TASKS_MAX = 100;

/** How a database selects rows of an account, and writes the traffic of hosts. */
interface Dialect {
  /** The condition for a row of the account. */
  readonly isOwn: string;
  /** The most rows that one step erases. */
  readonly rowsMax: number;
  readonly stripe: string;
  readonly isSameStripe: string;
  readonly durations: string;
  /** An expression: the durations of `t` minus the durations of `own`. */
  readonly subtracted: string;
}

const DURATIONS_ON_SQLITE = `
  SELECT json_group_array(n) FROM (
    SELECT coalesce(a.value, 0) - coalesce(b.value, 0) AS n
    FROM json_each(t.durations_text) AS a LEFT JOIN json_each(own.durations_text) AS b ON b.key = a.key
    ORDER BY a.key
  )`;

const DURATIONS_ON_POSTGRES = `
  SELECT coalesce(array_agg(coalesce(n, 0) - coalesce(m, 0) ORDER BY place), '{}')
  FROM unnest(t.durations, own.durations) WITH ORDINALITY AS d (n, m, place)`;

const SQLITE: Dialect = {
  isOwn: "account_seq = @accountId",
  rowsMax: 200,
  stripe: "",
  isSameStripe: "",
  durations: "durations_text",
  subtracted: DURATIONS_ON_SQLITE,
};

// The next rows of an account are selected in the order of an index, up to a number that the plan knows. Otherwise each
// part reads all rows of the account. As a range: a generic plan takes `=` for as many rows as most accounts have, and
// would sort them.
const OF_ACCOUNT = `account_seq BETWEEN @accountId AND @accountId`;

const POSTGRES: Dialect = {
  isOwn: OF_ACCOUNT,
  rowsMax: 1000,
  stripe: ", stripe",
  isSameStripe: "AND t.stripe = own.stripe",
  durations: "durations",
  subtracted: DURATIONS_ON_POSTGRES,
};

function inDialects(text: (of: Dialect) => string): Statement {
  return eachDialect({ sqlite: text(SQLITE), postgres: text(POSTGRES) });
}

const ofState = (state: string): Statement =>
  onlySqlite(`
  SELECT t.seq, ${ON_SQLITE.textBytes} + ${ATTEMPTS_BYTES} AS bytes
  FROM tasks AS t INDEXED BY tasks_by_state
  ${ON_SQLITE.joins}
  WHERE t.account_seq = @accountId AND t.state = '${state}'
  LIMIT ${TASKS_MAX}`);

const ofTable = (table: string, endBytes: string, which = ""): Statement =>
  onlyPostgres(`
  SELECT t.seq, ${POST_BYTES} + ${endBytes} + ${ATTEMPTS_BYTES} AS bytes
  FROM (
    SELECT * FROM ${table} WHERE ${OF_ACCOUNT} ${which}
    ORDER BY account_seq, state, created_at, task_seq LIMIT ${TASKS_MAX}
  ) AS e JOIN tasks AS t ON t.seq = e.task_seq`);

export const ACCOUNT_TASKS = {
  ...Object.fromEntries(STORED_STATES.map((state) => [state, ofState(state)])),
  queue: ofTable("queue", "0", `AND ${IN_QUEUE_LISTED}`),
  ends: ofTable("ends", END_BYTES),
};

export const ACCOUNT_ANSWERS = inDialects(
  ({ rowsMax, isOwn }) => `
  SELECT key, octet_length(response_text) AS bytes FROM idempotency_keys WHERE ${isOwn}
  ORDER BY account_seq, key LIMIT ${rowsMax}`,
);

const ERASE_ANSWERS = statement(`
  DELETE FROM idempotency_keys WHERE account_seq = @accountId AND key = ANY(@keys::text[])
  RETURNING octet_length(response_text) AS bytes`);

/** The next rows of {@link ERASE_STATISTICS}, by host. */
const hoursOf = ({ isOwn, rowsMax, stripe, durations }: Dialect): string => `
  SELECT at, host, attempts, succeeded, ${durations} ${stripe} FROM host_traffic WHERE ${isOwn}
  ORDER BY account_seq, at, host ${stripe} LIMIT ${rowsMax}`;

const failuresOf = ({ isOwn, rowsMax, stripe }: Dialect): string => `
  SELECT host, ended_at, task_seq ${stripe} FROM host_failures WHERE ${isOwn}
  ORDER BY account_seq, host ${stripe} LIMIT ${rowsMax}`;

export const SUBTRACT_HOURS = inDialects(
  (of) => `
  UPDATE host_traffic AS t
  SET attempts = t.attempts - own.attempts, succeeded = t.succeeded - own.succeeded,
    ${of.durations} = (${of.subtracted})
  FROM (${hoursOf(of)}) AS own
  WHERE t.account_seq = ${ALL_ACCOUNTS} AND t.at = own.at AND t.host = own.host ${of.isSameStripe}`,
);

export const ERASE_EMPTY_HOURS = inDialects(
  (of) => `
  DELETE FROM host_traffic AS t
  WHERE account_seq = ${ALL_ACCOUNTS} AND attempts <= 0
    AND (at, host ${of.stripe}) IN (SELECT at, host ${of.stripe} FROM (${hoursOf(of)}) AS own)`,
);

export const ERASE_SHARED_FAILURES = inDialects(
  (of) => `
  DELETE FROM host_failures AS t
  WHERE account_seq = ${ALL_ACCOUNTS}
    AND (host, ended_at, task_seq ${of.stripe}) IN (${failuresOf(of)})`,
);

/**
 * Erases rows of an account in the order of the primary key, which begins with account_seq: so a part is a range.
 * PostgreSQL finds them by their places, which are valid within the statement.
 */
function erasePart(table: string, key: string): Statement {
  const part = ({ isOwn, rowsMax, stripe }: Dialect, columns: string): string =>
    `SELECT ${columns} FROM ${table} WHERE ${isOwn} ORDER BY ${key} ${stripe} LIMIT ${rowsMax}`;
  return eachDialect({
    sqlite: `DELETE FROM ${table} WHERE (${key}) IN (${part(SQLITE, key)})`,
    postgres: `DELETE FROM ${table} WHERE ctid = ANY(ARRAY(${part(POSTGRES, "ctid")}))`,
  });
}

/**
 * The last statement of each list erases a part of a table. Those before it take the part out of the rows of all accounts
 * together: a name of a host must not outlive the only account that used it.
 */
const ERASE_STATISTICS = [
  [erasePart("traffic", "account_seq, step_ms, at")],
  [SUBTRACT_HOURS, ERASE_EMPTY_HOURS, erasePart("host_traffic", "account_seq, at, host")],
  [ERASE_SHARED_FAILURES, erasePart("host_failures", "account_seq, host")],
];

const LAST = [
  statement(`DELETE FROM bulk_redeliveries WHERE filter_text::json ->> 'login' = @login`),
  statement(
    `DELETE FROM sessions WHERE key_seq IN (SELECT seq FROM keys WHERE account_seq = @accountId)`,
  ),
  ...["keys", "access_requests", "task_counts", "host_counts"].map((table) =>
    statement(`DELETE FROM ${table} WHERE account_seq = @accountId`),
  ),
  statement(`DELETE FROM accounts WHERE seq = @accountId`),
  onlySqlite(`
    INSERT INTO erased_accounts (one, last_seq) VALUES (1, @accountId)
    ON CONFLICT (one) DO UPDATE SET last_seq = max(last_seq, excluded.last_seq)`),
];

/** An account is erased part by part. */
export function accountErasureWrites(batch: Batch) {
  return {
    *eraseAccountPart({ login }) {
      yield* send(LOCK_SUSPENSION_CHANGES);
      const account = yield* get<{ seq: number; isDisabled: Flag }>(LOCK_ACCOUNT, { login });
      if (account === undefined) return { kind: "unknown" };
      if (!account.isDisabled) return { kind: "enabled" };
      const { seq: accountId } = account;
      const tasks = yield* eraseSomeTasks(batch, accountId);
      if (tasks > 0) return { kind: "more", tasks };
      if ((yield* eraseSomeRows(batch, accountId)) > 0) return { kind: "more", tasks: 0 };
      for (const erase of LAST) yield* send(erase, { login, accountId });
      return { kind: "done" };
    },
  } satisfies StoreUseCases;
}

function* eraseSomeTasks(batch: Batch, accountId: number): UseCase<number> {
  for (const select of Object.values(ACCOUNT_TASKS)) {
    const rows = yield* within<SizedRow>(select, { accountId });
    const seqs = rows.map(({ seq }) => seq);
    if (seqs.length === 0) continue;
    yield* eraseTasks(batch, seqs);
    // Another node may have erased some of them meanwhile: none of them exists any more.
    return seqs.length;
  }
  return 0;
}

function* eraseSomeRows({ changes }: Batch, accountId: number): UseCase<number> {
  const answers = yield* within<{ key: string; bytes: number }>(ACCOUNT_ANSWERS, {
    accountId,
  });
  if (answers.length > 0) {
    const keys = answers.map(({ key }) => key);
    for (const { bytes } of yield* all<{ bytes: number }>(ERASE_ANSWERS, { accountId, keys })) {
      changes.counts.add(accountId, "bytes", -(ANSWER_OVERHEAD_BYTES + bytes));
    }
    return answers.length;
  }
  for (const list of ERASE_STATISTICS) {
    const erased = yield* together<number[]>(...list.map((each) => run(each, { accountId })));
    const last = erased.at(-1) ?? 0;
    if (last > 0) return last;
  }
  return 0;
}

export const accountErasureRules = {
  eraseAccountPart: { postgresWeight: LOCKS_UNNAMED, hasEffect: ({ kind }) => kind === "done" },
} satisfies WriteRules;
