import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { schemaSql } from "../../src/assets.ts";
import { STORED_STATES } from "../../src/domain/task/task.ts";
import * as accessRequests from "../../src/store/sql/access-requests.ts";
import * as accountErasure from "../../src/store/sql/account-erasure.ts";
import * as accountOverviews from "../../src/store/sql/account-overviews.ts";
import * as accounts from "../../src/store/sql/accounts.ts";
import * as audit from "../../src/store/sql/audit.ts";
import * as clock from "../../src/store/sql/clock.ts";
import * as sharedDeliveries from "../../src/store/sql/deliveries.ts";
import * as deliveryLog from "../../src/store/sql/delivery-log.ts";
import * as deliveryPauses from "../../src/store/sql/delivery-pauses.ts";
import * as sharedQueue from "../../src/store/sql/queue.ts";
import * as redeliveryOrders from "../../src/store/sql/redelivery-orders.ts";
import * as retention from "../../src/store/sql/retention.ts";
import * as sessions from "../../src/store/sql/sessions.ts";
import * as suspensions from "../../src/store/sql/suspensions.ts";
import * as taskErasure from "../../src/store/sql/task-erasure.ts";
import * as hostTraffic from "../../src/store/sql/traffic.ts";
import * as workCounts from "../../src/store/sql/work-counts.ts";
import * as workers from "../../src/store/sql/workers.ts";
import * as attempts from "../../src/store/sqlite/attempts.ts";
import * as counts from "../../src/store/sqlite/counts.ts";
import * as deliveries from "../../src/store/sqlite/deliveries.ts";
import * as leases from "../../src/store/sqlite/leases.ts";
import { openWriter, type Connection } from "../../src/store/sqlite/machine/connection.ts";
import * as posts from "../../src/store/sqlite/posts.ts";
import * as queue from "../../src/store/sqlite/queue.ts";
import * as taskClaims from "../../src/store/sqlite/task-claims.ts";
import * as taskRuns from "../../src/store/sqlite/task-runs.ts";
import * as tasks from "../../src/store/sqlite/tasks.ts";
import * as traffic from "../../src/store/sqlite/traffic.ts";
import type { Store } from "../../src/store/store.ts";
import {
  claimLanes,
  newAccessRequest,
  newDatabaseFile,
  newFinish,
  newKeyToStore,
  newLeaseClaim,
  newLeaseEnd,
  newPost,
  newTask,
  openTestStore,
  seedAccount,
  seedWorker,
  T0,
  webhook,
} from "../helpers/store.ts";

/** The statements that run for a task, a request or a tick, by name. */
const STATEMENTS: Readonly<Record<string, string>> = {
  ...statementsOf({
    ...tasks,
    ...taskRuns,
    ...counts,
    ...posts,
    ...traffic,
    ...hostTraffic,
    ...accountOverviews,
  }),
  ...statementsOf({ ...queue, ...taskClaims, ...leases, ...workers, ...sessions }),
  ...statementsOf({ ...attempts, ...deliveries, ...accounts, ...suspensions, ...taskErasure }),
  ...statementsOf({
    ...sharedDeliveries,
    ...deliveryLog,
    ...redeliveryOrders,
    ...retention,
    ...sharedQueue,
  }),
  ...statementsOf({ ...accountErasure, ...accessRequests, ...clock, ...audit, ...workCounts }),
  ...statementsOf({
    TOUCH_KEY: accounts.TOUCH_KEYS.one,
    TOUCH_SESSION: sessions.TOUCH_SESSIONS.one,
    TOUCH_WORKER: workers.TOUCH_WORKERS.one,
  }),
  ...statementsOf(prefixed("LIST_REQUESTS", accessRequests.LIST_REQUESTS)),
  ...statementsOf(prefixed("LIST_ENTRIES", audit.LIST_ENTRIES)),
  ...statementsOf(prefixed("ACCOUNT_TASKS", accountErasure.ACCOUNT_TASKS)),
  ...statementsOf(prefixed("ERASE_DECIDED", retention.ERASE_DECIDED)),
  ...statementsOf(prefixed("ERASE_TRAFFIC", retention.ERASE_TRAFFIC)),
  ...statementsOf(prefixed("ERASE_MADE", retention.ERASE_MADE)),
  ...statementsOf(prefixed("COUNT_SCHEDULED", deliveryPauses.COUNT_SCHEDULED_OF)),
};

const JSON_LIST = "SCAN json_each VIRTUAL TABLE INDEX 1:";
const OF_HOURS = "SEARCH host_traffic USING PRIMARY KEY (account_seq=? AND at>?)";

/** A walk through the attempts of a range, with what is looked up for each; the states asked for are a list. */
const WALK = [
  "SEARCH a USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
  "SEARCH n USING COVERING INDEX attempts_by_delivery (task_seq=? AND kind=?)",
  "SEARCH d USING PRIMARY KEY (task_seq=? AND kind=?)",
  JSON_LIST,
];

const IS_HELD = "SEARCH accounts USING INDEX accounts_disabled (seq=? AND rowid=?)";
/** `max(seq)`, from its end. */
const NEWEST_MARK = "SEARCH queue_marks";

/** What of a task is sized. */
const TASK_PARTS = [
  "SEARCH i USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
  "SEARCH r USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
  "SEARCH a USING INDEX attempts_by_delivery (task_seq=?)",
];

