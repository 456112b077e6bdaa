-- The database of postbackd, version 8. One SQLite file in WAL mode; every table is STRICT.
-- Times are milliseconds since the epoch, UTC, by the machine's clock as it was; `erase_at` is one of the steady clock, which
-- begins with them and goes on whatever the machine's clock is set to (clock_readings). Columns named *_text hold JSON text exactly as clients see it.
-- `seq` numbers rows in the order they were made: it joins tables and pages through lists; ids are for the world.
-- Partial indexes repeat their WHERE literally in the queries that use them; test/store/query-plans.test.ts
-- holds each query that runs per task or per tick to its index.

CREATE TABLE accounts (
  seq                 INTEGER PRIMARY KEY,
  login               TEXT    NOT NULL UNIQUE,
  webhook_secret      TEXT    NOT NULL,
  -- The secret that will sign after a rotation; NULL unless one is going on.
  webhook_secret_next TEXT,
  created_at          INTEGER NOT NULL,
  disabled_at         INTEGER,
  -- What it may take up; NULL: what the configuration says for all. 0 is no limit.
  bytes_max           INTEGER,
  open_tasks_max      INTEGER,
  requests_per_minute INTEGER,
  tasks_per_minute    INTEGER
) STRICT;

-- Who is disabled, whose work is held; and the next who is not, for a claim that passes over those who are.
CREATE INDEX accounts_disabled ON accounts (seq) WHERE disabled_at IS NOT NULL;
CREATE INDEX accounts_enabled ON accounts (seq) WHERE disabled_at IS NULL;

-- When each account was last disabled or enabled, in the order of these changes: by it the daemon knows what it has not
-- heard of. AUTOINCREMENT, because a number that was seen must not come again when an account is erased.
CREATE TABLE hold_changes (
  seq         INTEGER PRIMARY KEY AUTOINCREMENT,
  account_seq INTEGER NOT NULL UNIQUE REFERENCES accounts (seq) ON DELETE CASCADE
) STRICT;

-- The highest seq that an erased account had: it is never given again.
CREATE TABLE erased_accounts (
  one      INTEGER PRIMARY KEY CHECK (one = 1),
  last_seq INTEGER NOT NULL
) STRICT;

CREATE TABLE keys (
  seq          INTEGER PRIMARY KEY,
  key_id       TEXT    NOT NULL UNIQUE,
  account_seq  INTEGER NOT NULL REFERENCES accounts (seq),
  -- SHA-256 in hex; UNIQUE is also the index that every request's authentication reads.
  hash         TEXT    NOT NULL UNIQUE,
  last_four    TEXT    NOT NULL,
  label        TEXT,
  created_at   INTEGER NOT NULL,
  last_used_at INTEGER,
  revoked_at   INTEGER
) STRICT;

-- Counting and listing an account's active keys, and its last revoked ones: apart, because keys may be made and
-- revoked without end.
CREATE INDEX keys_active ON keys (account_seq) WHERE revoked_at IS NULL;
CREATE INDEX keys_revoked ON keys (account_seq, revoked_at) WHERE revoked_at IS NOT NULL;

-- Who asked for access without having a key. Erased some time after the decision.
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
  -- The account that an approval made.
  account_seq INTEGER REFERENCES accounts (seq)
) STRICT;

-- Listing and counting what waits for the operator; erasing what was decided.
CREATE INDEX access_requests_pending ON access_requests (seq) WHERE decision IS NULL;
CREATE INDEX access_requests_decided ON access_requests (decided_at) WHERE decision IS NOT NULL;

