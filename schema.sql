-- The database of postbackd, version 13: one SQLite file in WAL mode. Every table is STRICT.
--
-- - Times are milliseconds since the epoch, UTC, as the machine's clock showed them.
-- - `erase_at` is a time of the service clock. It starts at the machine's clock, then counts elapsed time only
--   (clock_readings). Setting the machine's clock does not change it.
-- - Columns named *_text hold JSON text exactly as clients see it.
-- - `seq` numbers rows in the order of their insertion. It joins tables and pages through lists; clients see ids only.
-- - A query repeats the WHERE of a partial index literally, else SQLite does not use the index.
--   test/store/query-plans.test.ts checks that each query that runs per task or per tick uses its index.

CREATE TABLE accounts (
  seq                 INTEGER PRIMARY KEY,
  login               TEXT    NOT NULL UNIQUE,
  webhook_secret      TEXT    NOT NULL,
  -- The secret that signs after the rotation in progress; NULL if no rotation is in progress.
  webhook_secret_next TEXT,
  created_at          INTEGER NOT NULL,
  disabled_at         INTEGER,
  -- The account's own limits. NULL applies the configured limit, 0 removes it.
  bytes_max           INTEGER,
  open_tasks_max      INTEGER,
  requests_per_minute INTEGER,
  tasks_per_minute    INTEGER
) STRICT;

-- Lists the suspended accounts; finds the next enabled account, for a claim that skips suspended accounts.
CREATE INDEX accounts_disabled ON accounts (seq) WHERE disabled_at IS NOT NULL;
CREATE INDEX accounts_enabled ON accounts (seq) WHERE disabled_at IS NULL;

-- The last disabling or enabling of each account, numbered in the order of these changes. The daemon reads the rows
-- after the last `seq` that it has applied. AUTOINCREMENT, because a number must not be used again after an erased
-- account.
CREATE TABLE suspension_changes (
  seq         INTEGER PRIMARY KEY AUTOINCREMENT,
  account_seq INTEGER NOT NULL UNIQUE REFERENCES accounts (seq) ON DELETE CASCADE
) STRICT;

-- The highest seq of an erased account. A new account gets a higher seq.
CREATE TABLE erased_accounts (
  one      INTEGER PRIMARY KEY CHECK (one = 1),
  last_seq INTEGER NOT NULL
) STRICT;

CREATE TABLE keys (
  seq          INTEGER PRIMARY KEY,
  key_id       TEXT    NOT NULL UNIQUE,
  account_seq  INTEGER NOT NULL REFERENCES accounts (seq),
  -- SHA-256 in hex. Every authentication reads the index that UNIQUE creates.
  hash         TEXT    NOT NULL UNIQUE,
  last_four    TEXT    NOT NULL,
  label        TEXT,
  created_at   INTEGER NOT NULL,
  last_used_at INTEGER,
  revoked_at   INTEGER
) STRICT;

-- Count and list an account's active keys and its last revoked keys. Two indexes, because the number of revoked keys
-- has no limit.
CREATE INDEX keys_active ON keys (account_seq) WHERE revoked_at IS NULL;
CREATE INDEX keys_revoked ON keys (account_seq, revoked_at) WHERE revoked_at IS NOT NULL;

-- Access requests of people without a key. The sweep erases them after the retention period of the decision.
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
  -- The account that the approval created.
  account_seq INTEGER REFERENCES accounts (seq)
) STRICT;

-- List and count the requests that wait for the operator; find the decided requests that the sweep erases.
CREATE INDEX access_requests_pending ON access_requests (seq) WHERE decision IS NULL;
CREATE INDEX access_requests_decided ON access_requests (decided_at) WHERE decision IS NOT NULL;