/** The tasks that one step erases. */
const ERASED = [
  "SCAN erased VIRTUAL TABLE INDEX 1:",
  "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)",
];

const SUMMED = ["UNION ALL", "SCAN t"];

/** Selects by an index what is then erased by its key. */
function oneByOne(key: string, selected: string): readonly string[] {
  return [key, "MATERIALIZE old", selected, "SCAN old"];
}

const LEASE_BY_TASK = [
  "SEARCH t USING INDEX sqlite_autoindex_tasks_1 (id=?)",
  "SEARCH l USING INTEGER PRIMARY KEY (rowid=?)",
];

/**
 * How each of them has to be run. Seeks only: in an index that fits, or by the key. The scans are of what runs
 * or is in flight, which the limits of the engine bound, of the leases that are held, of a recursion's own rows, of
 * access requests, redelivery orders and delayed tasks in the order of the answer, to a LIMIT, and of all that is
 * scheduled when a clock was set. The newest mark of the queue is the end of its table. What walks through the attempts
 * does so in their order, between two of them, and sorts nothing but counts.
 */
const PLANS: Readonly<Record<string, readonly string[]>> = {
  SHIFT_ATTEMPTS: ["SCAN attempts USING INDEX attempts_due"],
  SHIFT_RUNS: ["SEARCH tasks USING INDEX tasks_delayed (start_at>?)"],
  SHIFT_LEASES: ["SCAN leases USING INDEX leases_held"],
  // They are made one by one.
  SHIFT_LINKS: ["SCAN sign_in_links"],
  HASTEN_ATTEMPTS: ["SCAN attempts USING INDEX attempts_due"],
  FIND_ACCOUNT_SEQ: ["SEARCH accounts USING COVERING INDEX sqlite_autoindex_accounts_1 (login=?)"],
  FIND_OWN_TASK: ["SEARCH tasks USING INDEX sqlite_autoindex_tasks_1 (id=?)"],
  NEWEST_ATTEMPTS: [
    "SEARCH t USING COVERING INDEX sqlite_autoindex_tasks_1 (id=?)",
    "SEARCH d USING PRIMARY KEY (task_seq=?)",
    "SEARCH n USING COVERING INDEX attempts_by_delivery (task_seq=? AND kind=?)",
    // Of two rows.
    "USE TEMP B-TREE FOR ORDER BY",
  ],
  SELECT_ATTEMPTS: [
    "SEARCH d USING PRIMARY KEY (task_seq=?)",
    "SEARCH a USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH attempts USING COVERING INDEX attempts_by_delivery (task_seq=? AND kind=?)",
  ],
  HASTEN_SCHEDULED: ["SEARCH attempts USING INDEX attempts_by_delivery (task_seq=?)"],
  SELECT_ENDED: ["SEARCH deliveries USING PRIMARY KEY (task_seq=?)", JSON_LIST],
  BEGIN_SERIES: [
    "SCAN t VIRTUAL TABLE INDEX 1:",
    "SEARCH d USING PRIMARY KEY (task_seq=? AND kind=?)",
  ],
  FIND_ANY_TASK: [
    "SEARCH t USING INDEX sqlite_autoindex_tasks_1 (id=?)",
    "SEARCH c USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH i USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
    "SEARCH r USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
  ],
  LIST_DELIVERIES: [
    ...WALK,
    "SEARCH l USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
    "SEARCH attempts USING COVERING INDEX attempts_by_delivery (task_seq=? AND kind=? AND rowid<?)",
    "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH c USING INTEGER PRIMARY KEY (rowid=?)",
  ],
  COUNT_ENDED: [...WALK, "USE TEMP B-TREE FOR GROUP BY"],
  SELECT_ORDERED: WALK,
  STEP_START: [
    "SEARCH a USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH attempts USING INTEGER PRIMARY KEY (rowid<?)",
    // The numbers of one step's attempts.
    "SEARCH s",
    "SEARCH o USING INTEGER PRIMARY KEY (rowid<?)",
  ],
  LOG_START: ["SEARCH a USING INTEGER PRIMARY KEY (rowid<?)"],
  STEP_END: ["SEARCH attempts USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"],
  FIND_ORDER: ["SEARCH redelivery_orders USING INDEX sqlite_autoindex_redelivery_orders_1 (id=?)"],
  HASTEN_ORDERED: [
    "SEARCH attempts USING INDEX attempts_by_delivery (task_seq=?)",
    "SEARCH tasks USING COVERING INDEX sqlite_autoindex_tasks_1 (id=?)",
  ],
  LIST_OPEN_ORDERS: [
    "SCAN redelivery_orders USING INDEX redelivery_orders_open",
    "SEARCH accounts USING INDEX sqlite_autoindex_accounts_1 (login=?)",
  ],
  COUNT_OPEN_ORDERS: ["SCAN redelivery_orders USING INDEX redelivery_orders_open"],
  LIST_ORDERS: ["SCAN redelivery_orders", "SCAN o"],
  LIST_ATTEMPTS: [
    "SEARCH a USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
    "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)",
  ],
  // Once for each listener that begins.
  LIST_SCHEDULED: [
    "SEARCH attempts USING INDEX attempts_due (account_seq=?)",
    "SCAN a",
    "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)",
    "USE TEMP B-TREE FOR ORDER BY",
  ],
  COUNT_SCHEDULED_all: ["SCAN attempts USING INDEX attempts_due"],
  COUNT_SCHEDULED_account: ["SEARCH attempts USING INDEX attempts_due (account_seq=?)"],
  COUNT_SCHEDULED_lane: ["SEARCH attempts USING INDEX attempts_due (account_seq=? AND host=?)"],
  COUNT_SCHEDULED_host: [
    "SCAN c USING COVERING INDEX sqlite_autoindex_accounts_1",
    "SEARCH a USING INDEX attempts_due (account_seq=? AND host=?)",
  ],
  CANCEL_ORDER: [
    "SEARCH redelivery_orders USING INDEX sqlite_autoindex_redelivery_orders_1 (id=?)",
  ],
  ADVANCE_ORDER: [
    "SEARCH redelivery_orders USING INDEX sqlite_autoindex_redelivery_orders_1 (id=?)",
  ],
  ERASE_DECIDED_orders: oneByOne(
    "SEARCH redelivery_orders USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH redelivery_orders USING COVERING INDEX redelivery_orders_ended (ended_at>? AND ended_at<?)",
  ),
  WAITING_ACCOUNTS: [
    "SEARCH tasks USING COVERING INDEX tasks_queued (type=? AND account_seq>? AND account_seq<?)",
    "SCAN waiting",
    "SEARCH tasks USING COVERING INDEX tasks_queued (type=? AND account_seq>? AND account_seq<?)",
    "SCAN waiting",
  ],
  // From a disabled account to the next that is not.
  WAITING_ENABLED: [
    "SEARCH tasks USING COVERING INDEX tasks_queued (type=? AND account_seq>? AND account_seq<?)",
    "SCAN waiting",
    IS_HELD,
    "SEARCH tasks USING COVERING INDEX tasks_queued (type=? AND account_seq>? AND account_seq<?)",
    "SEARCH accounts USING INDEX accounts_enabled (seq>?)",
    "SEARCH tasks USING COVERING INDEX tasks_queued (type=? AND account_seq>? AND account_seq<?)",
    "SCAN waiting",
    IS_HELD,
  ],
  // To the first of them.
  ANY_SUSPENDED: ["SCAN CONSTANT ROW", "SCAN accounts USING INDEX accounts_disabled"],
  LIST_SUSPENSION_CHANGES: [
    "SEARCH h USING INTEGER PRIMARY KEY (rowid>?)",
    "SEARCH a USING INTEGER PRIMARY KEY (rowid=?)",
  ],
  // For the operator, who disables an account.
  COUNT_OPEN_WEBHOOKS: [
    "SCAN CONSTANT ROW",
    "SEARCH attempts USING INDEX attempts_due (account_seq=?)",
    "SCAN attempts USING INDEX attempts_in_flight",
  ],
  NEXT_TASKS: [
    "SEARCH t USING INDEX tasks_queued (type=? AND account_seq=?)",
    "SEARCH task_inputs USING INTEGER PRIMARY KEY (rowid=?)",
  ],
  START_TASKS: ["SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)", JSON_LIST],
  FIND_NEWEST_LEASE: [...LEASE_BY_TASK, IS_HELD],
  FIND_LEASE: LEASE_BY_TASK,
  EXTEND_LEASE: ["SEARCH leases USING INTEGER PRIMARY KEY (rowid=?)"],
  END_LEASE: ["SEARCH leases USING INTEGER PRIMARY KEY (rowid=?)"],
  REVIVE_TASK: ["SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)"],
  CANCEL_LEASE: ["SEARCH leases USING INTEGER PRIMARY KEY (rowid=?)"],
  HELD_TIMES: ["SCAN leases USING INDEX leases_held"],
  RESUME_LEASE: ["SEARCH leases USING INTEGER PRIMARY KEY (rowid=?)"],
  HELD_LEASES: ["SCAN l USING INDEX leases_held", "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)"],
  DUE_LEASES: [
    "SEARCH l USING INDEX leases_held (expires_at<?)",
    "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)",
  ],
  FIND_WORKER_HOLDER: ["SEARCH workers USING INDEX sqlite_autoindex_workers_1 (hash=?)"],
  REVOKE_WORKER: ["SEARCH workers USING INDEX workers_active (name=?)"],
  FIND_SESSION: [
    "SEARCH s USING INDEX sqlite_autoindex_sessions_1 (hash=?)",
    "SEARCH k USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
    "SEARCH a USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
  ],
  TOUCH_SESSION: ["SEARCH sessions USING INTEGER PRIMARY KEY (rowid=?)"],
  TRIM_KEY_SESSIONS: [
    "SEARCH sessions USING COVERING INDEX sessions_by_key (key_seq=? AND seq<?)",
    "SEARCH k USING COVERING INDEX sqlite_autoindex_keys_1 (key_id=?)",
    "SEARCH sessions USING COVERING INDEX sessions_by_key (key_seq=?)",
    "SEARCH k USING COVERING INDEX sqlite_autoindex_keys_1 (key_id=?)",
  ],
  TRIM_OPERATOR_SESSIONS: [
    "SEARCH sessions USING COVERING INDEX sessions_by_key (key_seq=? AND seq<?)",
    "SEARCH sessions USING COVERING INDEX sessions_by_key (key_seq=?)",
  ],
  END_ACCOUNT_SESSIONS: [
    "SEARCH sessions USING COVERING INDEX sessions_by_key (key_seq=?)",
    "SEARCH keys USING INDEX keys_active (account_seq=?)",
    "SEARCH accounts USING COVERING INDEX sqlite_autoindex_accounts_1 (login=?)",
  ],
  TOUCH_WORKER: ["SEARCH workers USING INTEGER PRIMARY KEY (rowid=?)"],
  COLLECT_TASK: ["SEARCH tasks USING INDEX sqlite_autoindex_tasks_1 (id=?)"],
  FIND_LARGE_TASK: [
    "SEARCH t USING INDEX sqlite_autoindex_tasks_1 (id=?)",
    "SEARCH i USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
    "SEARCH r USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
  ],
  SELECT_LARGE_POSTBACK: [
    "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH d USING PRIMARY KEY (task_seq=? AND kind=?)",
    "SEARCH c USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH i USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
    "SEARCH r USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
  ],
  FIND_TASK: [
    "SEARCH t USING INDEX sqlite_autoindex_tasks_1 (id=?)",
    "SEARCH i USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
    "SEARCH r USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
  ],
  FINISH_TASK: ["SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)"],
  FIND_RUNNING: ["SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)"],
  WAITING_DELIVERIES: ["SEARCH deliveries USING PRIMARY KEY (task_seq=?)"],
  OPEN_DELIVERIES: ["SEARCH deliveries USING PRIMARY KEY (task_seq=?)"],
  RELEASE_DELAYED: [
    "SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH tasks USING COVERING INDEX tasks_delayed (start_at<?)",
    NEWEST_MARK,
  ],
  REQUEUE_ALL: [
    "SCAN tasks USING COVERING INDEX tasks_running",
    "SEARCH leases USING INTEGER PRIMARY KEY (rowid=?)",
    NEWEST_MARK,
  ],
  REQUEUE_TASK: ["SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)", NEWEST_MARK],
  DUE_TASKS: ["SEARCH t USING INDEX tasks_expiring (erase_at>? AND erase_at<?)", ...TASK_PARTS],
  KEEP_UNDELIVERED: [
    "SEARCH k USING INTEGER PRIMARY KEY (rowid=?)",
    JSON_LIST,
    "SEARCH o USING PRIMARY KEY (task_seq=?)",
  ],
  FIND_TO_ERASE: [
    "SEARCH t USING INDEX sqlite_autoindex_tasks_1 (id=?)",
    "SEARCH d USING PRIMARY KEY (task_seq=?)",
  ],
  ...Object.fromEntries(
    STORED_STATES.map((state) => [
      `ACCOUNT_TASKS_${state}`,
      ["SEARCH t USING INDEX tasks_by_state (account_seq=? AND state=?)", ...TASK_PARTS],
    ]),
  ),
  SUM_ERASED: [
    ...["COMPOUND QUERY", "LEFT-MOST SUBQUERY", "MATERIALIZE t"],
    ...[...ERASED, ...TASK_PARTS, "SCAN t", ...SUMMED, ...SUMMED, ...SUMMED],
    "SEARCH a USING INDEX attempts_by_delivery (task_seq=?)",
    ...SUMMED,
    "SEARCH d USING COVERING INDEX deliveries_failed (task_seq=?)",
    ...["SCAN erased", "USE TEMP B-TREE FOR GROUP BY"],
  ],
  ERASE_TASKS: [
    "SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)",
    JSON_LIST,
    "SEARCH deliveries USING PRIMARY KEY (task_seq=?)",
    "SEARCH leases USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH task_results USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH task_inputs USING INTEGER PRIMARY KEY (rowid=?)",
  ],
  // Some hundred marks.
  LOWER_MARKS: ["SCAN queue_marks", "SEARCH tasks", "SEARCH tasks"],
  ACCOUNT_ANSWERS: [
    "SEARCH idempotency_keys USING INDEX sqlite_autoindex_idempotency_keys_1 (account_seq=?)",
  ],
  NEWEST_MARK: ["SCAN queue_marks"],
  SERVE_MARK: ["SEARCH queue_marks USING INTEGER PRIMARY KEY (rowid=?)"],
  OLD_TASKS: [
    "SEARCH tasks USING INDEX tasks_queued (type=? AND account_seq=? AND priority=? AND seq>? AND seq<?)",
    "SEARCH queue_marks USING INTEGER PRIMARY KEY (rowid=?)",
    IS_HELD,
  ],
  NEXT_PRIORITY: [
    "SEARCH tasks USING COVERING INDEX tasks_queued (type=? AND account_seq=? AND priority<?)",
  ],
  NEXT_ACCOUNT: ["SEARCH tasks USING COVERING INDEX tasks_queued (type=? AND account_seq>?)"],
  NEXT_TYPE: ["SEARCH tasks USING COVERING INDEX tasks_queued (type>?)"],
  RETRY_TASK: ["SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)"],
  FIND_TASK_STATE: ["SEARCH tasks USING INDEX sqlite_autoindex_tasks_1 (id=?)"],
  FIND_STATE: ["SEARCH tasks USING INDEX sqlite_autoindex_tasks_1 (id=?)"],
  CANCEL_TASK: ["SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)"],
  OLDEST_QUEUED: [
    "SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH tasks USING COVERING INDEX tasks_queued (type=?)",
    "SCAN heads",
    "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH tasks USING COVERING INDEX tasks_queued (type=? AND account_seq=? AND priority<?)",
    IS_HELD,
    "SEARCH tasks USING COVERING INDEX tasks_queued (type=? AND account_seq>?)",
    IS_HELD,
    "SEARCH accounts USING INDEX accounts_enabled (seq>?)",
    "SEARCH heads",
    IS_HELD,
  ],
  QUEUED_TYPES: [
    "SEARCH tasks USING COVERING INDEX tasks_queued",
    "SCAN types",
    "SEARCH tasks USING COVERING INDEX tasks_queued (type>?)",
    "SCAN types",
  ],
  DELAYED_TYPES: ["SCAN tasks USING INDEX tasks_delayed"],
  SELECT_COUNTS: ["SEARCH task_counts USING PRIMARY KEY (account_seq=?)"],
  FIND_ANSWER: [
    "SEARCH idempotency_keys USING INDEX sqlite_autoindex_idempotency_keys_1 (account_seq=? AND key=?)",
  ],
  SIZE_ANSWERS: ["SEARCH idempotency_keys USING INDEX idempotency_keys_by_age (erase_at<?)"],
  ERASE_ANSWERS: oneByOne(
    "SEARCH idempotency_keys USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH idempotency_keys USING COVERING INDEX idempotency_keys_by_age (erase_at<?)",
  ),
  ERASE_DECIDED_keys: [
    "SEARCH keys USING INTEGER PRIMARY KEY (rowid=?)",
    "SCAN a USING COVERING INDEX sqlite_autoindex_accounts_1",
    "SEARCH k USING COVERING INDEX keys_revoked (account_seq=? AND revoked_at>? AND revoked_at<?)",
    "SEARCH sessions USING COVERING INDEX sessions_by_key (key_seq=?)",
    // The foreign key.
    "SEARCH sessions USING COVERING INDEX sessions_by_key (key_seq=?)",
  ],
  ERASE_MADE_pending: oneByOne(
    "SEARCH access_requests USING INTEGER PRIMARY KEY (rowid=?)",
    "SCAN access_requests USING INDEX access_requests_pending",
  ),
  ERASE_DECIDED_requests: oneByOne(
    "SEARCH access_requests USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH access_requests USING INDEX access_requests_decided (decided_at>? AND decided_at<?)",
  ),
  SELECT_DUE: [
    "SEARCH a USING INDEX attempts_due (account_seq=? AND host=? AND retry=? AND due_at<?)",
    "SEARCH i USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
    "SEARCH r USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
  ],
  START_ATTEMPT: ["SEARCH attempts USING INTEGER PRIMARY KEY (rowid=?)"],
  END_ATTEMPT: ["SEARCH attempts USING INTEGER PRIMARY KEY (rowid=?)"],
  LANE_DUE_AT: ["SEARCH attempts USING INDEX attempts_due (account_seq=? AND host=? AND retry=?)"],
  // To the first of them.
  ANY_SCHEDULED: ["SCAN CONSTANT ROW", "SCAN attempts USING INDEX attempts_due"],
  LIST_WAITING_ACCOUNTS: [
    "SEARCH attempts USING INDEX attempts_due",
    "SCAN waiting",
    "SEARCH attempts USING INDEX attempts_due (account_seq>?)",
    "SCAN waiting",
  ],
  LIST_QUEUES: [
    "SEARCH attempts USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH attempts USING INDEX attempts_due (account_seq=?)",
    "SCAN queues",
    "SEARCH a USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH attempts USING INDEX attempts_due (account_seq=? AND host=? AND retry>?)",
    "SEARCH attempts USING INDEX attempts_due (account_seq=? AND host>?)",
    "SCAN queues",
  ],
  IS_HELD: ["SEARCH accounts USING INTEGER PRIMARY KEY (rowid=?)"],
  LIST_SENDING_ACCOUNTS: ["SCAN accounts USING INDEX accounts_enabled"],
  PROVEN_HOSTS: [
    OF_HOURS,
    "SCAN t",
    "SEARCH f USING PRIMARY KEY (account_seq=? AND host=?)",
    "USE TEMP B-TREE FOR GROUP BY",
    "USE TEMP B-TREE FOR ORDER BY",
  ],
  LIST_IN_FLIGHT: [
    "SCAN a USING INDEX attempts_in_flight",
    "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)",
  ],
  NEXT_RETRY: ["SEARCH attempts USING INDEX attempts_due (account_seq=? AND host=? AND retry>?)"],
  SELECT_STARTED: [
    "SEARCH a USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH d USING PRIMARY KEY (task_seq=? AND kind=?)",
    "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH c USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH i USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
    "SEARCH r USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
  ],
  DECIDE_REQUEST: ["SEARCH access_requests USING INDEX sqlite_autoindex_access_requests_1 (id=?)"],
  COUNT_ACTIVE_KEYS: [
    "SEARCH keys USING INDEX keys_active (account_seq=?)",
    "SEARCH accounts USING COVERING INDEX sqlite_autoindex_accounts_1 (login=?)",
  ],
  COUNT_PENDING_REQUESTS: ["SCAN access_requests USING INDEX access_requests_pending", "SCAN p"],
  COUNT_QUEUED: ["SEARCH tasks USING COVERING INDEX tasks_queued (type=?)", "SCAN (subquery-1)"],
  COUNT_RUNNING: ["SCAN tasks USING INDEX tasks_running", "USE TEMP B-TREE FOR GROUP BY"],
  DENY_REQUESTS: [
    "SEARCH access_requests USING INTEGER PRIMARY KEY (rowid=?)",
    "MATERIALIZE waiting",
    "SCAN access_requests USING INDEX access_requests_pending",
    "SCAN waiting",
  ],
  ERASE_OLDEST_REQUEST: [
    "SEARCH access_requests USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH access_requests USING INDEX access_requests_pending",
  ],
  ERASE_OLDEST: [
    "SEARCH audit USING INTEGER PRIMARY KEY (rowid=?)",
    // Up to a LIMIT.
    "MATERIALIZE oldest",
    "SCAN audit",
    "MATERIALIZE first_kept",
    "SEARCH oldest",
    "SEARCH audit",
    "SCAN k",
    "SCAN o",
  ],
  LIST_ENTRIES_all: ["SEARCH audit USING INTEGER PRIMARY KEY (rowid<?)"],
  LIST_ENTRIES_ofAction: ["SEARCH audit USING INDEX audit_by_action (action=? AND seq<?)"],
  LIST_ENTRIES_since: [
    "SEARCH audit USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
    "SEARCH audit USING COVERING INDEX audit_by_age (at>?)",
  ],
  LIST_ENTRIES_ofActionSince: [
    "SEARCH audit USING INDEX audit_by_action (action=? AND seq>? AND seq<?)",
    "SEARCH audit USING COVERING INDEX audit_by_age (at>?)",
  ],
  FIND_APPROVED_REQUEST: ["SCAN r", "SEARCH a USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN"],
  LIST_REQUESTS_all: ["SCAN r", "SEARCH a USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN"],
  LIST_REQUESTS_pending: [
    "SCAN r USING INDEX access_requests_pending",
    "SEARCH a USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
  ],
  REVOKE_KEY: ["SEARCH keys USING INDEX sqlite_autoindex_keys_1 (key_id=?)"],
  SELECT_ACCOUNT_DATA: ["SEARCH accounts USING INTEGER PRIMARY KEY (rowid=?)"],
  SELECT_KEYS: [
    "COMPOUND QUERY",
    "LEFT-MOST SUBQUERY",
    "SEARCH keys USING INDEX keys_active (account_seq=?)",
    "UNION ALL",
    "SEARCH keys USING INDEX keys_revoked (account_seq=? AND revoked_at>?)",
    "SCAN r",
    "SCAN k",
    // An account has few.
    "USE TEMP B-TREE FOR ORDER BY",
  ],
  LOCK_DECISION: ["SEARCH access_requests USING INDEX sqlite_autoindex_access_requests_1 (id=?)"],
  TOUCH_KEY: ["SEARCH keys USING INDEX sqlite_autoindex_keys_1 (key_id=?)"],
  LOCK_LIMITS: ["SEARCH accounts USING INDEX sqlite_autoindex_accounts_1 (login=?)"],
  FIND_KEY_HOLDER: [
    "SEARCH k USING INDEX sqlite_autoindex_keys_2 (hash=?)",
    "SEARCH a USING INTEGER PRIMARY KEY (rowid=?)",
  ],
};

