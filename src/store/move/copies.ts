import { STATE_CODES } from "../../domain/task/task.ts";

/** Columns by name, with their types on the server. */
type Columns = Readonly<Record<string, string>>;

/** Reads columns as SQL names them: `seq bigint, login text`. */
function typed(text: string): Columns {
  const pairs = text.split(",").map((column) => {
    const [name = "", ...type] = column.trim().split(" ");
    return [name, type.join(" ")] as const;
  });
  return Object.fromEntries(pairs);
}

// Tables that are the same on both sides, but for what `stripe` adds and how histograms are written.
const SAME: Readonly<Record<string, Columns>> = {
  accounts: typed(`
    seq bigint, login text, webhook_secret text, webhook_secret_next text, created_at bigint, disabled_at bigint,
    bytes_max bigint, open_tasks_max bigint, requests_per_minute bigint, tasks_per_minute bigint`),
  suspension_changes: typed("seq bigint, account_seq bigint"),
  keys: typed(`
    seq bigint, key_id text, account_seq bigint, hash text, last_four text, label text, created_at bigint,
    last_used_at bigint, revoked_at bigint`),
  access_requests: typed(`
    seq bigint, id text, email text, name text, company text, message text, created_at bigint, decision text,
    decided_at bigint, account_seq bigint`),
  workers: typed(`
    seq bigint, name text, hash text, last_four text, types_text text, created_at bigint, last_seen_at bigint,
    revoked_at bigint`),
  sessions: typed(`
    seq bigint, hash text, key_seq bigint, created_at bigint, last_seen_at bigint`),
  sign_in_links: typed("hash text, expires_at bigint"),
  queue_checkpoints: typed("seq bigint, task_seq bigint, served_ms bigint"),
  idempotency_keys: typed(`
    account_seq bigint, key text, body_hash text, response_text text, erase_at bigint`),
  delivery_pauses: typed(`
    seq bigint, account_seq bigint, host text, since bigint, reason text, paused_by text`),
  audit: typed(`
    seq bigint, at bigint, actor_kind text, actor_name text, action text, subject text, details_text text,
    address text`),
  clock_readings: typed(`
    one int, wall_at bigint, service_at bigint, uptime_ms double precision, boot_id text`),
  secrets: typed("name text, value text"),
};

const ORDERS = typed(`
  seq bigint, id text, filter_text text, per_second int, created_at bigint, last_attempt_seq bigint,
  examined_seq bigint, redelivered bigint, ended_at bigint`);

const LEASE = typed(`
  lease_id text, worker_seq bigint, claimed_at bigint, lease_ms int, deadline_at bigint`);

/** The other columns of a lease in the tables `queue` and `ends` of PostgreSQL. */
const LEASE_END = typed("lease_until bigint, lease_ending lease_ending, losses int");

const ATTEMPT = typed(`
  seq bigint, task_seq bigint, kind webhook_kind, account_seq bigint, number int, retry int, host text,
  due_at bigint, started_at bigint`);

const ATTEMPT_END = typed(`
  ended_at bigint, outcome attempt_outcome, http_status int, error text, address text, dns_ms double precision,
  connect_ms double precision, tls_ms double precision, first_byte_ms double precision, response_excerpt text,
  refusal_text text, retry_after text`);

const TRAFFIC = typed(`
  posted bigint, completed bigint, failed bigint, cancelled bigint, first_attempts bigint, first_delivered bigint,
  delivered bigint, given_up bigint, refused bigint`);

const HOST_COUNTS = typed("given_up bigint, refused bigint, retrying bigint");

const names = (columns: Columns): string => Object.keys(columns).join(", ");

/** Stands for all accounts together, in both. */
const ALL_ACCOUNTS = 0;

/** The rows of a table on the server, as a statement on a file selects them. */
export interface CopyToServer {
  readonly table: string;
  /** Its columns with their types, in the order in which the statement selects them. */
  readonly columns: Columns;
  readonly from: string;
}

// PostgreSQL writes arrays in braces.
const toArray = `'{' || substr(durations_text, 2, length(durations_text) - 2) || '}'`;

