/** The columns that both databases have, with their types on the server. */

export type Columns = Readonly<Record<string, string>>;

// Tables that are the same on both sides, but for what `stripe` adds and how histograms are written.
export const SAME: Readonly<Record<string, Columns>> = {
  accounts: {
    seq: "bigint",
    login: "text",
    webhook_secret: "text",
    webhook_secret_next: "text",
    created_at: "bigint",
    disabled_at: "bigint",
    bytes_max: "bigint",
    open_tasks_max: "bigint",
    requests_per_minute: "bigint",
    tasks_per_minute: "bigint",
  },
  hold_changes: { seq: "bigint", account_seq: "bigint" },
  keys: {
    seq: "bigint",
    key_id: "text",
    account_seq: "bigint",
    hash: "text",
    last_four: "text",
    label: "text",
    created_at: "bigint",
    last_used_at: "bigint",
    revoked_at: "bigint",
  },
  access_requests: {
    seq: "bigint",
    id: "text",
    email: "text",
    name: "text",
    company: "text",
    message: "text",
    created_at: "bigint",
    decision: "text",
    decided_at: "bigint",
    account_seq: "bigint",
  },
  workers: {
    seq: "bigint",
    name: "text",
    hash: "text",
    last_four: "text",
    types_text: "text",
    created_at: "bigint",
    last_seen_at: "bigint",
    revoked_at: "bigint",
  },
  sessions: {
    seq: "bigint",
    hash: "text",
    key_seq: "bigint",
    created_at: "bigint",
    last_seen_at: "bigint",
  },
  sign_in_links: { hash: "text", expires_at: "bigint" },
  queue_marks: { seq: "bigint", task_seq: "bigint", served_ms: "bigint" },
  idempotency_keys: {
    account_seq: "bigint",
    key: "text",
    body_hash: "text",
    answer_text: "text",
    erase_at: "bigint",
  },
  delivery_holds: {
    seq: "bigint",
    account_seq: "bigint",
    host: "text",
    since: "bigint",
    reason: "text",
    held_by: "text",
  },
  audit: {
    seq: "bigint",
    at: "bigint",
    actor_kind: "text",
    actor_name: "text",
    action: "text",
    subject: "text",
    details_text: "text",
    address: "text",
  },
  clock_readings: {
    one: "int",
    wall_at: "bigint",
    steady_at: "bigint",
    uptime_ms: "double precision",
    boot_id: "text",
  },
  secrets: { name: "text", value: "text" },
};

export const ORDERS = {
  seq: "bigint",
  id: "text",
  filter_text: "text",
  per_second: "int",
  created_at: "bigint",
  last_attempt_seq: "bigint",
  examined_seq: "bigint",
  redelivered: "bigint",
  ended_at: "bigint",
};

export const LEASE = {
  lease_id: "text",
  worker_seq: "bigint",
  claimed_at: "bigint",
  lease_ms: "int",
  deadline_at: "bigint",
};

export const ATTEMPT = {
  seq: "bigint",
  task_seq: "bigint",
  kind: "webhook_kind",
  account_seq: "bigint",
  number: "int",
  retry: "int",
  host: "text",
  due_at: "bigint",
  started_at: "bigint",
};

export const ATTEMPT_END = {
  ended_at: "bigint",
  outcome: "attempt_outcome",
  http_status: "int",
  error: "text",
  address: "text",
  dns_ms: "double precision",
  connect_ms: "double precision",
  tls_ms: "double precision",
  first_byte_ms: "double precision",
  response_excerpt: "text",
  refusal_text: "text",
  retry_after: "text",
};

export const TRAFFIC = {
  posted: "bigint",
  completed: "bigint",
  failed: "bigint",
  cancelled: "bigint",
  first_attempts: "bigint",
  first_delivered: "bigint",
  delivered: "bigint",
  given_up: "bigint",
  refused: "bigint",
};

export const HOST_COUNTS = { given_up: "bigint", refused: "bigint", retrying: "bigint" };

export const names = (columns: Columns): string => Object.keys(columns).join(", ");

/** Stands for all accounts together, in both. */
export const ALL_ACCOUNTS = 0;