const OLDEST_WAITING = [
  "SEARCH tasks USING INDEX tasks_by_state (account_seq=? AND state=? AND created_at<?)",
  "SEARCH tasks USING INDEX tasks_by_state (account_seq=? AND state=?)",
  "SEARCH first",
];

const OLD_STEPS =
  "SEARCH traffic USING COVERING INDEX traffic_by_age (step_ms=? AND at>? AND at<?)";

const ERASED_STEPS = oneByOne(
  "SEARCH traffic USING PRIMARY KEY (account_seq=? AND step_ms=? AND at=?)",
  OLD_STEPS,
);

// A seek for each row too.
const ANALYSED_STEPS = oneByOne(
  "SEARCH traffic USING INDEX traffic_by_age (step_ms=? AND at=? AND account_seq=?)",
  OLD_STEPS,
);

const ANALYSED_PLANS = {
  ERASE_TRAFFIC_minutes: ANALYSED_STEPS,
  ERASE_TRAFFIC_hours: ANALYSED_STEPS,
};

/** Of counts and traffic. Whole tables are read that have some rows for each account; no row of a task's life is. */
const TRAFFIC_PLANS: Readonly<Record<string, readonly string[]>> = {
  SUM_COUNTS: ["SCAN task_counts", "USE TEMP B-TREE FOR GROUP BY"],
  SUM_WAITING: ["SCAN task_counts"],
  WAITING_MOST: [
    "SCAN task_counts",
    "USE TEMP B-TREE FOR ORDER BY",
    "SCAN w",
    ...OLDEST_WAITING,
    IS_HELD,
  ],
  OLDEST_OF_ACCOUNT: ["SCAN CONSTANT ROW", ...OLDEST_WAITING],
  FIND_DURATIONS: ["SEARCH traffic USING PRIMARY KEY (account_seq=? AND step_ms=? AND at=?)"],
  FIND_HOST_DURATIONS: [
    "SEARCH host_traffic USING PRIMARY KEY (account_seq=? AND at=? AND host=?)",
  ],
  NEXT_MINUTE: ["SEARCH traffic USING COVERING INDEX traffic_by_age (step_ms=? AND at<?)"],
  FOLDED_DURATIONS: [
    "COMPOUND QUERY",
    "LEFT-MOST SUBQUERY",
    "SEARCH traffic USING PRIMARY KEY (account_seq=? AND step_ms=? AND at>? AND at<?)",
    "UNION ALL",
    "SEARCH traffic USING PRIMARY KEY (account_seq=? AND step_ms=? AND at=?)",
  ],
  ERASE_FOLDED: [
    "SEARCH traffic USING PRIMARY KEY (account_seq=? AND step_ms=? AND at>? AND at<?)",
  ],
  ERASE_TRAFFIC_minutes: ERASED_STEPS,
  ERASE_TRAFFIC_hours: ERASED_STEPS,
  ERASE_TRAFFIC_hosts: oneByOne(
    "SEARCH host_traffic USING PRIMARY KEY (account_seq=? AND at=? AND host=?)",
    "SEARCH host_traffic USING COVERING INDEX host_traffic_by_age (at>? AND at<?)",
  ),
  ERASE_TRAFFIC_failures: oneByOne(
    "SEARCH host_failures USING PRIMARY KEY (account_seq=? AND host=?)",
    "SEARCH host_failures USING COVERING INDEX host_failures_by_age (ended_at>? AND ended_at<?)",
  ),
  ERASE_EMPTY_HOURS: [
    "SEARCH t USING PRIMARY KEY (account_seq=? AND at=? AND host=?)",
    "SEARCH host_traffic USING PRIMARY KEY (account_seq=?)",
  ],
  ERASE_SHARED_FAILURES: [
    "SEARCH t USING PRIMARY KEY (account_seq=? AND host=?)",
    "SEARCH host_failures USING PRIMARY KEY (account_seq=?)",
    "SEARCH host_failures USING PRIMARY KEY (account_seq=?)",
  ],
  SUBTRACT_HOURS: [
    "MATERIALIZE own",
    "SEARCH host_traffic USING PRIMARY KEY (account_seq=?)",
    "SCAN own",
    "SEARCH t USING PRIMARY KEY (account_seq=? AND at=? AND host=?)",
    "SCAN a VIRTUAL TABLE INDEX 1:",
    "SCAN b VIRTUAL TABLE INDEX 1: LEFT-JOIN",
    "USE TEMP B-TREE FOR ORDER BY",
    "SCAN (subquery-1)",
  ],
  ERASE_MADE_sessions: oneByOne(
    "SEARCH sessions USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH sessions USING COVERING INDEX sessions_by_age (created_at<?)",
  ),
  ERASE_MADE_links: oneByOne(
    "SEARCH sign_in_links USING PRIMARY KEY (hash=?)",
    "SCAN sign_in_links",
  ),
  SELECT_TRAFFIC: [
    "SEARCH traffic USING PRIMARY KEY (account_seq=? AND step_ms=? AND at>? AND at<?)",
    ...[JSON_LIST, "USE TEMP B-TREE FOR ORDER BY"],
  ],
  // Of hosts, 20,000 rows at most.
  WORST_HOSTS: [
    ...["SCAN CONSTANT ROW", "MATERIALIZE worst", "MATERIALIZE hosts", "COMPOUND QUERY"],
    ...["LEFT-MOST SUBQUERY", "MATERIALIZE sent", OF_HOURS, "SCAN sent", "UNION ALL"],
    "MATERIALIZE counted",
    "SEARCH host_counts USING PRIMARY KEY (account_seq>? AND account_seq<?)",
    ...["SCAN counted", "SCAN facts", "USE TEMP B-TREE FOR GROUP BY", "SCAN hosts"],
    ...["USE TEMP B-TREE FOR ORDER BY", "SCAN facts", "SCAN worst LEFT-JOIN"],
    ...["SCAN hosts", "SCAN sent", "SCAN counted"],
  ],
  HOST_DURATIONS: [OF_HOURS, "SCAN examined", JSON_LIST, "SCAN (subquery-5)"],
  SELECT_USAGE: ["SEARCH task_counts USING PRIMARY KEY (account_seq=? AND state=?)"],
  ERASE_EMPTY_HOST: ["SEARCH host_counts USING PRIMARY KEY (account_seq=? AND host=?)"],
  HOST_FAILURES: [
    "SEARCH f USING PRIMARY KEY (account_seq=? AND host=?)",
    JSON_LIST,
    "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH a EXISTS USING INDEX attempts_by_delivery (task_seq=?)",
  ],
  LIST_OVERVIEWS: [
    "SEARCH accounts USING INDEX sqlite_autoindex_accounts_1 (login>?)",
    "SEARCH keys USING INDEX keys_active (account_seq=?)",
  ],
  SUM_DAY: ["SEARCH traffic USING PRIMARY KEY (account_seq=? AND step_ms=? AND at>? AND at<?)"],
};

