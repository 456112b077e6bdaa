import {
  ATTEMPT,
  ATTEMPT_END,
  HOST_COUNTS,
  LEASE,
  names,
  ORDERS,
  SAME,
  TRAFFIC,
  ALL_ACCOUNTS,
} from "./columns.ts";

/** The rows of a table on the server, as a statement on a file selects them. */
export interface CopyToServer {
  readonly table: string;
  /** Its columns with their types, in the order in which the statement selects them. */
  readonly columns: Readonly<Record<string, string>>;
  readonly from: string;
}

// PostgreSQL writes arrays in braces.
const toArray = `'{' || substr(durations_text, 2, length(durations_text) - 2) || '}'`;

/** A node that does not exist: what was running or in flight is taken over as that of a node that has ended. */
const NOBODY = 0;

const HOST_OF = (kind: string): string =>
  `(SELECT host FROM deliveries WHERE task_seq = t.seq AND kind = '${kind}')`;

export const TO_SERVER: readonly CopyToServer[] = [
  ...Object.entries(SAME).map(([table, columns]) => ({
    table,
    columns,
    from: `SELECT ${names(columns)} FROM ${table}`,
  })),
  {
    table: "redelivery_orders",
    columns: { ...ORDERS, cancelled: "boolean" },
    from: `SELECT ${names(ORDERS)}, cancelled FROM redelivery_orders`,
  },
  {
    table: "tasks",
    columns: {
      seq: "bigint",
      id: "uuid",
      account_seq: "bigint",
      type: "text",
      tag: "text",
      marketplace: "text",
      priority: "smallint",
      created_at: "bigint",
      data_text: "text",
      input_text: "text",
      trace_text: "text",
    },
    from: `
      SELECT t.seq, t.id, t.account_seq, t.type, t.tag, t.marketplace, t.priority, t.created_at, t.data_text,
        i.input_text, t.trace_text
      FROM tasks AS t LEFT JOIN task_inputs AS i ON i.task_seq = t.seq ORDER BY t.seq`,
  },
  {
    table: "queue",
    columns: {
      task_seq: "bigint",
      account_seq: "bigint",
      type: "text",
      tag: "text",
      priority: "smallint",
      state: "task_state",
      start_at: "bigint",
      created_at: "bigint",
      pingback_host: "text",
      postback_host: "text",
      started_at: "bigint",
      runs: "int",
      failures: "int",
      queued_mark: "bigint",
      node_seq: "bigint",
      ...LEASE,
      lease_until: "bigint",
      lease_ending: "lease_ending",
      losses: "int",
    },
    from: `
      SELECT t.seq, t.account_seq, t.type, t.tag, t.priority, t.state, t.start_at, t.created_at, ${HOST_OF("pingback")},
        ${HOST_OF("postback")}, t.started_at, t.runs, t.failures, t.queued_mark,
        iif(t.state = 'running' AND (l.lease_id IS NULL OR l.ending IS NOT NULL), ${NOBODY}, NULL),
        ${names(LEASE)}, l.expires_at, l.ending, coalesce(l.losses, 0)
      FROM tasks AS t LEFT JOIN leases AS l ON l.task_seq = t.seq
      WHERE t.state IN ('delayed', 'queued', 'running') ORDER BY t.seq`,
  },
  {
    table: "ends",
    columns: {
      task_seq: "bigint",
      account_seq: "bigint",
      state: "task_state",
      status_code: "int",
      status_message: "text",
      created_at: "bigint",
      start_at: "bigint",
      started_at: "bigint",
      completed_at: "bigint",
      expires_at: "bigint",
      erase_at: "bigint",
      runs: "int",
      failures: "int",
      result_text: "text",
      error_text: "text",
      ...LEASE,
      lease_until: "bigint",
      lease_ending: "lease_ending",
      losses: "int",
    },
    from: `
      SELECT t.seq, t.account_seq, t.state, t.status_code, t.status_message, t.created_at, t.start_at, t.started_at,
        t.completed_at, t.expires_at, coalesce(t.erase_at, t.expires_at), t.runs, t.failures, r.result_text, r.error_text,
        ${names(LEASE)}, l.expires_at, l.ending, coalesce(l.losses, 0)
      FROM tasks AS t
      LEFT JOIN task_results AS r ON r.task_seq = t.seq
      LEFT JOIN leases AS l ON l.task_seq = t.seq
      WHERE t.state IN ('completed', 'failed', 'cancelled') ORDER BY t.seq`,
  },
  {
    table: "ready",
    columns: {
      account_seq: "bigint",
      completed_at: "bigint",
      task_seq: "bigint",
      type: "text",
      tag: "text",
    },
    from: `SELECT account_seq, completed_at, seq, type, tag FROM tasks WHERE ready = 1 ORDER BY seq`,
  },
  {
    table: "deliveries",
    columns: {
      task_seq: "bigint",
      kind: "webhook_kind",
      url: "text",
      host: "text",
      ended: "delivery_end",
    },
    from: `
      SELECT task_seq, kind, url, host, iif(state IN ('waiting', 'open'), NULL, state) FROM deliveries
      ORDER BY task_seq, kind`,
  },
  {
    table: "outbox",
    columns: { ...ATTEMPT, node_seq: "bigint" },
    from: `
      SELECT ${names(ATTEMPT)}, iif(started_at IS NULL, NULL, ${NOBODY}) FROM attempts
      WHERE ended_at IS NULL ORDER BY seq`,
  },
  {
    table: "attempts",
    columns: { ...ATTEMPT, ...ATTEMPT_END },
    from: `
      SELECT ${names(ATTEMPT)}, ${names(ATTEMPT_END)} FROM attempts WHERE ended_at IS NOT NULL ORDER BY seq`,
  },
  {
    table: "task_counts",
    columns: { account_seq: "bigint", word: "text", stripe: "smallint", count: "bigint" },
    // And what the server keeps of all accounts together.
    from: `
      SELECT account_seq, state, 0, count FROM task_counts
      UNION ALL SELECT ${ALL_ACCOUNTS}, 'bytes', 0, coalesce(sum(count), 0) FROM task_counts WHERE state = 'bytes'`,
  },
  {
    table: "host_counts",
    columns: { account_seq: "bigint", host: "text", stripe: "smallint", ...HOST_COUNTS },
    from: `SELECT account_seq, host, 0, ${names(HOST_COUNTS)} FROM host_counts`,
  },
  {
    table: "traffic",
    columns: {
      account_seq: "bigint",
      step_ms: "int",
      at: "bigint",
      stripe: "smallint",
      ...TRAFFIC,
      queued: "bigint",
      oldest_ms: "bigint",
      durations: "bigint[]",
    },
    from: `
      SELECT account_seq, step_ms, at, 0, ${names(TRAFFIC)}, queued, oldest_ms, ${toArray} FROM traffic`,
  },
  {
    table: "host_traffic",
    columns: {
      account_seq: "bigint",
      at: "bigint",
      host: "text",
      stripe: "smallint",
      attempts: "bigint",
      succeeded: "bigint",
      durations: "bigint[]",
    },
    from: `SELECT account_seq, at, host, 0, attempts, succeeded, ${toArray} FROM host_traffic`,
  },
  {
    table: "host_failures",
    columns: {
      account_seq: "bigint",
      host: "text",
      stripe: "smallint",
      ended_at: "bigint",
      error: "text",
      http_status: "int",
      task_seq: "bigint",
    },
    from: `
      SELECT account_seq, host, 0, ended_at, error, http_status, task_seq FROM host_failures`,
  },
];