-- A narrow table, because a task's row is rewritten three or four times. Its input and result are written once.
CREATE TABLE tasks (
  seq            INTEGER PRIMARY KEY,
  id             TEXT    NOT NULL UNIQUE,
  account_seq    INTEGER NOT NULL REFERENCES accounts (seq),
  -- A `delayed` task waits for start_at, which the client or a retry has set. Clients see it as queued. It has its own
  -- state so that a claim reads only tasks that may start.
  state          TEXT    NOT NULL
                 CHECK (state IN ('delayed', 'queued', 'running', 'completed', 'failed', 'cancelled')),
  status_code    INTEGER NOT NULL,
  -- NULL if the status table has the message.
  status_message TEXT,
  type           TEXT,
  tag            TEXT,
  marketplace    TEXT,
  priority       INTEGER NOT NULL DEFAULT 0,
  start_at       INTEGER,
  created_at     INTEGER NOT NULL,
  started_at     INTEGER,
  completed_at   INTEGER,
  -- The time that clients and receivers received; never changed.
  expires_at     INTEGER,
  runs           INTEGER NOT NULL DEFAULT 0,
  -- Runs that failed or timed out. Runs that a crash interrupted do not count.
  failures       INTEGER NOT NULL DEFAULT 0,
  -- 1 while tasks_ready lists the task: a run has finished it, and no client has collected it.
  ready          INTEGER NOT NULL DEFAULT 0 CHECK (ready IN (0, 1)),
  -- The task as posted, without its input.
  data_text      TEXT    NOT NULL,
  -- When the sweep erases the task. Equals expires_at if the machine's clock was never set.
  erase_at       INTEGER,
  -- The newest row of queue_checkpoints when the task was queued again; NULL if it was queued when it was posted.
  queued_checkpoint    INTEGER,
  -- The headers of task_post: {"traceparent": …, "tracestate": …}.
  trace_text     TEXT
) STRICT;

