import type { AttemptOutcome, DeliveryKind, DeliveryState } from "../../domain/delivery.ts";
import type { HeldWork } from "../../domain/held-work.ts";
import type { TaskState } from "../../domain/task.ts";

/** What the API's operations answer, as far as the dashboard reads it. Times are RFC 3339. */

export interface Session {
  readonly role: "account" | "operator";
  readonly login: string | null;
  readonly expires_at: string;
  readonly idle_seconds: number;
  readonly version: string;
  readonly time: string;
}

export interface SessionEnvelope {
  readonly session: Session | null;
}

export interface WorkCounts {
  /** Queued tasks that may run now. */
  readonly waiting: number;
  /** Queued tasks that start later. */
  readonly delayed: number;
  readonly running: number;
  readonly ready: number;
  readonly retrying: number;
  /** Deliveries that are given up or refused now. */
  readonly undelivered: number;
}

// GET /v1/stats/hosts

export interface HostsEnvelope {
  readonly since: string;
  readonly hosts: readonly HostRow[];
  readonly more: boolean;
}

export interface HostRow {
  readonly host: string;
  readonly attempts: number;
  readonly succeeded: number;
  readonly success: number | null;
  readonly p50_ms: number | null;
  readonly p95_ms: number | null;
  readonly given_up: number;
  readonly refused: number;
  readonly retrying: number;
  readonly last_error: {
    readonly at: string;
    readonly error: string | null;
    readonly http_status: number | null;
    readonly task_id: string | null;
  } | null;
}

// GET /v1/tasks/search

export interface SearchEnvelope {
  readonly tasks: readonly TaskRow[];
  readonly next_cursor: string | null;
  readonly examined_until: string | null;
}

export interface Progress {
  readonly progress: number;
  readonly note: string | null;
}

export interface TaskRow {
  readonly id: string;
  readonly login: string;
  readonly state: TaskState;
  readonly status_code: number;
  readonly status_message: string;
  readonly type: string | null;
  readonly tag: string | null;
  readonly priority: number;
  readonly runs: number;
  readonly created_at: string;
  readonly started_at: string | null;
  readonly completed_at: string | null;
  readonly start_at: string | null;
  readonly progress: Progress | null;
  readonly ready: boolean;
  readonly deliveries: readonly DeliveryBrief[];
}

export interface DeliveryBrief {
  readonly kind: DeliveryKind;
  readonly host: string;
  readonly state: DeliveryState | "waiting";
  readonly attempts: number;
  readonly last: {
    readonly outcome: AttemptOutcome;
    readonly http_status: number | null;
    readonly error: string | null;
    readonly ended_at: string;
  } | null;
  readonly next_attempt_at: string | null;
}

// GET /v1/tasks/timeline/:id

export interface Timeline {
  readonly task: TaskShown;
  readonly run: {
    readonly by: { readonly kind: string | null; readonly name: string | null };
    readonly lease_expires_at: string | null;
  };
  readonly story: string | null;
  readonly deliveries: readonly DeliveryShown[];
  readonly time: string;
}

export interface TaskShown {
  readonly id: string;
  readonly login: string;
  readonly state: TaskState;
  readonly status_code: number;
  readonly status_message: string;
  readonly type: string | null;
  readonly created_at: string;
  readonly started_at: string | null;
  readonly completed_at: string | null;
  readonly expires_at: string | null;
  readonly runs: number;
  readonly progress: Progress | null;
  readonly data: Readonly<Record<string, unknown>>;
  readonly error: { readonly message: string; readonly detail: unknown } | null;
  readonly ready: boolean;
  readonly input_bytes: number | null;
  readonly result_bytes: number | null;
}

export type HeaderLine = readonly [name: string, value: string];

export interface DeliveryShown {
  readonly delivery_id: string;
  readonly kind: DeliveryKind;
  readonly url: string;
  readonly host: string;
  readonly state: DeliveryState | "waiting";
  readonly story: string | null;
  readonly next_attempt_at: string | null;
  readonly request: {
    readonly method: string;
    readonly target: string;
    readonly headers: readonly HeaderLine[];
    readonly body: { readonly bytes: number; readonly text: string | null } | null;
    readonly message: string;
    readonly signature: string;
    readonly signature_next: string | null;
  } | null;
  readonly attempts: readonly AttemptShown[];
}

export interface AttemptShown {
  readonly number: number;
  readonly due_at: string;
  readonly started_at: string | null;
  readonly ended_at: string | null;
  readonly outcome: AttemptOutcome | null;
  readonly http_status: number | null;
  readonly error: string | null;
  readonly address: string | null;
  readonly phases: {
    readonly dns_ms: number | null;
    readonly connect_ms: number | null;
    readonly tls_ms: number | null;
    readonly first_byte_ms: number | null;
  };
  readonly response_excerpt: string | null;
  readonly refusal: {
    readonly host: string;
    readonly addresses: readonly string[];
    readonly rule: string;
  } | null;
  readonly explanation: string | null;
  readonly retry_after: string | null;
  readonly request_headers: readonly HeaderLine[];
}