/** Workers, most of them revoked, and leases of some of the tasks that still wait. */
async function seedLeases(store: Store): Promise<void> {
  for (let i = 0; i < 20; i++) {
    await seedWorker(store, `worker-${i}`);
    if (i > 0) await store.revokeWorker({ name: `worker-${i}`, revokedAt: T0 });
  }
  const leased = await store.claimLeases(newLeaseClaim(1, { max: 50 }));
  const ends = leased.slice(20).map((lease) => newLeaseEnd(lease));
  await store.endLeases({ ends, workerId: 1, now: T0 });
}

/** One account with many keys, most of them revoked. */
async function seedKeys(store: Store): Promise<void> {
  const login = "account-0";
  for (let i = 0; i < 100; i++) {
    const key = { ...newKeyToStore(), login, createdAt: T0 + i, activeMax: 1000 };
    await store.createKey(key);
    if (i >= 20) await store.revokeKey({ keyId: key.keyId, accountId: null, revokedAt: T0 + i });
  }
}

/** Requests for access, most of them decided. */
async function seedRequests(store: Store): Promise<void> {
  for (let i = 0; i < 100; i++) {
    const request = newAccessRequest({ pendingMax: 1000 });
    await store.insertAccessRequest(request);
    if (i >= 20) await store.denyAccessRequest({ id: request.id, decidedAt: T0 + i });
  }
}