-- Narrow on purpose: a task's row is rewritten three or four times in its life, its input and result never.
CREATE TABLE tasks (
  seq            INTEGER PRIMARY KEY,
  id             TEXT    NOT NULL UNIQUE,
  account_seq    INTEGER NOT NULL REFERENCES accounts (seq),
  -- `delayed` waits for start_at (asked for, or a retry's) and is shown as queued: kept apart, so that claiming never reads past
  -- tasks that may not start yet.
  state          TEXT    NOT NULL
                 CHECK (state IN ('delayed', 'queued', 'running', 'completed', 'failed', 'cancelled')),
  status_code    INTEGER NOT NULL,
  -- NULL where the message of the status table stands.
  status_message TEXT,
  type           TEXT,
  tag            TEXT,
  marketplace    TEXT,
  priority       INTEGER NOT NULL DEFAULT 0,
  start_at       INTEGER,
  created_at     INTEGER NOT NULL,
  started_at     INTEGER,
  completed_at   INTEGER,
  -- As clients and receivers were told, never changed.
  expires_at     INTEGER,
  runs           INTEGER NOT NULL DEFAULT 0,
  -- Runs that failed or timed out; those lost by a crash are not among them.
  failures       INTEGER NOT NULL DEFAULT 0,
  -- 1 while the task stands in tasks_ready: finished by a run, and not collected yet.
  ready          INTEGER NOT NULL DEFAULT 0 CHECK (ready IN (0, 1)),
  -- The task as posted, without its input.
  data_text      TEXT    NOT NULL,
  -- When the sweep takes it: what was expires_at where the clock was never set.
  erase_at       INTEGER,
  -- The newest of queue_marks when it came into the queue; NULL where it has been there since it was posted.
  queued_mark    INTEGER
) STRICT;

-- How long what waits in the queue has waited, counted in the time for which the daemon ran: neither a clock that is set
-- nor a pause is in it. A mark an hour or so: what had been posted and was in the queue by then has waited at least since.
CREATE TABLE queue_marks (
  seq       INTEGER PRIMARY KEY,
  -- The newest task there was.
  task_seq  INTEGER NOT NULL,
  -- For how long the daemon has run from this mark on, until the next one.
  served_ms INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Claiming: the accounts that wait for a type, and of each the next task by priority, then age.
CREATE INDEX tasks_queued ON tasks (type, account_seq, priority DESC, seq) WHERE state = 'queued';
-- The tick that lets delayed tasks into the queue.
CREATE INDEX tasks_delayed ON tasks (start_at) WHERE state = 'delayed';
-- A start after a crash puts what was running back into the queue.
CREATE INDEX tasks_running ON tasks (seq) WHERE state = 'running';
-- tasks_ready: oldest completion first, as a whole, by tag, by type.
CREATE INDEX tasks_ready ON tasks (account_seq, completed_at, seq) WHERE ready = 1;
CREATE INDEX tasks_ready_by_tag ON tasks (account_seq, tag, completed_at, seq)
  WHERE ready = 1 AND tag IS NOT NULL;
CREATE INDEX tasks_ready_by_type ON tasks (account_seq, type, completed_at, seq) WHERE ready = 1;
-- An account's tasks, newest first: by state, by type, by tag; all of them are the states merged. seq, the rowid, is
-- the last column of each.
CREATE INDEX tasks_by_state ON tasks (account_seq, state, created_at);
CREATE INDEX tasks_by_type ON tasks (account_seq, type, created_at);
CREATE INDEX tasks_by_tag ON tasks (account_seq, tag, created_at) WHERE tag IS NOT NULL;
-- The retention sweep.
CREATE INDEX tasks_expiring ON tasks (erase_at) WHERE erase_at IS NOT NULL;

-- How many tasks an account has in each state of their rows (clients see `delayed` as queued); `ready` counts those in
-- tasks_ready, `retrying` the deliveries that failed and will be tried again, `undelivered` those that are given up or
-- refused, `bytes` what all its tasks take (src/store/sqlite/task-bytes.ts); `ever_webhook`, `ever_delivered` and
-- `ever_collected` have a row, for good, once there was one. Kept up in the transaction that changes a task: counting a
-- million rows takes 60 ms.
CREATE TABLE task_counts (
  account_seq INTEGER NOT NULL REFERENCES accounts (seq),
  state       TEXT    NOT NULL,
  count       INTEGER NOT NULL,
  PRIMARY KEY (account_seq, state)
) STRICT, WITHOUT ROWID;

-- The answers to task_post that are repeated when the same Idempotency-Key comes again.
CREATE TABLE idempotency_keys (
  seq         INTEGER PRIMARY KEY,
  account_seq INTEGER NOT NULL REFERENCES accounts (seq),
  key         TEXT    NOT NULL,
  -- SHA-256 of the request's body, in hex.
  body_hash   TEXT    NOT NULL,
  answer_text TEXT    NOT NULL,
  erase_at    INTEGER NOT NULL,
  UNIQUE (account_seq, key)
) STRICT;

-- The sweep.
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (erase_at);

-- Inputs and results stand apart from tasks: an UPDATE of a row with a 1 MB column rewrites that megabyte.
CREATE TABLE task_inputs (
  task_seq   INTEGER PRIMARY KEY REFERENCES tasks (seq) ON DELETE CASCADE,
  input_text TEXT    NOT NULL
) STRICT;

CREATE TABLE task_results (
  task_seq    INTEGER PRIMARY KEY REFERENCES tasks (seq) ON DELETE CASCADE,
  result_text TEXT,
  error_text  TEXT
) STRICT;

-- Tokens of external workers. A revoked one stays: leases name it.
CREATE TABLE workers (
  seq          INTEGER PRIMARY KEY,
  name         TEXT    NOT NULL,
  -- SHA-256 in hex; UNIQUE is also the index that every request of a worker reads.
  hash         TEXT    NOT NULL UNIQUE,
  last_four    TEXT    NOT NULL,
  -- The types whose tasks it may claim: a JSON array.
  types_text   TEXT    NOT NULL,
  created_at   INTEGER NOT NULL,
  last_seen_at INTEGER,
  revoked_at   INTEGER
) STRICT;

-- One active worker of a name.
CREATE UNIQUE INDEX workers_active ON workers (name) WHERE revoked_at IS NULL;

-- The newest lease of each task that a worker has claimed. It stays when it ends, so that a worker that asks again is
-- told the same; the next claim writes over it.
CREATE TABLE leases (
  task_seq    INTEGER PRIMARY KEY REFERENCES tasks (seq) ON DELETE CASCADE,
  -- The fencing token: new at every claim.
  lease_id    TEXT    NOT NULL,
  worker_seq  INTEGER NOT NULL REFERENCES workers (seq),
  claimed_at  INTEGER NOT NULL,
  -- How long it holds from a heartbeat on.
  lease_ms    INTEGER NOT NULL,
  -- When the type's timeout is over.
  deadline_at INTEGER NOT NULL,
  -- Never later than deadline_at.
  expires_at  INTEGER NOT NULL,
  -- NULL while it is held.
  ending      TEXT CHECK (ending IN ('completed', 'failed', 'released', 'expired', 'timed_out', 'cancelled')),
  -- How often a lease of this task has run out.
  losses      INTEGER NOT NULL DEFAULT 0
) STRICT;

-- What has run out; and what is held at a start.
CREATE INDEX leases_held ON leases (expires_at) WHERE ending IS NULL;

-- One row for each webhook URL of an accepted task, in the normal form that is requested and signed.
CREATE TABLE deliveries (
  task_seq INTEGER NOT NULL REFERENCES tasks (seq) ON DELETE CASCADE,
  kind     TEXT    NOT NULL CHECK (kind IN ('postback', 'pingback')),
  url      TEXT    NOT NULL,
  -- With the task's account, the lane: attempts are limited per host.
  host     TEXT    NOT NULL,
  -- `waiting` until its task finishes; `open` while an attempt is scheduled or in flight; then how it ended.
  state    TEXT    NOT NULL DEFAULT 'waiting'
           CHECK (state IN ('waiting', 'open', 'delivered', 'given_up', 'refused')),
  PRIMARY KEY (task_seq, kind)
) STRICT, WITHOUT ROWID;

-- What failed for good: rare, and what is looked for. With host and state, so that what goes with an erased task is
-- counted from the index alone.
CREATE INDEX deliveries_failed ON deliveries (task_seq, host, state)
  WHERE state IN ('given_up', 'refused');

-- Scheduled, running and past attempts alike: the queue is the log. A row with started_at NULL is scheduled,
-- one with ended_at NULL is in flight.
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
  -- Its task's: a lane is of an account at a host.
  account_seq      INTEGER NOT NULL DEFAULT 0,
  FOREIGN KEY (task_seq, kind) REFERENCES deliveries (task_seq, kind) ON DELETE CASCADE
) STRICT;

-- Claiming what is due in one lane, fresh deliveries before retries, whatever the backlog of other lanes.
CREATE INDEX attempts_due ON attempts (account_seq, host, retry, due_at) WHERE started_at IS NULL;
-- A start after a crash records what was in flight as interrupted.
CREATE INDEX attempts_in_flight ON attempts (seq) WHERE started_at IS NOT NULL AND ended_at IS NULL;
-- A task's attempts in the order they were made, for the record and for the retention sweep.
CREATE INDEX attempts_by_delivery ON attempts (task_seq, kind);

-- What is tried again, in the order of its tasks: rare, and looked for.
CREATE INDEX attempts_retrying ON attempts (task_seq) WHERE started_at IS NULL AND retry > 0;

-- The operator's and the accounts' orders to send many deliveries again. The daemon walks through the attempts that were there when an
-- order was given, some in each transaction, and keeps in it how far it got.
CREATE TABLE redelivery_orders (
  seq              INTEGER PRIMARY KEY,
  id               TEXT    NOT NULL UNIQUE,
  -- The filter, as JSON.
  filter_text      TEXT    NOT NULL,
  per_second       INTEGER NOT NULL,
  created_at       INTEGER NOT NULL,
  -- The newest attempt when the order was given: what the order itself makes comes later.
  last_attempt_seq INTEGER NOT NULL,
  -- The last attempt that was looked at.
  examined_seq     INTEGER NOT NULL DEFAULT 0,
  redelivered      INTEGER NOT NULL DEFAULT 0,
  ended_at         INTEGER,
  cancelled        INTEGER NOT NULL DEFAULT 0 CHECK (cancelled IN (0, 1))
) STRICT;

-- What is left to do.
CREATE INDEX redelivery_orders_open ON redelivery_orders (seq) WHERE ended_at IS NULL;
-- The sweep.
CREATE INDEX redelivery_orders_ended ON redelivery_orders (ended_at) WHERE ended_at IS NOT NULL;

-- What the machine's clocks showed when the daemon last looked, by the minute: by it the next start knows how much time has
-- passed, and whether the wall clock was set meanwhile.
CREATE TABLE clock_readings (
  one       INTEGER PRIMARY KEY CHECK (one = 1),
  wall_at   INTEGER NOT NULL,
  steady_at INTEGER NOT NULL,
  -- Since the boot that boot_id names.
  uptime_ms REAL    NOT NULL,
  boot_id   TEXT
) STRICT;

-- What daemons keep for themselves and show nobody, by name: `cursors` is the key that places in lists are sealed with.
CREATE TABLE secrets (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Sign-ins of the dashboard. Their times are of the steady clock.
CREATE TABLE sessions (
  seq          INTEGER PRIMARY KEY,
  -- SHA-256 of the cookie's value, in hex.
  hash         TEXT    NOT NULL UNIQUE,
  -- The key that signed in; the session ends with it and with its account. NULL is the operator.
  key_seq      INTEGER REFERENCES keys (seq),
  created_at   INTEGER NOT NULL,
  last_seen_at INTEGER NOT NULL
) STRICT;

-- The sweep; the sessions of one key.
CREATE INDEX sessions_by_age ON sessions (created_at);
CREATE INDEX sessions_by_key ON sessions (key_seq, seq);

-- Links that sign the operator in, once. The row goes with its use.
CREATE TABLE sign_in_links (
  -- SHA-256 of the link's token, in hex.
  hash       TEXT    PRIMARY KEY,
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What happened, added up by time: steps of a minute, folded into hours when they are a day old. account_seq 0 is all
-- accounts together. `at` is the step's beginning. Written in the transaction of what it counts.
CREATE TABLE traffic (
  account_seq     INTEGER NOT NULL,
  step_ms         INTEGER NOT NULL CHECK (step_ms IN (60000, 3600000)),
  at              INTEGER NOT NULL,
  -- Tasks taken in, and how they ended.
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
  -- The most that was seen waiting, and how long the oldest of it had.
  queued          INTEGER NOT NULL DEFAULT 0,
  oldest_ms       INTEGER NOT NULL DEFAULT 0,
  -- How long attempts took: a JSON array of how many are in each bucket of domain/duration-histogram.ts.
  durations_text  TEXT    NOT NULL DEFAULT '[]',
  PRIMARY KEY (account_seq, step_ms, at)
) STRICT, WITHOUT ROWID;

-- What is folded and swept next.
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

-- The sweep.
CREATE INDEX host_traffic_by_age ON host_traffic (at);

-- How many deliveries of an account to a host are given up or refused now, and how many are tried again. Kept up in the
-- transaction that changes a delivery, as task_counts is; a row of which nothing is left is erased.
CREATE TABLE host_counts (
  account_seq INTEGER NOT NULL REFERENCES accounts (seq),
  host        TEXT    NOT NULL,
  given_up    INTEGER NOT NULL DEFAULT 0,
  refused     INTEGER NOT NULL DEFAULT 0,
  retrying    INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (account_seq, host)
) STRICT, WITHOUT ROWID;

-- The last attempt that failed, of each host.
CREATE TABLE host_failures (
  account_seq INTEGER NOT NULL,
  host        TEXT    NOT NULL,
  ended_at    INTEGER NOT NULL,
  error       TEXT,
  http_status INTEGER,
  task_seq    INTEGER NOT NULL,
  PRIMARY KEY (account_seq, host)
) STRICT, WITHOUT ROWID;

-- The sweep.
CREATE INDEX host_failures_by_age ON host_failures (ended_at);
