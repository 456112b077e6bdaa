import type { Durations, SeriesDuration } from "../../domain/stats/time-series.ts";
import { STATUS_TABLE, type StatusCode } from "../../domain/status.ts";
import type { SearchedState } from "../../domain/task/task-search.ts";
import type { StoredState, Task, TaskState, TaskSummary } from "../../domain/task/task.ts";
import type { AttemptPhases, DeliveryFilter, Refusal } from "../../domain/webhook/delivery.ts";
import type {
  Attempt,
  ClaimedAttempt,
  DeliveryCount,
  DeliveryCountPage,
  DeliverySummary,
  DeliverySummaryEnd,
  RedeliveryOrder,
  RedeliveryStep,
  Traffic,
  TrafficStep,
} from "../store.ts";

/** Attempts, as both stores select them. */

/** An attempt that was started, with its task: its `startedAt` is the task's. */
export interface StartedRow extends Omit<ClaimedAttempt, "task" | "startedAt">, TaskRow {
  readonly sentAt: number;
}

export function toClaimedAttempt(row: StartedRow): ClaimedAttempt {
  const { seq, taskSeq, accountId, taskId, kind, number, retry, host, dueAt } = row;
  return {
    seq,
    taskSeq,
    accountId,
    taskId,
    kind,
    number,
    retry,
    host,
    dueAt,
    startedAt: row.sentAt,
    url: row.url,
    webhookSecret: row.webhookSecret,
    webhookSecretNext: row.webhookSecretNext,
    largeBytes: row.largeBytes,
    traceText: row.traceText,
    task: toTask(row),
  };
}

/** An attempt as it is recorded. */
export interface AttemptRow extends Omit<Attempt, "phases" | "refusal">, AttemptPhases {
  readonly refusalText: string | null;
}

export function toAttempt(row: AttemptRow): Attempt {
  const { dnsMs, connectMs, tlsMs, firstByteMs, refusalText, ...attempt } = row;
  const phases = { dnsMs, connectMs, tlsMs, firstByteMs };
  // Only recordAttempt writes this column.
  const refusal = refusalText === null ? null : (JSON.parse(refusalText) as Refusal);
  return { ...attempt, phases, refusal };
}

/** The operator's lists of deliveries, as both stores select and count them. */

/** A delivery of a list. Its end is null throughout while no attempt has ended. */
export type DeliverySummaryRow = Omit<DeliverySummary, "last"> & {
  readonly [Name in keyof DeliverySummaryEnd]: DeliverySummaryEnd[Name] | null;
};

export function toDeliverySummary(row: DeliverySummaryRow): DeliverySummary {
  const { number, outcome, httpStatus, error, endedAt, ...summary } = row;
  const isTried = number !== null && outcome !== null && endedAt !== null;
  return { ...summary, last: isTried ? { number, outcome, httpStatus, error, endedAt } : null };
}

export const NOTHING_COUNTED: DeliveryCountPage = {
  deliveries: 0,
  hosts: [],
  next: null,
  examinedUntil: null,
};

/** Adds up what was counted by host. */
export function toCount(counts: ReadonlyMap<string, number>): DeliveryCount {
  const hosts = [...counts].map(([host, deliveries]) => ({ host, deliveries }));
  hosts.sort((a, b) => b.deliveries - a.deliveries || (a.host < b.host ? -1 : 1));
  const deliveries = hosts.reduce((sum, host) => sum + host.deliveries, 0);
  return { deliveries, hosts };
}

const HOSTS_COUNTED_MAX = 100;

/** A count that names the most numerous hosts alone. */
export function cutHosts({ deliveries, hosts }: DeliveryCount): DeliveryCount {
  return { deliveries, hosts: hosts.slice(0, HOSTS_COUNTED_MAX) };
}

/** An order to send many deliveries again, as both stores keep it. */
export interface OrderRow extends Omit<RedeliveryOrder, "filter" | "isCancelled"> {
  readonly filterText: string;
  readonly isCancelled: 0 | 1 | boolean;
  /** The newest attempt when the order was given, and the last that it has looked at. */
  readonly lastAttempt: number;
  readonly examined: number;
}