function statementsOf(module: object): Readonly<Record<string, string>> {
  const entries = Object.entries(module).flatMap(([name, value]) => {
    const text = textOf(value);
    return /^\s*(SELECT|UPDATE|DELETE|WITH)\b/.test(text) ? [[name, text] as const] : [];
  });
  return Object.fromEntries(entries);
}

/** The text for SQLite; empty if the value is not a statement. */
function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  if (typeof value !== "object" || value === null || !("sqlite" in value)) return "";
  return typeof value.sqlite === "string" ? value.sqlite : "";
}

function prefixed(prefix: string, statements: object): object {
  return Object.fromEntries(
    Object.entries(statements).map(([name, sql]) => [`${prefix}_${name}`, sql]),
  );
}

function openEmpty(t: TestContext): Connection {
  const connection = openWriter(newDatabaseFile(t));
  t.after(() => connection.close());
  connection.exec(schemaSql);
  return connection;
}

/** The steps of a plan that touch rows, without the lines that only group them. */
function planOf(connection: Connection, sql: string): readonly string[] {
  const named = Object.fromEntries([...sql.matchAll(/@(\w+)/g)].map(([, name]) => [name, 1]));
  const positional = [...sql.matchAll(/\?/g)].map(() => 1);
  const rows = connection
    .prepare<unknown[], { detail: string }>(`EXPLAIN QUERY PLAN ${sql}`)
    .all(...positional, named);
  return rows
    .map(({ detail }) => detail)
    .filter(
      (detail) =>
        !/^(CORRELATED )?(LIST|SCALAR) SUBQUERY|^CREATE BLOOM|^CO-ROUTINE|^SETUP|^RECURSIVE/.test(
          detail,
        ),
    );
}