// Redeliveries

export interface RedeliveryFilter {
  readonly login?: string | null;
  readonly host?: string | null;
  readonly kind?: DeliveryKind | null;
  readonly states?: readonly DeliveryState[] | null;
  readonly since: string | null;
  readonly until?: string | null;
}

export interface RedeliveryPreview {
  readonly deliveries: number;
  readonly hosts: readonly { readonly host: string; readonly deliveries: number }[];
  readonly next_cursor: string | null;
  readonly examined_until: string | null;
}

export interface RedeliveryOrder {
  readonly id: string;
  readonly filter: RedeliveryFilter;
  readonly per_second: number;
  readonly created_at: string;
  readonly redelivered: number;
  readonly ended_at: string | null;
  readonly is_cancelled: boolean;
}

// Account

export interface UserData {
  readonly login: string;
  readonly webhook_secret: string;
  readonly webhook_secret_next: string | null;
  readonly keys: readonly KeyRow[];
  readonly key_limit: number;
  readonly limits: AccountLimits;
  readonly usage: AccountUsage;
  readonly retention_days: number;
}

/** What an account may take up; of each 0 is no limit. */
export interface AccountLimits {
  readonly bytes: number;
  readonly open_tasks: number;
  readonly requests_per_minute: number;
  readonly tasks_per_minute: number;
}

export interface AccountUsage {
  readonly bytes: number;
  readonly open_tasks: number;
}

export interface KeyRow {
  readonly key_id: string;
  readonly prefix: string;
  readonly last_four: string;
  readonly label: string | null;
  readonly created_at: string;
  readonly last_used_at: string | null;
  readonly revoked_at: string | null;
}

export interface NewKey extends Pick<KeyRow, "key_id" | "last_four" | "label"> {
  readonly key: string;
}

// Operator

export interface AccountRow {
  readonly login: string;
  readonly created_at: string;
  readonly disabled_at: string | null;
  readonly keys_active: number;
  readonly is_rotating: boolean;
  /** Null where it is not disabled. */
  readonly held: HeldWork | null;
  readonly tasks: WorkCounts;
  readonly limits: AccountLimits;
  readonly usage: AccountUsage;
  readonly day: {
    readonly posted: number;
    readonly delivered: number;
    readonly given_up: number;
    readonly refused: number;
    readonly success: number | null;
  };
}

export interface NewAccount {
  readonly login: string;
  readonly key: string;
  readonly webhook_secret: string;
}

export interface AccessRequestRow {
  readonly id: string;
  readonly email: string;
  readonly name: string | null;
  readonly company: string | null;
  readonly message: string | null;
  readonly created_at: string;
  readonly decision: "approved" | "denied" | null;
  readonly decided_at: string | null;
}

export interface RunnersEnvelope {
  readonly types: readonly TypeRow[];
  readonly workers: readonly WorkerRow[];
}

export interface TypeRow {
  readonly name: string;
  readonly kind: string;
  readonly runs: string | null;
  readonly concurrency: number | null;
  readonly timeout_ms: number | null;
  readonly lease_ms: number | null;
  readonly retries: number;
  readonly running: number;
  readonly waiting: number;
  readonly waiting_is_more?: boolean;
  readonly oldest_waiting_ms: number | null;
  readonly workers_waiting: number | null;
  readonly has_worker: boolean | null;
}

export interface WorkerRow {
  readonly name: string;
  readonly types: readonly string[];
  readonly last_four: string;
  readonly created_at: string;
  readonly last_seen_at: string | null;
  readonly revoked_at: string | null;
  readonly leases: number;
}

export interface SystemEnvelope {
  readonly version: string;
  readonly node: string;
  readonly sqlite: string;
  readonly platform: string;
  readonly pid: number;
  readonly started_at: string;
  readonly uptime_ms: number;
  readonly url: string;
  readonly database: {
    readonly path: string;
    readonly bytes: number;
    readonly wal_bytes: number;
    readonly data_bytes: number;
  };
  readonly disk: { readonly free_bytes: number | null; readonly total_bytes: number | null };
  readonly memory: { readonly rss_bytes: number; readonly heap_bytes: number };
  readonly event_loop: {
    readonly p99_delay_ms: number;
    readonly worst_delay_ms: number;
  } | null;
  readonly status: {
    readonly status: string;
    readonly components: Readonly<Record<string, string>>;
  };
  readonly settings: readonly {
    readonly key: string;
    readonly value: string | null;
    readonly source: string;
    readonly is_default: boolean;
  }[];
  readonly log: readonly {
    readonly time: string;
    readonly level: string;
    readonly message: string;
    readonly facts: string;
  }[];
}
