import type { Migration } from "./machine/migrate.ts";

/** The version that schema.sql describes. */
export const SCHEMA_VERSION = 11;

const TO_2 = `
  DROP INDEX keys_by_account;
  DROP INDEX attempts_by_delivery;
  CREATE INDEX attempts_by_delivery ON attempts (task_seq, kind);
  CREATE INDEX keys_active ON keys (account_seq) WHERE revoked_at IS NULL;
  CREATE INDEX keys_revoked ON keys (account_seq, revoked_at) WHERE revoked_at IS NOT NULL;

  CREATE TABLE access_requests (
    seq         INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE,
    email       TEXT    NOT NULL,
    name        TEXT,
    company     TEXT,
    message     TEXT,
    created_at  INTEGER NOT NULL,
    decision    TEXT    CHECK (decision IN ('approved', 'denied')),
    decided_at  INTEGER,
    account_seq INTEGER REFERENCES accounts (seq)
  ) STRICT;
  CREATE INDEX access_requests_pending ON access_requests (seq) WHERE decision IS NULL;
  CREATE INDEX access_requests_decided ON access_requests (decided_at) WHERE decision IS NOT NULL;

  CREATE INDEX tasks_by_state ON tasks (account_seq, state, created_at);
  CREATE INDEX tasks_by_type ON tasks (account_seq, type, created_at);
  CREATE INDEX tasks_by_tag ON tasks (account_seq, tag, created_at) WHERE tag IS NOT NULL;

  CREATE TABLE task_counts (
    account_seq INTEGER NOT NULL REFERENCES accounts (seq),
    state       TEXT    NOT NULL,
    count       INTEGER NOT NULL,
    PRIMARY KEY (account_seq, state)
  ) STRICT, WITHOUT ROWID;
  INSERT INTO task_counts (account_seq, state, count)
  SELECT account_seq, CASE state WHEN 'delayed' THEN 'queued' ELSE state END AS shown, count(*)
  FROM tasks
  GROUP BY account_seq, shown;

  CREATE TABLE idempotency_keys (
    seq         INTEGER PRIMARY KEY,
    account_seq INTEGER NOT NULL REFERENCES accounts (seq),
    key         TEXT    NOT NULL,
    body_hash   TEXT    NOT NULL,
    answer_text TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    UNIQUE (account_seq, key)
  ) STRICT;
  CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);`;

const TO_3 = `
  ALTER TABLE attempts ADD COLUMN retry_after TEXT;

  CREATE TABLE redelivery_orders (
    seq              INTEGER PRIMARY KEY,
    id               TEXT    NOT NULL UNIQUE,
    filter_text      TEXT    NOT NULL,
    per_second       INTEGER NOT NULL,
    created_at       INTEGER NOT NULL,
    last_attempt_seq INTEGER NOT NULL,
    examined_seq     INTEGER NOT NULL DEFAULT 0,
    redelivered      INTEGER NOT NULL DEFAULT 0,
    ended_at         INTEGER,
    cancelled        INTEGER NOT NULL DEFAULT 0 CHECK (cancelled IN (0, 1))
  ) STRICT;
  CREATE INDEX redelivery_orders_open ON redelivery_orders (seq) WHERE ended_at IS NULL;
  CREATE INDEX redelivery_orders_ended ON redelivery_orders (ended_at) WHERE ended_at IS NOT NULL;`;

const TO_4 = `
  DROP INDEX tasks_queued;
  CREATE INDEX tasks_queued ON tasks (type, account_seq, priority DESC, seq) WHERE state = 'queued';

  CREATE TABLE workers (
    seq          INTEGER PRIMARY KEY,
    name         TEXT    NOT NULL,
    hash         TEXT    NOT NULL UNIQUE,
    last_four    TEXT    NOT NULL,
    types_text   TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    last_seen_at INTEGER,
    revoked_at   INTEGER
  ) STRICT;

  CREATE UNIQUE INDEX workers_active ON workers (name) WHERE revoked_at IS NULL;

  CREATE TABLE leases (
    task_seq    INTEGER PRIMARY KEY REFERENCES tasks (seq) ON DELETE CASCADE,
    lease_id    TEXT    NOT NULL,
    worker_seq  INTEGER NOT NULL REFERENCES workers (seq),
    claimed_at  INTEGER NOT NULL,
    lease_ms    INTEGER NOT NULL,
    deadline_at INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    ending      TEXT CHECK (ending IN ('completed', 'failed', 'released', 'expired', 'timed_out', 'cancelled')),
    losses      INTEGER NOT NULL DEFAULT 0
  ) STRICT;

  CREATE INDEX leases_held ON leases (expires_at) WHERE ending IS NULL;`;