-- Queue checkpoints, about one per hour. They measure how long tasks have been queued while the daemon ran. Stops and
-- changes to the clock do not count. A task that was queued before a checkpoint has waited at least since then.
CREATE TABLE queue_checkpoints (
  seq       INTEGER PRIMARY KEY,
  -- The newest task at that time.
  task_seq  INTEGER NOT NULL,
  -- How long the daemon ran between this checkpoint and the next.
  served_ms INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Claims: finds the accounts with queued tasks of a type, and each account's next task by priority, then age.
CREATE INDEX tasks_queued ON tasks (type, account_seq, priority DESC, seq) WHERE state = 'queued';
-- Finds the delayed tasks to queue, each second.
CREATE INDEX tasks_delayed ON tasks (start_at) WHERE state = 'delayed';
-- Finds the tasks to queue again after a crash.
CREATE INDEX tasks_running ON tasks (seq) WHERE state = 'running';
-- tasks_ready: oldest completion first, all of them, by tag, by type.
CREATE INDEX tasks_ready ON tasks (account_seq, completed_at, seq) WHERE ready = 1;
CREATE INDEX tasks_ready_by_tag ON tasks (account_seq, tag, completed_at, seq)
  WHERE ready = 1 AND tag IS NOT NULL;
CREATE INDEX tasks_ready_by_type ON tasks (account_seq, type, completed_at, seq) WHERE ready = 1;
-- An account's tasks, newest first: by state, by type, by tag. The list of all tasks merges the states. SQLite adds the
-- rowid (seq) as the last column of each index.
CREATE INDEX tasks_by_state ON tasks (account_seq, state, created_at);
CREATE INDEX tasks_by_type ON tasks (account_seq, type, created_at);
CREATE INDEX tasks_by_tag ON tasks (account_seq, tag, created_at) WHERE tag IS NOT NULL;
-- Finds the tasks that the sweep erases.
CREATE INDEX tasks_expiring ON tasks (erase_at) WHERE erase_at IS NOT NULL;

-- Counts by account, updated in the transaction that changes a task, because counting a million rows takes 60 ms.
-- `state` is a task state (clients see `delayed` as queued) or another word. `ready` counts the tasks in tasks_ready.
-- `retrying` counts the deliveries with a scheduled retry, `undelivered` the given up and refused deliveries. `bytes`
-- is the size of the tasks, their ended attempts and the stored responses (src/store/sql/task-columns.ts).
CREATE TABLE task_counts (
  account_seq INTEGER NOT NULL REFERENCES accounts (seq),
  state       TEXT    NOT NULL,
  count       INTEGER NOT NULL,
  PRIMARY KEY (account_seq, state)
) STRICT, WITHOUT ROWID;

-- Stored responses of task_post, returned again for the same Idempotency-Key.
CREATE TABLE idempotency_keys (
  seq         INTEGER PRIMARY KEY,
  account_seq INTEGER NOT NULL REFERENCES accounts (seq),
  key         TEXT    NOT NULL,
  -- SHA-256 of the request's body, in hex.
  body_hash   TEXT    NOT NULL,
  response_text TEXT    NOT NULL,
  erase_at    INTEGER NOT NULL,
  UNIQUE (account_seq, key)
) STRICT;

-- Finds what the sweep erases.
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (erase_at);

-- Inputs and results have their own tables, because an UPDATE of a row with a 1 MB column rewrites that megabyte.
CREATE TABLE task_inputs (
  task_seq   INTEGER PRIMARY KEY REFERENCES tasks (seq) ON DELETE CASCADE,
  input_text TEXT    NOT NULL
) STRICT;

CREATE TABLE task_results (
  task_seq    INTEGER PRIMARY KEY REFERENCES tasks (seq) ON DELETE CASCADE,
  result_text TEXT,
  error_text  TEXT
) STRICT;

-- Tokens of external workers. A revoked token stays, because leases refer to it.
CREATE TABLE workers (
  seq          INTEGER PRIMARY KEY,
  name         TEXT    NOT NULL,
  -- SHA-256 in hex. Every request of a worker reads the index that UNIQUE creates.
  hash         TEXT    NOT NULL UNIQUE,
  last_four    TEXT    NOT NULL,
  -- The types whose tasks the worker may claim: a JSON array.
  types_text   TEXT    NOT NULL,
  created_at   INTEGER NOT NULL,
  last_seen_at INTEGER,
  revoked_at   INTEGER
) STRICT;

-- Allows one active worker of each name.
CREATE UNIQUE INDEX workers_active ON workers (name) WHERE revoked_at IS NULL;

-- The newest lease of each task that a worker has claimed. The row stays after the lease has ended, so that a repeated
-- completion gets the same response. The next claim overwrites it.
CREATE TABLE leases (
  task_seq    INTEGER PRIMARY KEY REFERENCES tasks (seq) ON DELETE CASCADE,
  -- The fencing token: new at every claim.
  lease_id    TEXT    NOT NULL,
  worker_seq  INTEGER NOT NULL REFERENCES workers (seq),
  claimed_at  INTEGER NOT NULL,
  -- How long the lease lasts after a heartbeat.
  lease_ms    INTEGER NOT NULL,
  -- When the type's timeout ends.
  deadline_at INTEGER NOT NULL,
  -- Never later than deadline_at.
  expires_at  INTEGER NOT NULL,
  -- NULL while a worker holds the lease.
  ending      TEXT CHECK (ending IN ('completed', 'failed', 'released', 'expired', 'timed_out', 'cancelled')),
  -- How many leases of this task have expired.
  losses      INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Finds the expired leases, and at a start the held leases.
CREATE INDEX leases_held ON leases (expires_at) WHERE ending IS NULL;

-- A row for each webhook URL of an accepted task, in the normal form that is requested and signed.
CREATE TABLE deliveries (
  task_seq INTEGER NOT NULL REFERENCES tasks (seq) ON DELETE CASCADE,
  kind     TEXT    NOT NULL CHECK (kind IN ('postback', 'pingback')),
  url      TEXT    NOT NULL,
  -- The account of the task and this host are the lane, the queue of the account's attempts to the host.
  host     TEXT    NOT NULL,
  -- NULL until the delivery ends. From the end of its task until then, its last attempt has not ended. The delivery of
  -- a cancelled task never begins.
  ended    TEXT    CHECK (ended IN ('delivered', 'given_up', 'refused')),
  PRIMARY KEY (task_seq, kind)
) STRICT, WITHOUT ROWID;

-- Finds the deliveries that failed permanently. They are few. The index has host and end, so that it alone suffices
-- to count the deliveries of an erased task.
CREATE INDEX deliveries_failed ON deliveries (task_seq, host, ended)
  WHERE ended IN ('given_up', 'refused');

-- Scheduled attempts (started_at is NULL), attempts in flight (only ended_at is NULL), and ended attempts. One table is
-- both queue and log.
CREATE TABLE attempts (
  seq              INTEGER PRIMARY KEY,
  task_seq         INTEGER NOT NULL,
  kind             TEXT    NOT NULL,
  -- From 1; counts interrupted attempts.
  number           INTEGER NOT NULL,
  -- Retries used when this attempt has started. An interrupted attempt uses no retry.
  retry            INTEGER NOT NULL,
  host             TEXT    NOT NULL,
  due_at           INTEGER NOT NULL,
  started_at       INTEGER,
  ended_at         INTEGER,
  outcome          TEXT CHECK (outcome IN ('delivered', 'failed', 'timed_out', 'refused', 'interrupted')),
  http_status      INTEGER,
  error            TEXT,
  address          TEXT,
  dns_ms           REAL,
  connect_ms       REAL,
  tls_ms           REAL,
  first_byte_ms    REAL,
  response_excerpt TEXT,
  refusal_text     TEXT,
  -- The Retry-After header of the response, unchanged.
  retry_after      TEXT,
  -- The account of the task, for the lane.
  account_seq      INTEGER NOT NULL DEFAULT 0,
  FOREIGN KEY (task_seq, kind) REFERENCES deliveries (task_seq, kind) ON DELETE CASCADE
) STRICT;

-- Claims the due attempts of one lane, first attempts before retries. The backlog of other lanes adds no cost.
CREATE INDEX attempts_due ON attempts (account_seq, host, retry, due_at) WHERE started_at IS NULL;
-- Finds the attempts that were in flight before a crash. They become `interrupted`.
CREATE INDEX attempts_in_flight ON attempts (seq) WHERE started_at IS NOT NULL AND ended_at IS NULL;
-- Lists a task's attempts in their order; finds the attempts that the sweep erases.
CREATE INDEX attempts_by_delivery ON attempts (task_seq, kind);

-- Finds deliveries that are retried, in the order of their tasks. They are few.
CREATE INDEX attempts_retrying ON attempts (task_seq) WHERE started_at IS NULL AND retry > 0;

-- Bulk redeliveries: jobs of the operator and of accounts that send many deliveries again. The daemon examines the
-- attempts that existed when the job was created, some in each transaction, and stores its progress in that
-- transaction.
CREATE TABLE bulk_redeliveries (
  seq              INTEGER PRIMARY KEY,
  id               TEXT    NOT NULL UNIQUE,
  -- The filter, as JSON.
  filter_text      TEXT    NOT NULL,
  per_second       INTEGER NOT NULL,
  created_at       INTEGER NOT NULL,
  -- The newest attempt when the job was created. The attempts of the job itself come after it.
  last_attempt_seq INTEGER NOT NULL,
  -- The attempt that the job examined last.
  examined_seq     INTEGER NOT NULL DEFAULT 0,
  redelivered      INTEGER NOT NULL DEFAULT 0,
  ended_at         INTEGER,
  cancelled        INTEGER NOT NULL DEFAULT 0 CHECK (cancelled IN (0, 1))
) STRICT;

-- Lists the jobs in progress.
CREATE INDEX bulk_redeliveries_open ON bulk_redeliveries (seq) WHERE ended_at IS NULL;
-- Finds what the sweep erases.
CREATE INDEX bulk_redeliveries_ended ON bulk_redeliveries (ended_at) WHERE ended_at IS NOT NULL;

-- Pauses of deliveries: no attempt starts in a lane that a row covers. A row without account and host covers all lanes.
-- The daemon reads all rows each second; they are few.
CREATE TABLE delivery_pauses (
  seq         INTEGER PRIMARY KEY AUTOINCREMENT,
  -- NULL covers all accounts.
  account_seq INTEGER REFERENCES accounts (seq) ON DELETE CASCADE,
  -- NULL covers all hosts.
  host        TEXT,
  since       INTEGER NOT NULL,
  -- The operator's text.
  reason      TEXT,
  -- The user who ran the command, or `operator` for an API request. The audit has the session and the address.
  paused_by     TEXT    NOT NULL
) STRICT;

-- Refuses a second pause of the same lanes.
CREATE UNIQUE INDEX delivery_pauses_scope ON delivery_pauses (coalesce(account_seq, 0), coalesce(host, ''));

-- The audit: who did what, and when. An entry is written in the transaction of its action, and contains no secret.
CREATE TABLE audit (
  seq          INTEGER PRIMARY KEY AUTOINCREMENT,
  at           INTEGER NOT NULL,
  -- `operator` acted by the dashboard or the operator's token, `account` by a key, `user` by the command line, `daemon`
  -- without a request; `nobody` is a client without credentials.
  actor_kind   TEXT    NOT NULL CHECK (actor_kind IN ('operator', 'account', 'user', 'daemon', 'nobody')),
  -- The id of the account's key, or the name of the user.
  actor_name   TEXT,
  -- A word of src/domain/audit/audit-entry.ts.
  action       TEXT    NOT NULL,
  -- The login, key, task, host or worker that the action changed.
  subject      TEXT,
  details_text TEXT,
  -- The client's address.
  address      TEXT
) STRICT;

-- List the entries of one action; find the oldest entries for the sweep.
CREATE INDEX audit_by_action ON audit (action, seq);
CREATE INDEX audit_by_age ON audit (at);

-- Entries are appended, and erased from the oldest on, so that no entry between two others is missing.
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN
  SELECT RAISE(ABORT, 'the audit is append-only');
END;
CREATE TRIGGER audit_is_erased_from_its_beginning BEFORE DELETE ON audit
WHEN OLD.seq > (SELECT min(seq) FROM audit)
BEGIN
  SELECT RAISE(ABORT, 'the audit is erased from its beginning');
END;

-- The last readings of the machine's clocks, stored each minute. The next start computes from them how much time has
-- passed, and whether the wall clock was set.
CREATE TABLE clock_readings (
  one       INTEGER PRIMARY KEY CHECK (one = 1),
  wall_at   INTEGER NOT NULL,
  service_at INTEGER NOT NULL,
  -- Since the boot with this boot_id.
  uptime_ms REAL    NOT NULL,
  boot_id   TEXT
) STRICT;

-- Values of the daemon, by name. `cursors` is the key that seals list cursors. Two are not secret: `mode` is the
-- command that serves the file, `installation` the id in the names of scheduled backups.
CREATE TABLE secrets (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Sign-ins to the dashboard. Their times are of the service clock.
CREATE TABLE sessions (
  seq          INTEGER PRIMARY KEY,
  -- SHA-256 of the cookie's value, in hex.
  hash         TEXT    NOT NULL UNIQUE,
  -- The key that signed in; NULL for the operator. The session ends when the key is revoked or its account disabled.
  key_seq      INTEGER REFERENCES keys (seq),
  created_at   INTEGER NOT NULL,
  last_seen_at INTEGER NOT NULL
) STRICT;

-- Find the sessions that the sweep erases, and the sessions of one key.
CREATE INDEX sessions_by_age ON sessions (created_at);
CREATE INDEX sessions_by_key ON sessions (key_seq, seq);

-- Single-use links that sign the operator in. The use of a link erases its row.
CREATE TABLE sign_in_links (
  -- SHA-256 of the link's token, in hex.
  hash       TEXT    PRIMARY KEY,
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Traffic: counts per minute, rolled up into hours when they are a day old. `at` is the start of the step. account_seq
-- 0 is the sum of all accounts. Written in the transaction that changes the counted rows.
CREATE TABLE traffic (
  account_seq     INTEGER NOT NULL,
  step_ms         INTEGER NOT NULL CHECK (step_ms IN (60000, 3600000)),
  at              INTEGER NOT NULL,
  -- Accepted tasks, and tasks by their end.
  posted          INTEGER NOT NULL DEFAULT 0,
  completed       INTEGER NOT NULL DEFAULT 0,
  failed          INTEGER NOT NULL DEFAULT 0,
  cancelled       INTEGER NOT NULL DEFAULT 0,
  -- First attempts that ended, and how many of them were delivered.
  first_attempts  INTEGER NOT NULL DEFAULT 0,
  first_delivered INTEGER NOT NULL DEFAULT 0,
  -- Deliveries by their end.
  delivered       INTEGER NOT NULL DEFAULT 0,
  given_up        INTEGER NOT NULL DEFAULT 0,
  refused         INTEGER NOT NULL DEFAULT 0,
  -- The largest number of queued tasks in the step, and the longest wait of a queued task.
  queued          INTEGER NOT NULL DEFAULT 0,
  oldest_ms       INTEGER NOT NULL DEFAULT 0,
  -- Durations of attempts: a JSON array with the number of attempts in each bucket of domain/stats/time-series.ts.
  durations_text  TEXT    NOT NULL DEFAULT '[]',
  PRIMARY KEY (account_seq, step_ms, at)
) STRICT, WITHOUT ROWID;

-- Finds the rows to roll up and to erase.
CREATE INDEX traffic_by_age ON traffic (step_ms, at);

-- Attempts by host, in steps of an hour.
CREATE TABLE host_traffic (
  account_seq    INTEGER NOT NULL,
  at             INTEGER NOT NULL,
  host           TEXT    NOT NULL,
  attempts       INTEGER NOT NULL DEFAULT 0,
  succeeded      INTEGER NOT NULL DEFAULT 0,
  durations_text TEXT    NOT NULL DEFAULT '[]',
  PRIMARY KEY (account_seq, at, host)
) STRICT, WITHOUT ROWID;

-- Finds what the sweep erases.
CREATE INDEX host_traffic_by_age ON host_traffic (at);

-- How many deliveries of an account to a host are given up, refused, or waiting for a retry. Updated in the transaction
-- that changes a delivery. A row whose counts are all zero is erased.
CREATE TABLE host_counts (
  account_seq INTEGER NOT NULL REFERENCES accounts (seq),
  host        TEXT    NOT NULL,
  given_up    INTEGER NOT NULL DEFAULT 0,
  refused     INTEGER NOT NULL DEFAULT 0,
  retrying    INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (account_seq, host)
) STRICT, WITHOUT ROWID;

-- The last failed attempt to each host.
CREATE TABLE host_failures (
  account_seq INTEGER NOT NULL,
  host        TEXT    NOT NULL,
  ended_at    INTEGER NOT NULL,
  error       TEXT,
  http_status INTEGER,
  task_seq    INTEGER NOT NULL,
  PRIMARY KEY (account_seq, host)
) STRICT, WITHOUT ROWID;

-- Finds what the sweep erases.
CREATE INDEX host_failures_by_age ON host_failures (ended_at);
