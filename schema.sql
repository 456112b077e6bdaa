-- The database of postbackd, version 12. It is one SQLite file in WAL mode, and every table is STRICT. Times are
-- milliseconds since the epoch, UTC, by the machine's clock as it was. `erase_at` is a time of the steady clock, which
-- begins with the machine's clock and runs on whatever that clock is set to (clock_readings). Columns named *_text hold
-- JSON text exactly as clients see it. `seq` numbers rows in the order in which they were made: it joins tables and
-- pages through lists; ids are for the world. Partial indexes repeat their WHERE literally in the queries that use
-- them. test/store/query-plans.test.ts checks that each query that runs per task or per tick uses its index.

CREATE TABLE accounts (
  seq                 INTEGER PRIMARY KEY,
  login               TEXT    NOT NULL UNIQUE,
  webhook_secret      TEXT    NOT NULL,
  -- The secret that signs after a rotation; NULL unless one is going on.
  webhook_secret_next TEXT,
  created_at          INTEGER NOT NULL,
  disabled_at         INTEGER,
  -- The account's own limits; NULL takes the configured limit for all accounts. 0 is no limit.
  bytes_max           INTEGER,
  open_tasks_max      INTEGER,
  requests_per_minute INTEGER,
  tasks_per_minute    INTEGER
) STRICT;

-- The disabled accounts, whose work is held; and the next enabled account, for a claim that passes over disabled ones.
CREATE INDEX accounts_disabled ON accounts (seq) WHERE disabled_at IS NOT NULL;
CREATE INDEX accounts_enabled ON accounts (seq) WHERE disabled_at IS NULL;

-- When each account was last disabled or enabled, in the order of these changes: they tell the daemon what it has not
-- heard of. AUTOINCREMENT, because a number that was seen must not come again when an account is erased.
CREATE TABLE suspension_changes (
  seq         INTEGER PRIMARY KEY AUTOINCREMENT,
  account_seq INTEGER NOT NULL UNIQUE REFERENCES accounts (seq) ON DELETE CASCADE
) STRICT;

-- The highest seq of an erased account: it is never given again.
CREATE TABLE erased_accounts (
  one      INTEGER PRIMARY KEY CHECK (one = 1),
  last_seq INTEGER NOT NULL
) STRICT;

CREATE TABLE keys (
  seq          INTEGER PRIMARY KEY,
  key_id       TEXT    NOT NULL UNIQUE,
  account_seq  INTEGER NOT NULL REFERENCES accounts (seq),
  -- SHA-256 in hex. The authentication of every request reads the index that UNIQUE makes.
  hash         TEXT    NOT NULL UNIQUE,
  last_four    TEXT    NOT NULL,
  label        TEXT,
  created_at   INTEGER NOT NULL,
  last_used_at INTEGER,
  revoked_at   INTEGER
) STRICT;

-- Counts and lists an account's active keys, and its last revoked ones. Two indexes, because keys may be made and
-- revoked without end.
CREATE INDEX keys_active ON keys (account_seq) WHERE revoked_at IS NULL;
CREATE INDEX keys_revoked ON keys (account_seq, revoked_at) WHERE revoked_at IS NOT NULL;

-- Requests for access by people without a key. Erased some time after the decision.
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
  -- The account that the approval made.
  account_seq INTEGER REFERENCES accounts (seq)
) STRICT;

-- Lists and counts the requests that wait for the operator; erases those that were decided.
CREATE INDEX access_requests_pending ON access_requests (seq) WHERE decision IS NULL;
CREATE INDEX access_requests_decided ON access_requests (decided_at) WHERE decision IS NOT NULL;