const TO_5 = `
  CREATE INDEX deliveries_failed ON deliveries (task_seq, host, state)
    WHERE state IN ('given_up', 'refused');
  CREATE INDEX attempts_retrying ON attempts (task_seq) WHERE started_at IS NULL AND retry > 0;

  INSERT INTO task_counts (account_seq, state, count)
  SELECT account_seq, 'ready', count(*) FROM tasks WHERE ready = 1 GROUP BY account_seq;
  INSERT INTO task_counts (account_seq, state, count)
  SELECT t.account_seq, 'retrying', count(*)
  FROM attempts AS a JOIN tasks AS t ON t.seq = a.task_seq
  WHERE a.ended_at IS NULL AND a.retry > 0
  GROUP BY t.account_seq;
  INSERT INTO task_counts (account_seq, state, count)
  SELECT t.account_seq, 'undelivered', count(*)
  FROM deliveries AS d JOIN tasks AS t ON t.seq = d.task_seq
  WHERE d.state IN ('given_up', 'refused')
  GROUP BY t.account_seq;
  INSERT INTO task_counts (account_seq, state, count)
  SELECT DISTINCT t.account_seq, 'ever_webhook', 1
  FROM deliveries AS d JOIN tasks AS t ON t.seq = d.task_seq;
  INSERT INTO task_counts (account_seq, state, count)
  SELECT DISTINCT t.account_seq, 'ever_delivered', 1
  FROM deliveries AS d JOIN tasks AS t ON t.seq = d.task_seq
  WHERE d.state = 'delivered';
  INSERT INTO task_counts (account_seq, state, count)
  SELECT DISTINCT account_seq, 'ever_collected', 1
  FROM tasks
  WHERE state IN ('completed', 'failed') AND ready = 0 AND runs > 0;

  CREATE TABLE sessions (
    seq          INTEGER PRIMARY KEY,
    hash         TEXT    NOT NULL UNIQUE,
    key_seq      INTEGER REFERENCES keys (seq),
    created_at   INTEGER NOT NULL,
    last_seen_at INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX sessions_by_age ON sessions (created_at);
  CREATE INDEX sessions_by_key ON sessions (key_seq, seq);
  CREATE TABLE sign_in_links (
    hash       TEXT    PRIMARY KEY,
    expires_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE traffic (
    account_seq     INTEGER NOT NULL,
    step_ms         INTEGER NOT NULL CHECK (step_ms IN (60000, 3600000)),
    at              INTEGER NOT NULL,
    posted          INTEGER NOT NULL DEFAULT 0,
    completed       INTEGER NOT NULL DEFAULT 0,
    failed          INTEGER NOT NULL DEFAULT 0,
    cancelled       INTEGER NOT NULL DEFAULT 0,
    first_attempts  INTEGER NOT NULL DEFAULT 0,
    first_delivered INTEGER NOT NULL DEFAULT 0,
    delivered       INTEGER NOT NULL DEFAULT 0,
    given_up        INTEGER NOT NULL DEFAULT 0,
    refused         INTEGER NOT NULL DEFAULT 0,
    queued          INTEGER NOT NULL DEFAULT 0,
    oldest_ms       INTEGER NOT NULL DEFAULT 0,
    durations_text  TEXT    NOT NULL DEFAULT '[]',
    PRIMARY KEY (account_seq, step_ms, at)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX traffic_by_age ON traffic (step_ms, at);
  CREATE TABLE host_traffic (
    account_seq INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    host        TEXT    NOT NULL,
    attempts    INTEGER NOT NULL DEFAULT 0,
    succeeded   INTEGER NOT NULL DEFAULT 0,
    durations_text TEXT NOT NULL DEFAULT '[]',
    PRIMARY KEY (account_seq, at, host)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX host_traffic_by_age ON host_traffic (at);

  CREATE TABLE host_failures (
    account_seq INTEGER NOT NULL,
    host        TEXT    NOT NULL,
    ended_at    INTEGER NOT NULL,
    error       TEXT,
    http_status INTEGER,
    task_seq    INTEGER NOT NULL,
    PRIMARY KEY (account_seq, host)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX host_failures_by_age ON host_failures (ended_at);`;