const ALL_PLANS = { ...PLANS, ...TRAFFIC_PLANS };

test("every statement that runs per task or per tick has a plan to keep to", () => {
  assert.deepEqual(Object.keys(STATEMENTS).sort(), Object.keys(ALL_PLANS).sort());
});

for (const [name, sql] of Object.entries(STATEMENTS)) {
  test(`${name} seeks and sorts by its index`, (t) => {
    assert.deepEqual(planOf(openEmpty(t), sql), ALL_PLANS[name]);
  });
}

// An operator's ANALYZE gives the planner numbers, and with numbers it may prefer another way.
test("the plans stay the same once a file with tasks in it has been analysed", async (t) => {
  const file = newDatabaseFile(t);
  const store = await openTestStore(t, { file });
  const accounts = Array.from({ length: 100 }, (_, i) => seedAccount(store, `account-${i}`));
  for (const accountId of await Promise.all(accounts)) {
    const tags = ["a", "b", null, "c", "a"];
    const posted = tags.map((tag) => newTask({ tag, postback: webhook(`${tag}.example`) }));
    await store.insertTasks(newPost(accountId, posted));
  }
  const claimed = await store.claimTasks({ type: "echo", max: 400, now: T0 });
  await Promise.all(claimed.slice(50).map((task) => store.finishTask(newFinish(task))));
  await claimLanes(store, ["a.example"]);
  await seedLeases(store);
  await seedKeys(store);
  await seedRequests(store);
  const connection = openWriter(file);
  t.after(() => connection.close());
  connection.exec("ANALYZE");

  const plans = Object.entries(STATEMENTS).map(([name, sql]) => [name, planOf(connection, sql)]);

  assert.deepEqual(Object.fromEntries(plans), { ...ALL_PLANS, ...ANALYSED_PLANS });
});

