import { STATE_CODES } from "../../domain/task/task.ts";
import {
  ATTEMPT,
  ATTEMPT_END,
  HOST_COUNTS,
  LEASE,
  names,
  ORDERS,
  SAME,
  TRAFFIC,
  type Columns,
  ALL_ACCOUNTS,
} from "./columns.ts";

/** The rows of a table of a file, as a statement on the server selects them. */
export interface CopyToFile {
  readonly table: string;
  readonly columns: readonly string[];
  readonly from: string;
}

/** The histograms of the stripes of a row, added up, as SQLite's side writes them. */
function sumOfDurations(table: string, key: readonly string[]): string {
  const same = key.map((column) => `s.${column} = t.${column}`).join(" AND ");
  return `(
    SELECT coalesce(to_json(array_agg(n ORDER BY place))::text, '[]')
    FROM (
      SELECT place, sum(n)::bigint AS n
      FROM ${table} AS s CROSS JOIN unnest(s.durations) WITH ORDINALITY AS d (n, place)
      WHERE ${same}
      GROUP BY place
    ) AS sums
  )`;
}

const sums = (columns: Columns): string =>
  Object.keys(columns)
    .map((column) => `sum(${column})::bigint`)
    .join(", ");

// Every column of a lease stands both in queue and in ends.
const either = (column: string): string => `coalesce(q.${column}, e.${column})`;

export const TO_FILE: readonly CopyToFile[] = [
  ...Object.entries(SAME).map(([table, columns]) => ({
    table,
    columns: Object.keys(columns),
    from: `SELECT ${names(columns)} FROM ${table} ORDER BY 1`,
  })),
  {
    table: "erased_accounts",
    columns: ["one", "last_seq"],
    from: `SELECT 1, last_value FROM accounts_seq_seq WHERE is_called`,
  },
  {
    table: "redelivery_orders",
    columns: [...Object.keys(ORDERS), "cancelled"],
    from: `SELECT ${names(ORDERS)}, cancelled::int FROM redelivery_orders ORDER BY seq`,
  },
  {
    table: "tasks",
    columns: [
      ...["seq", "id", "account_seq", "state", "status_code", "status_message", "type", "tag"],
      ...["marketplace", "priority", "start_at", "created_at", "started_at", "completed_at"],
      ...["expires_at", "runs", "failures", "ready", "data_text", "erase_at", "queued_mark"],
      "trace_text",
    ],
    from: `
      SELECT t.seq, t.id, t.account_seq, coalesce(q.state, e.state), coalesce(e.status_code, CASE q.state
          WHEN 'running' THEN ${STATE_CODES.running} ELSE ${STATE_CODES.queued} END), e.status_message, t.type, t.tag,
        t.marketplace, t.priority, ${either("start_at")}, t.created_at, ${either("started_at")}, e.completed_at,
        e.expires_at, ${either("runs")}, ${either("failures")}, (r.task_seq IS NOT NULL)::int, t.data_text, e.erase_at,
        q.queued_mark, t.trace_text
      FROM tasks AS t
      LEFT JOIN queue AS q ON q.task_seq = t.seq
      LEFT JOIN ends AS e ON e.task_seq = t.seq
      LEFT JOIN ready AS r ON r.task_seq = t.seq
      ORDER BY t.seq`,
  },
  {
    table: "task_inputs",
    columns: ["task_seq", "input_text"],
    from: `SELECT seq, input_text FROM tasks WHERE input_text IS NOT NULL ORDER BY seq`,
  },
  {
    table: "task_results",
    columns: ["task_seq", "result_text", "error_text"],
    from: `SELECT task_seq, result_text, error_text FROM ends WHERE state <> 'cancelled' ORDER BY task_seq`,
  },
  {
    table: "leases",
    columns: ["task_seq", ...Object.keys(LEASE), "expires_at", "ending", "losses"],
    from: `
      SELECT t.seq, ${Object.keys(LEASE).map(either).join(", ")}, ${either("lease_until")},
        coalesce(q.lease_ending, e.lease_ending), ${either("losses")}
      FROM tasks AS t
      LEFT JOIN queue AS q ON q.task_seq = t.seq
      LEFT JOIN ends AS e ON e.task_seq = t.seq
      WHERE ${either("lease_id")} IS NOT NULL
      ORDER BY t.seq`,
  },
  {
    table: "deliveries",
    columns: ["task_seq", "kind", "url", "host", "state"],
    from: `
      SELECT d.task_seq, d.kind, d.url, d.host,
        coalesce(d.ended::text, CASE WHEN o.seq IS NULL THEN 'waiting' ELSE 'open' END)
      FROM deliveries AS d LEFT JOIN outbox AS o ON o.task_seq = d.task_seq AND o.kind = d.kind
      ORDER BY d.task_seq, d.kind`,
  },
  {
    table: "attempts",
    columns: [...Object.keys(ATTEMPT), ...Object.keys(ATTEMPT_END)],
    from: `
      SELECT ${names(ATTEMPT)}, ${names(ATTEMPT_END)} FROM attempts
      UNION ALL
      SELECT ${names(ATTEMPT)}, ${Object.values(ATTEMPT_END)
        .map((type) => `NULL::${type}`)
        .join(", ")}
      FROM outbox
      ORDER BY seq`,
  },
  {
    table: "task_counts",
    columns: ["account_seq", "state", "count"],
    from: `
      SELECT account_seq, word, CASE WHEN word LIKE 'ever\\_%' THEN 1 ELSE sum(count)::bigint END FROM task_counts
      WHERE account_seq > ${ALL_ACCOUNTS}
      GROUP BY account_seq, word`,
  },
  {
    table: "host_counts",
    columns: ["account_seq", "host", ...Object.keys(HOST_COUNTS)],
    from: `
      SELECT account_seq, host, ${sums(HOST_COUNTS)} FROM host_counts GROUP BY account_seq, host
      HAVING sum(given_up) <> 0 OR sum(refused) <> 0 OR sum(retrying) <> 0`,
  },
  {
    table: "traffic",
    columns: [
      ...["account_seq", "step_ms", "at", ...Object.keys(TRAFFIC), "queued", "oldest_ms"],
      "durations_text",
    ],
    from: `
      SELECT account_seq, step_ms, at, ${sums(TRAFFIC)}, max(queued), max(oldest_ms),
        ${sumOfDurations("traffic", ["account_seq", "step_ms", "at"])}
      FROM traffic AS t GROUP BY account_seq, step_ms, at`,
  },
  {
    table: "host_traffic",
    columns: ["account_seq", "at", "host", "attempts", "succeeded", "durations_text"],
    from: `
      SELECT account_seq, at, host, sum(attempts)::bigint, sum(succeeded)::bigint,
        ${sumOfDurations("host_traffic", ["account_seq", "at", "host"])}
      FROM host_traffic AS t GROUP BY account_seq, at, host`,
  },
  {
    table: "host_failures",
    columns: ["account_seq", "host", "ended_at", "error", "http_status", "task_seq"],
    from: `
      SELECT DISTINCT ON (account_seq, host) account_seq, host, ended_at, error, http_status, task_seq
      FROM host_failures ORDER BY account_seq, host, ended_at DESC`,
  },
];