// From now on retention goes by the steady clock, which begins at the next start with the wall clock.
const TO_6 = `
  ALTER TABLE tasks ADD COLUMN erase_at INTEGER;
  DROP INDEX tasks_expiring;
  UPDATE tasks SET erase_at = expires_at WHERE expires_at IS NOT NULL;
  CREATE INDEX tasks_expiring ON tasks (erase_at) WHERE erase_at IS NOT NULL;

  ALTER TABLE idempotency_keys RENAME COLUMN created_at TO erase_at;
  UPDATE idempotency_keys SET erase_at = erase_at + 86400000;

  CREATE TABLE clock_readings (
    one       INTEGER PRIMARY KEY CHECK (one = 1),
    wall_at   INTEGER NOT NULL,
    steady_at INTEGER NOT NULL,
    uptime_ms REAL    NOT NULL,
    boot_id   TEXT
  ) STRICT;

  CREATE TABLE secrets (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;

  INSERT INTO task_counts (account_seq, state, count)
  SELECT account_seq, 'delayed', count(*) FROM tasks WHERE state = 'delayed' GROUP BY account_seq;
  UPDATE task_counts
  SET count = count - (
    SELECT count(*) FROM tasks
    WHERE tasks.account_seq = task_counts.account_seq AND tasks.state = 'delayed'
  )
  WHERE state = 'queued';`;

// The limits of an account, and its usage so far.
const QUOTAS_TO_7 = `
  ALTER TABLE accounts ADD COLUMN bytes_max INTEGER;
  ALTER TABLE accounts ADD COLUMN open_tasks_max INTEGER;
  ALTER TABLE accounts ADD COLUMN requests_per_minute INTEGER;
  ALTER TABLE accounts ADD COLUMN tasks_per_minute INTEGER;

  INSERT INTO task_counts (account_seq, state, count)
  SELECT t.account_seq, 'bytes', sum(
    512 + octet_length(t.data_text) + coalesce(octet_length(i.input_text), 0)
    + coalesce(octet_length(r.result_text), 0) + coalesce(octet_length(r.error_text), 0)
  )
  FROM tasks AS t
  LEFT JOIN task_inputs AS i ON i.task_seq = t.seq
  LEFT JOIN task_results AS r ON r.task_seq = t.seq
  GROUP BY t.account_seq;`;

// How long a task may wait before it is started.
const QUEUE_TO_7 = `
  ALTER TABLE tasks ADD COLUMN queued_mark INTEGER;
  CREATE TABLE queue_marks (
    seq       INTEGER PRIMARY KEY,
    task_seq  INTEGER NOT NULL,
    served_ms INTEGER NOT NULL DEFAULT 0
  ) STRICT;
  CREATE TABLE erased_accounts (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    last_seq INTEGER NOT NULL
  ) STRICT;`;

// Disabled accounts, whose work is held.
const HOLDS_TO_7 = `
  CREATE INDEX accounts_disabled ON accounts (seq) WHERE disabled_at IS NOT NULL;
  CREATE INDEX accounts_enabled ON accounts (seq) WHERE disabled_at IS NULL;

  CREATE TABLE hold_changes (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    account_seq INTEGER NOT NULL UNIQUE REFERENCES accounts (seq) ON DELETE CASCADE
  ) STRICT;
  INSERT INTO hold_changes (account_seq) SELECT seq FROM accounts WHERE disabled_at IS NOT NULL;`;

// A lane belongs to an account and a host.
const LANES_TO_7 = `
  ALTER TABLE attempts ADD COLUMN account_seq INTEGER NOT NULL DEFAULT 0;
  DROP INDEX attempts_due;
  UPDATE attempts SET account_seq = coalesce((SELECT account_seq FROM tasks WHERE seq = task_seq), 0);
  CREATE INDEX attempts_due ON attempts (account_seq, host, retry, due_at) WHERE started_at IS NULL;`;

const TO_7 = [QUOTAS_TO_7, QUEUE_TO_7, HOLDS_TO_7, LANES_TO_7].join("\n");