-- Narrow on purpose: a task's row is rewritten three or four times in its life, its input and result never.
CREATE TABLE tasks (
  seq            INTEGER PRIMARY KEY,
  id             TEXT    NOT NULL UNIQUE,
  account_seq    INTEGER NOT NULL REFERENCES accounts (seq),
  -- `delayed` waits for start_at (asked for, or of a retry) and is shown as queued. It is a state of its own so that a
  -- claim never reads past tasks that may not start yet.
  state          TEXT    NOT NULL
                 CHECK (state IN ('delayed', 'queued', 'running', 'completed', 'failed', 'cancelled')),
  status_code    INTEGER NOT NULL,
  -- NULL when the message is that of the status table.
  status_message TEXT,
  type           TEXT,
  tag            TEXT,
  marketplace    TEXT,
  priority       INTEGER NOT NULL DEFAULT 0,
  start_at       INTEGER,
  created_at     INTEGER NOT NULL,
  started_at     INTEGER,
  completed_at   INTEGER,
  -- The time that clients and receivers were told; never changed.
  expires_at     INTEGER,
  runs           INTEGER NOT NULL DEFAULT 0,
  -- Runs that failed or timed out; those lost by a crash are not among them.
  failures       INTEGER NOT NULL DEFAULT 0,
  -- 1 while the task stands in tasks_ready: finished by a run, and not collected yet.
  ready          INTEGER NOT NULL DEFAULT 0 CHECK (ready IN (0, 1)),
  -- The task as posted, without its input.
  data_text      TEXT    NOT NULL,
  -- When the sweep erases it: the same as expires_at where the clock was never set.
  erase_at       INTEGER,
  -- The newest of queue_checkpoints when the task came into the queue; NULL when it has been there since it was posted.
  queued_checkpoint    INTEGER,
  -- The trace it was posted in: {"traceparent": …, "tracestate": …}, as the headers were.
  trace_text     TEXT
) STRICT;