/**
 * A node that does not exist: other nodes take over running tasks and attempts in flight, as after the end of a node.
 */
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
    table: "bulk_redeliveries",
    columns: { ...ORDERS, cancelled: "boolean" },
    from: `SELECT ${names(ORDERS)}, cancelled FROM bulk_redeliveries`,
  },
  {
    table: "tasks",
    columns: typed(`
      seq bigint, id uuid, account_seq bigint, type text, tag text, marketplace text, priority smallint,
      created_at bigint, data_text text, input_text text, trace_text text`),
    from: `
      SELECT t.seq, t.id, t.account_seq, t.type, t.tag, t.marketplace, t.priority, t.created_at, t.data_text,
        i.input_text, t.trace_text
      FROM tasks AS t LEFT JOIN task_inputs AS i ON i.task_seq = t.seq ORDER BY t.seq`,
  },
  {
    table: "queue",
    columns: {
      ...typed(`
        task_seq bigint, account_seq bigint, type text, tag text, priority smallint, state task_state,
        start_at bigint, created_at bigint, pingback_host text, postback_host text, started_at bigint, runs int,
        failures int, queued_checkpoint bigint, node_seq bigint`),
      ...LEASE,
      ...LEASE_END,
    },
    from: `
      SELECT t.seq, t.account_seq, t.type, t.tag, t.priority, t.state, t.start_at, t.created_at, ${HOST_OF("pingback")},
        ${HOST_OF("postback")}, t.started_at, t.runs, t.failures, t.queued_checkpoint,
        iif(t.state = 'running' AND (l.lease_id IS NULL OR l.ending IS NOT NULL), ${NOBODY}, NULL),
        ${names(LEASE)}, l.expires_at, l.ending, coalesce(l.losses, 0)
      FROM tasks AS t LEFT JOIN leases AS l ON l.task_seq = t.seq
      WHERE t.state IN ('delayed', 'queued', 'running') ORDER BY t.seq`,
  },
  {
    table: "ends",
    columns: {
      ...typed(`
        task_seq bigint, account_seq bigint, state task_state, status_code int, status_message text,
        created_at bigint, start_at bigint, started_at bigint, completed_at bigint, expires_at bigint,
        erase_at bigint, runs int, failures int, result_text text, error_text text`),
      ...LEASE,
      ...LEASE_END,
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
    columns: typed(`
      account_seq bigint, completed_at bigint, task_seq bigint, type text, tag text`),
    from: `SELECT account_seq, completed_at, seq, type, tag FROM tasks WHERE ready = 1 ORDER BY seq`,
  },
  {
    table: "deliveries",
    columns: typed(`
      task_seq bigint, kind webhook_kind, url text, host text, ended delivery_end`),
    from: `
      SELECT task_seq, kind, url, host, ended FROM deliveries
      ORDER BY task_seq, kind`,
  },
  {
    table: "outbox",
    columns: {
      ...ATTEMPT,
      ...typed("node_seq bigint"),
    },
    from: `
      SELECT ${names(ATTEMPT)}, iif(started_at IS NULL, NULL, ${NOBODY}) FROM attempts
      WHERE ended_at IS NULL ORDER BY seq`,
  },
  {
    table: "attempts",
    columns: {
      ...ATTEMPT,
      ...ATTEMPT_END,
    },
    from: `
      SELECT ${names(ATTEMPT)}, ${names(ATTEMPT_END)} FROM attempts WHERE ended_at IS NOT NULL ORDER BY seq`,
  },
  {
    table: "task_counts",
    columns: typed("account_seq bigint, word text, stripe smallint, count bigint"),
    // And what the server keeps of all accounts together.
    from: `
      SELECT account_seq, state, 0, count FROM task_counts
      UNION ALL SELECT ${ALL_ACCOUNTS}, 'bytes', 0, coalesce(sum(count), 0) FROM task_counts WHERE state = 'bytes'`,
  },
  {
    table: "host_counts",
    columns: {
      ...typed("account_seq bigint, host text, stripe smallint"),
      ...HOST_COUNTS,
    },
    from: `SELECT account_seq, host, 0, ${names(HOST_COUNTS)} FROM host_counts`,
  },
  {
    table: "traffic",
    columns: {
      ...typed("account_seq bigint, step_ms int, at bigint, stripe smallint"),
      ...TRAFFIC,
      ...typed("queued bigint, oldest_ms bigint, durations bigint[]"),
    },
    from: `
      SELECT account_seq, step_ms, at, 0, ${names(TRAFFIC)}, queued, oldest_ms, ${toArray} FROM traffic`,
  },
  {
    table: "host_traffic",
    columns: typed(`
      account_seq bigint, at bigint, host text, stripe smallint, attempts bigint, succeeded bigint,
      durations bigint[]`),
    from: `SELECT account_seq, at, host, 0, attempts, succeeded, ${toArray} FROM host_traffic`,
  },
  {
    table: "host_failures",
    columns: typed(`
      account_seq bigint, host text, stripe smallint, ended_at bigint, error text, http_status int, task_seq bigint`),
    from: `
      SELECT account_seq, host, 0, ended_at, error, http_status, task_seq FROM host_failures`,
  },
];

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
    table: "bulk_redeliveries",
    columns: [...Object.keys(ORDERS), "cancelled"],
    from: `SELECT ${names(ORDERS)}, cancelled::int FROM bulk_redeliveries ORDER BY seq`,
  },
  {
    table: "tasks",
    columns: [
      ...["seq", "id", "account_seq", "state", "status_code", "status_message", "type", "tag"],
      ...["marketplace", "priority", "start_at", "created_at", "started_at", "completed_at"],
      ...["expires_at", "runs", "failures", "ready", "data_text", "erase_at", "queued_checkpoint"],
      "trace_text",
    ],
    from: `
      SELECT t.seq, t.id, t.account_seq, coalesce(q.state, e.state), coalesce(e.status_code, CASE q.state
          WHEN 'running' THEN ${STATE_CODES.running} ELSE ${STATE_CODES.queued} END), e.status_message, t.type, t.tag,
        t.marketplace, t.priority, ${either("start_at")}, t.created_at, ${either("started_at")}, e.completed_at,
        e.expires_at, ${either("runs")}, ${either("failures")}, (r.task_seq IS NOT NULL)::int, t.data_text, e.erase_at,
        q.queued_checkpoint, t.trace_text
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
    columns: ["task_seq", "kind", "url", "host", "ended"],
    from: `
      SELECT task_seq, kind, url, host, ended FROM deliveries ORDER BY task_seq, kind`,
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