/** The step of an order that has ended. */
export const NOTHING_LEFT: RedeliveryStep = { lanes: [], redelivered: 0, isDone: true };

export function toOrder(row: OrderRow): RedeliveryOrder {
  const { id, perSecond, createdAt, redelivered, endedAt } = row;
  const isCancelled = Boolean(row.isCancelled);
  return { id, filter: toFilter(row), perSecond, createdAt, redelivered, endedAt, isCancelled };
}

export function toFilter({ filterText }: Pick<OrderRow, "filterText">): DeliveryFilter {
  // Only orderRedelivery writes this column.
  return JSON.parse(filterText) as DeliveryFilter;
}

/** Rows of tasks, as both stores select them, and the tasks that they are. */

/** A task without its texts, its state and code as they are stored. */
export interface SummaryRow extends Omit<TaskSummary, "state" | "statusCode"> {
  readonly state: string;
  readonly statusCode: number;
}

/** A task with its texts. */
export type TaskRow = SummaryRow & Omit<Task, keyof TaskSummary>;

export function toTask(row: TaskRow): Task {
  const { inputText, resultText, errorText } = row;
  return { ...toSummary(row), inputText, resultText, errorText };
}

export function toSummary(row: SummaryRow): TaskSummary {
  const { id, statusMessage, type, createdAt, startedAt, completedAt, expiresAt, runs } = row;
  return {
    id,
    state: toState(row.state),
    statusCode: toStatusCode(row.statusCode),
    statusMessage,
    type,
    createdAt,
    startedAt,
    completedAt,
    expiresAt,
    runs,
    dataText: row.dataText,
  };
}

// The table's CHECK admits exactly these; `delayed` is the stored state of queued tasks that wait for start_at.
function toState(text: string): TaskState {
  switch (text) {
    case "delayed":
    case "queued":
      return "queued";
    case "running":
    case "completed":
    case "failed":
    case "cancelled":
      return text;
    default:
      throw new Error(`the database holds a task in the unknown state ${text}`);
  }
}

function toStatusCode(code: number): StatusCode {
  if (isStatusCode(code)) return code;
  throw new Error(`the database holds a task with the unknown status code ${code}`);
}

function isStatusCode(code: number): code is StatusCode {
  return Object.hasOwn(STATUS_TABLE, code);
}

/** A step of traffic as both stores select it; each writes histograms in its own way. */
export interface TrafficRow extends TrafficStep {
  readonly durationsText: string;
}

/** Converts rows, which come oldest first. */
export function toTraffic(
  rows: readonly TrafficRow[],
  parseDurations: (text: string) => Durations,
): Traffic {
  const steps: TrafficStep[] = [];
  const durations: SeriesDuration[] = [];
  for (const { durationsText, ...step } of rows) {
    const { at } = step;
    steps.push(step);
    let bucket = 0;
    for (const count of parseDurations(durationsText)) {
      if (count > 0) durations.push({ at, bucket, count });
      bucket++;
    }
  }
  return { steps, durations };
}

const QUOTED_OR_COMMENT = /'[^']*'|"[^"]*"|--.*|\/\*[^]*?\*\//;

/** Rewrites the parameters of a statement; literals, quoted names and comments stay as they are. */
export function rewriteParameters(
  sql: string,
  parameter: RegExp,
  rewrite: (parameter: string) => string,
): string {
  const parts = new RegExp(`${QUOTED_OR_COMMENT.source}|(${parameter.source})`, "g");
  return sql.replaceAll(parts, (part, found?: string) =>
    found === undefined ? part : rewrite(found),
  );
}

/** Every state that is stored. */
export const STORED_STATES: readonly StoredState[] = [
  "queued",
  "delayed",
  "running",
  "completed",
  "failed",
  "cancelled",
];

/** The stored states that are shown as this one. */
export function storedStates(state: SearchedState): readonly StoredState[] {
  if (state === "queued") return ["queued", "delayed"];
  if (state === "waiting") return ["queued"];
  return state === "ready" ? ["completed", "failed"] : [state];
}