-- Tells how long queued tasks have waited, counted in the time for which the daemon ran: clocks that are set and pauses
-- do not count. There is about a mark an hour: tasks that were posted and queued by then have waited at least since
-- then.
CREATE TABLE queue_checkpoints (
  seq       INTEGER PRIMARY KEY,
  -- The newest task at that time.
  task_seq  INTEGER NOT NULL,
  -- How long the daemon has run from this mark on, until the next one.
  served_ms INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Claims: finds the accounts that wait for a type, and of each the next task by priority, then age.
CREATE INDEX tasks_queued ON tasks (type, account_seq, priority DESC, seq) WHERE state = 'queued';
-- Lets delayed tasks into the queue, by the second.
CREATE INDEX tasks_delayed ON tasks (start_at) WHERE state = 'delayed';
-- Puts tasks that were running before a crash back into the queue.
CREATE INDEX tasks_running ON tasks (seq) WHERE state = 'running';
-- tasks_ready: oldest completion first, all of them, by tag, by type.
CREATE INDEX tasks_ready ON tasks (account_seq, completed_at, seq) WHERE ready = 1;
CREATE INDEX tasks_ready_by_tag ON tasks (account_seq, tag, completed_at, seq)
  WHERE ready = 1 AND tag IS NOT NULL;
CREATE INDEX tasks_ready_by_type ON tasks (account_seq, type, completed_at, seq) WHERE ready = 1;
-- An account's tasks, newest first: by state, by type, by tag. A list of all merges the states. seq, the rowid, is the
-- last column of each.
CREATE INDEX tasks_by_state ON tasks (account_seq, state, created_at);
CREATE INDEX tasks_by_type ON tasks (account_seq, type, created_at);
CREATE INDEX tasks_by_tag ON tasks (account_seq, tag, created_at) WHERE tag IS NOT NULL;
-- Finds what the retention sweep erases.
CREATE INDEX tasks_expiring ON tasks (erase_at) WHERE erase_at IS NOT NULL;

-- The number of an account's tasks in each state of their rows (clients see `delayed` as queued). `ready` counts those
-- in tasks_ready, `retrying` the deliveries that failed and will be tried again, `undelivered` those that are given up
-- or refused; `bytes` is the size of all its tasks, of their ended attempts and of kept answers
-- (src/store/sql/task-columns.ts). Updated in the transaction that changes a task, because counting a million rows takes 60 ms.
CREATE TABLE task_counts (
  account_seq INTEGER NOT NULL REFERENCES accounts (seq),
  state       TEXT    NOT NULL,
  count       INTEGER NOT NULL,
  PRIMARY KEY (account_seq, state)
) STRICT, WITHOUT ROWID;

-- Answers to task_post, repeated when the same Idempotency-Key comes again.
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

-- Inputs and results are apart from tasks: an UPDATE of a row with a 1 MB column rewrites that megabyte.
CREATE TABLE task_inputs (
  task_seq   INTEGER PRIMARY KEY REFERENCES tasks (seq) ON DELETE CASCADE,
  input_text TEXT    NOT NULL
) STRICT;

CREATE TABLE task_results (
  task_seq    INTEGER PRIMARY KEY REFERENCES tasks (seq) ON DELETE CASCADE,
  result_text TEXT,
  error_text  TEXT
) STRICT;

-- Tokens of external workers. A revoked one stays, because leases name it.
CREATE TABLE workers (
  seq          INTEGER PRIMARY KEY,
  name         TEXT    NOT NULL,
  -- SHA-256 in hex. Every request of a worker reads the index that UNIQUE makes.
  hash         TEXT    NOT NULL UNIQUE,
  last_four    TEXT    NOT NULL,
  -- The types whose tasks it may claim: a JSON array.
  types_text   TEXT    NOT NULL,
  created_at   INTEGER NOT NULL,
  last_seen_at INTEGER,
  revoked_at   INTEGER
) STRICT;

-- Allows one active worker of each name.
CREATE UNIQUE INDEX workers_active ON workers (name) WHERE revoked_at IS NULL;

-- The newest lease of each task that a worker has claimed. It stays after its end, so that a worker that asks again
-- gets the same answer; the next claim overwrites it.
CREATE TABLE leases (
  task_seq    INTEGER PRIMARY KEY REFERENCES tasks (seq) ON DELETE CASCADE,
  -- The fencing token: new at every claim.
  lease_id    TEXT    NOT NULL,
  worker_seq  INTEGER NOT NULL REFERENCES workers (seq),
  claimed_at  INTEGER NOT NULL,
  -- How long it holds after a heartbeat.
  lease_ms    INTEGER NOT NULL,
  -- When the type's timeout ends.
  deadline_at INTEGER NOT NULL,
  -- Never later than deadline_at.
  expires_at  INTEGER NOT NULL,
  -- NULL while it is held.
  ending      TEXT CHECK (ending IN ('completed', 'failed', 'released', 'expired', 'timed_out', 'cancelled')),
  -- How often a lease of this task has run out.
  losses      INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Finds the leases that have run out, and at a start those that are held.
CREATE INDEX leases_held ON leases (expires_at) WHERE ending IS NULL;

-- One row for each webhook URL of an accepted task, in the normal form that is requested and signed.
CREATE TABLE deliveries (
  task_seq INTEGER NOT NULL REFERENCES tasks (seq) ON DELETE CASCADE,
  kind     TEXT    NOT NULL CHECK (kind IN ('postback', 'pingback')),
  url      TEXT    NOT NULL,
  -- Together with the task's account it is the lane: attempts are limited per host.
  host     TEXT    NOT NULL,
  -- `waiting` until its task finishes; `open` while an attempt is scheduled or in flight; afterwards how it ended.
  state    TEXT    NOT NULL DEFAULT 'waiting'
           CHECK (state IN ('waiting', 'open', 'delivered', 'given_up', 'refused')),
  PRIMARY KEY (task_seq, kind)
) STRICT, WITHOUT ROWID;

-- Deliveries that failed for good, which are rare and searched for. It includes host and state, so that the deliveries
-- of an erased task are counted from the index alone.
CREATE INDEX deliveries_failed ON deliveries (task_seq, host, state)
  WHERE state IN ('given_up', 'refused');

-- Scheduled, running and past attempts alike: the queue is the log. A row whose started_at is NULL is scheduled, one
-- whose ended_at is NULL is in flight.
CREATE TABLE attempts (
  seq              INTEGER PRIMARY KEY,
  task_seq         INTEGER NOT NULL,
  kind             TEXT    NOT NULL,
  -- From 1; interrupted attempts count.
  number           INTEGER NOT NULL,
  -- Retries used up once this attempt starts; interrupted attempts use none.
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
  -- The receiver's Retry-After, as it sent it.
  retry_after      TEXT,
  -- The account of its task: a lane belongs to an account and a host.
  account_seq      INTEGER NOT NULL DEFAULT 0,
  FOREIGN KEY (task_seq, kind) REFERENCES deliveries (task_seq, kind) ON DELETE CASCADE
) STRICT;

-- Claims what is due in one lane, fresh deliveries before retries, regardless of the backlog of other lanes.
CREATE INDEX attempts_due ON attempts (account_seq, host, retry, due_at) WHERE started_at IS NULL;
-- Finds what was in flight before a crash, to record it as interrupted.
CREATE INDEX attempts_in_flight ON attempts (seq) WHERE started_at IS NOT NULL AND ended_at IS NULL;
-- A task's attempts in the order in which they were made, for the record and for the retention sweep.
CREATE INDEX attempts_by_delivery ON attempts (task_seq, kind);

-- Retried deliveries in the order of their tasks: rare, and searched for.
CREATE INDEX attempts_retrying ON attempts (task_seq) WHERE started_at IS NULL AND retry > 0;

-- Orders of the operator and of accounts to send many deliveries again. The daemon walks through the attempts that were
-- there when an order was given, some in each transaction, which also keeps its progress.
CREATE TABLE bulk_redeliveries (
  seq              INTEGER PRIMARY KEY,
  id               TEXT    NOT NULL UNIQUE,
  -- The filter, as JSON.
  filter_text      TEXT    NOT NULL,
  per_second       INTEGER NOT NULL,
  created_at       INTEGER NOT NULL,
  -- The newest attempt when the order was given: attempts that the order itself makes come later.
  last_attempt_seq INTEGER NOT NULL,
  -- The attempt that was looked at last.
  examined_seq     INTEGER NOT NULL DEFAULT 0,
  redelivered      INTEGER NOT NULL DEFAULT 0,
  ended_at         INTEGER,
  cancelled        INTEGER NOT NULL DEFAULT 0 CHECK (cancelled IN (0, 1))
) STRICT;

-- Lists the orders that are not finished.
CREATE INDEX bulk_redeliveries_open ON bulk_redeliveries (seq) WHERE ended_at IS NULL;
-- Finds what the sweep erases.
CREATE INDEX bulk_redeliveries_ended ON bulk_redeliveries (ended_at) WHERE ended_at IS NOT NULL;

-- Pauses of deliveries: no attempt starts in a lane that a row covers. A row without account and host covers everything.
-- The daemon reads all rows each second; they are few. schema-postgres.sql has the reason for the name.
CREATE TABLE delivery_pauses (
  seq         INTEGER PRIMARY KEY AUTOINCREMENT,
  -- NULL covers all accounts.
  account_seq INTEGER REFERENCES accounts (seq) ON DELETE CASCADE,
  -- NULL covers all hosts.
  host        TEXT,
  since       INTEGER NOT NULL,
  -- The operator's words.
  reason      TEXT,
  -- The user of the machine, or `operator` for a request; audit has the session and the address.
  paused_by     TEXT    NOT NULL
) STRICT;

-- Allows one pause of the same lanes.
CREATE UNIQUE INDEX delivery_pauses_scope ON delivery_pauses (coalesce(account_seq, 0), coalesce(host, ''));

-- Who did what of consequence, and when. Written in the transaction of what it tells of. No secret is ever in it.
CREATE TABLE audit (
  seq          INTEGER PRIMARY KEY AUTOINCREMENT,
  at           INTEGER NOT NULL,
  -- The operator at the dashboard or with its token, an account, a user at the command line, the daemon by itself, or
  -- somebody who is not known.
  actor_kind   TEXT    NOT NULL CHECK (actor_kind IN ('operator', 'account', 'user', 'daemon', 'nobody')),
  -- The id of the account's key, the name of the user.
  actor_name   TEXT,
  -- A word of src/domain/audit/audit-entry.ts.
  action       TEXT    NOT NULL,
  -- The login, key, task, host or worker that it was done to.
  subject      TEXT,
  details_text TEXT,
  -- The client's address.
  address      TEXT
) STRICT;

-- Lists what was done of one kind; and finds what is too old.
CREATE INDEX audit_by_action ON audit (action, seq);
CREATE INDEX audit_by_age ON audit (at);

-- Entries are only added. The oldest go first, so that none is missing between two others.
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN
  SELECT RAISE(ABORT, 'the audit is append-only');
END;
CREATE TRIGGER audit_is_erased_from_its_beginning BEFORE DELETE ON audit
WHEN OLD.seq > (SELECT min(seq) FROM audit)
BEGIN
  SELECT RAISE(ABORT, 'the audit is erased from its beginning');
END;

-- What the machine's clocks showed when the daemon last looked, by the minute. They tell the next start how much time
-- has passed, and whether the wall clock was set meanwhile.
CREATE TABLE clock_readings (
  one       INTEGER PRIMARY KEY CHECK (one = 1),
  wall_at   INTEGER NOT NULL,
  service_at INTEGER NOT NULL,
  -- Counted since the boot that boot_id names.
  uptime_ms REAL    NOT NULL,
  boot_id   TEXT
) STRICT;

-- Secrets that daemons keep to themselves, by name: `cursors` is the key that seals places in lists. Two are not secret:
-- `mode` is the command that serves the file, `installation` the id in the names of scheduled backups.
CREATE TABLE secrets (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Sign-ins to the dashboard. Their times are of the steady clock.
CREATE TABLE sessions (
  seq          INTEGER PRIMARY KEY,
  -- SHA-256 of the cookie's value, in hex.
  hash         TEXT    NOT NULL UNIQUE,
  -- The key that signed in; the session ends with it and with its account. NULL stands for the operator.
  key_seq      INTEGER REFERENCES keys (seq),
  created_at   INTEGER NOT NULL,
  last_seen_at INTEGER NOT NULL
) STRICT;

-- Finds what the sweep erases; and the sessions of one key.
CREATE INDEX sessions_by_age ON sessions (created_at);
CREATE INDEX sessions_by_key ON sessions (key_seq, seq);

-- Links that sign the operator in, once. Using a link erases its row.
CREATE TABLE sign_in_links (
  -- SHA-256 of the link's token, in hex.
  hash       TEXT    PRIMARY KEY,
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What happened, added up by time: steps of a minute, folded into hours when they are a day old. account_seq 0 stands
-- for all accounts together. `at` is the beginning of the step. Written in the transaction of what it counts.
CREATE TABLE traffic (
  account_seq     INTEGER NOT NULL,
  step_ms         INTEGER NOT NULL CHECK (step_ms IN (60000, 3600000)),
  at              INTEGER NOT NULL,
  -- Tasks that were taken in, and how they ended.
  posted          INTEGER NOT NULL DEFAULT 0,
  completed       INTEGER NOT NULL DEFAULT 0,
  failed          INTEGER NOT NULL DEFAULT 0,
  cancelled       INTEGER NOT NULL DEFAULT 0,
  -- First attempts of a series that ended, and those of them that were delivered.
  first_attempts  INTEGER NOT NULL DEFAULT 0,
  first_delivered INTEGER NOT NULL DEFAULT 0,
  -- How deliveries ended.
  delivered       INTEGER NOT NULL DEFAULT 0,
  given_up        INTEGER NOT NULL DEFAULT 0,
  refused         INTEGER NOT NULL DEFAULT 0,
  -- The most tasks that were seen waiting, and how long the oldest had waited.
  queued          INTEGER NOT NULL DEFAULT 0,
  oldest_ms       INTEGER NOT NULL DEFAULT 0,
  -- How long attempts took: a JSON array with the number in each bucket of domain/stats/time-series.ts.
  durations_text  TEXT    NOT NULL DEFAULT '[]',
  PRIMARY KEY (account_seq, step_ms, at)
) STRICT, WITHOUT ROWID;

-- Finds what is folded and erased next.
CREATE INDEX traffic_by_age ON traffic (step_ms, at);

-- The same by host, in steps of an hour.
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

-- How many deliveries of an account to a host are given up or refused now, and how many are retried. Updated in the
-- transaction that changes a delivery, like task_counts; a row whose counts are all zero is erased.
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