test("erasing a task finds each row that goes with it by an index", (t) => {
  const connection = openEmpty(t);
  // delivery_holds goes with an account, and has few rows.
  const cascades = connection
    .prepare<[], { child: string; columns: string }>(
      `SELECT m.name AS child, group_concat(f."from") AS columns
       FROM sqlite_schema AS m JOIN pragma_foreign_key_list(m.name) AS f
       WHERE f.on_delete = 'CASCADE' AND m.name <> 'delivery_holds' GROUP BY m.name, f.id ORDER BY child`,
    )
    .all();

  assert.deepEqual(cascades, [
    { child: "attempts", columns: "task_seq,kind" },
    { child: "deliveries", columns: "task_seq" },
    { child: "hold_changes", columns: "account_seq" },
    { child: "leases", columns: "task_seq" },
    { child: "task_inputs", columns: "task_seq" },
    { child: "task_results", columns: "task_seq" },
  ]);
  for (const { child, columns } of cascades) {
    const where = columns
      .split(",")
      .map((column) => `${column} = ?`)
      .join(" AND ");
    const plan = planOf(connection, `SELECT 1 FROM ${child} WHERE ${where}`);
    assert.match(plan.join(), /^SEARCH \w+ USING (INTEGER PRIMARY KEY|PRIMARY KEY|COVERING INDEX)/);
  }
});