// The counts for each host. Retries are found in two indexes, not in the whole log.
const TO_8 = `
  CREATE TABLE host_counts (
    account_seq INTEGER NOT NULL REFERENCES accounts (seq),
    host        TEXT    NOT NULL,
    given_up    INTEGER NOT NULL DEFAULT 0,
    refused     INTEGER NOT NULL DEFAULT 0,
    retrying    INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (account_seq, host)
  ) STRICT, WITHOUT ROWID;

  INSERT INTO host_counts (account_seq, host, given_up, refused, retrying)
  SELECT account_seq, host, sum(given_up), sum(refused), sum(retrying)
  FROM (
    SELECT t.account_seq, d.host, d.state = 'given_up' AS given_up, d.state = 'refused' AS refused, 0 AS retrying
    FROM deliveries AS d INDEXED BY deliveries_failed
    CROSS JOIN tasks AS t ON t.seq = d.task_seq
    WHERE d.state IN ('given_up', 'refused')
    UNION ALL
    SELECT account_seq, host, 0, 0, 1 FROM attempts INDEXED BY attempts_retrying
    WHERE started_at IS NULL AND retry > 0
    UNION ALL
    SELECT account_seq, host, 0, 0, 1 FROM attempts INDEXED BY attempts_in_flight
    WHERE started_at IS NOT NULL AND ended_at IS NULL AND retry > 0
  )
  GROUP BY account_seq, host;`;

// Attempts and kept answers are bytes of their account too.
const TO_9 = `
  INSERT INTO task_counts (account_seq, state, count)
  SELECT account_seq, 'bytes', sum(bytes)
  FROM (
    SELECT account_seq,
      192 + coalesce(octet_length(error), 0) + coalesce(octet_length(response_excerpt), 0)
        + coalesce(octet_length(refusal_text), 0) + coalesce(octet_length(retry_after), 0) AS bytes
    FROM attempts
    WHERE ended_at IS NOT NULL
    UNION ALL
    SELECT account_seq, 512 + octet_length(answer_text) FROM idempotency_keys
  )
  WHERE account_seq IN (SELECT seq FROM accounts)
  GROUP BY account_seq
  ON CONFLICT (account_seq, state) DO UPDATE SET count = count + excluded.count;`;

// Traces of tasks, holds of deliveries, and the audit.
const TO_10 = `
  ALTER TABLE tasks ADD COLUMN trace_text TEXT;

  CREATE TABLE delivery_holds (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    account_seq INTEGER REFERENCES accounts (seq) ON DELETE CASCADE,
    host        TEXT,
    since       INTEGER NOT NULL,
    reason      TEXT,
    held_by     TEXT    NOT NULL
  ) STRICT;

  CREATE UNIQUE INDEX delivery_holds_scope ON delivery_holds (coalesce(account_seq, 0), coalesce(host, ''));

  CREATE TABLE audit (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    at           INTEGER NOT NULL,
    actor_kind   TEXT    NOT NULL CHECK (actor_kind IN ('operator', 'account', 'user', 'daemon', 'nobody')),
    actor_name   TEXT,
    action       TEXT    NOT NULL,
    subject      TEXT,
    details_text TEXT,
    address      TEXT
  ) STRICT;

  CREATE INDEX audit_by_action ON audit (action, seq);
  CREATE INDEX audit_by_age ON audit (at);

  CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
  BEGIN
    SELECT RAISE(ABORT, 'the audit is append-only');
  END;
  CREATE TRIGGER audit_is_erased_from_its_beginning BEFORE DELETE ON audit
  WHEN OLD.seq > (SELECT min(seq) FROM audit)
  BEGIN
    SELECT RAISE(ABORT, 'the audit is erased from its beginning');
  END;`;

// The words of the audit about pauses of deliveries.
const TO_11 = `
  DROP TRIGGER audit_is_not_changed;

  UPDATE audit SET action = CASE action WHEN 'delivery.held' THEN 'delivery.paused' ELSE 'delivery.resumed' END
  WHERE action IN ('delivery.held', 'delivery.released');

  CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
  BEGIN
    SELECT RAISE(ABORT, 'the audit is append-only');
  END;`;

/** Steps from older files to the current schema, oldest first. Released steps never change. */
export const MIGRATIONS: readonly Migration[] = [
  { to: 2, sql: TO_2 },
  { to: 3, sql: TO_3 },
  { to: 4, sql: TO_4 },
  { to: 5, sql: TO_5 },
  { to: 6, sql: TO_6 },
  { to: 7, sql: TO_7 },
  { to: 8, sql: TO_8 },
  { to: 9, sql: TO_9 },
  { to: 10, sql: TO_10 },
  { to: 11, sql: TO_11 },
];
