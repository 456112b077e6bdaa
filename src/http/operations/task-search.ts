import type { FoundDelivery as FoundDeliveryShown, FoundTask } from "../../api/search.ts";
import type {
  HeaderLine,
  Timeline,
  TimelineDelivery,
  TimelineRequest,
  TimelineRun,
} from "../../api/timeline.ts";
import { momentText, timeOrNull, timeText } from "../../domain/clock/time.ts";
import { isId } from "../../domain/id.ts";
import { StatusError, statusMessage } from "../../domain/status.ts";
import { summaryJson } from "../../domain/task/envelope.ts";
import type { TaskProgress } from "../../domain/task/run.ts";
import { type TaskSearch, parseTaskSearch } from "../../domain/task/task-search.ts";
import {
  type ExplanationCircumstances,
  type ExplanationReader,
  explainAttempt,
  explainDelivery,
  explainNoDelivery,
} from "../../domain/webhook/delivery-explanation.ts";
import { pauseOf } from "../../domain/webhook/delivery-pause.ts";
import { type Attempt, type Delivery, attemptDocument } from "../../domain/webhook/delivery.ts";
import { parseUrlForm } from "../../domain/webhook/url-form.ts";
import {
  type SentFacts,
  type WebhookRequest,
  hasGoneOut,
  sentRequest,
  webhookId,
  webhookRequest,
} from "../../domain/webhook/webhook-request.ts";
import {
  type DeliveryPause,
  type FoundDelivery,
  type FoundTaskRow,
  TASKS_EXAMINED_MAX,
  type TaskTimeline,
} from "../../store/store.ts";
import { openCursor } from "../list-cursor.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { type Operation, type WholeAnswer, defineOperation } from "../operation.ts";
import { envelope } from "../respond.ts";
import { TASK_ID_PARAM, runningIds, taskNotFound } from "./tasks.ts";

export function taskSearch({ store, cursors, findProgress }: OperationDeps): Operation {
  return defineOperation("GET /v1/tasks/search", {
    access: "viewer",
    id: "searchTasks",
    summary: "Search tasks",
    description:
      `Tasks that pass all words of \`q\`, newest first. A request looks at ${TASKS_EXAMINED_MAX} tasks and no more: a page ` +
      "that has found fewer than `limit` among them is short or empty and still has a `next_cursor`, with which the " +
      "search goes on.",
    async handle({ scope, query, now }) {
      const { q, limit } = query;
      const view = { list: "search", scope: scope?.accountId ?? null } as const;
      const page = await store.searchTasks({
        scope: view.scope,
        search: toSearch(q ?? "", now),
        limit,
        after: openCursor(query.cursor, { cursors, ...view }),
      });
      const { tasks, next, examinedUntil } = page;
      const progressOf = await findProgress(runningIds(tasks));
      const pauses = tasks.some(hasScheduled) ? await store.listDeliveryPauses() : [];
      const fields = {
        tasks: tasks.map((task) => foundDocument(task, { progress: progressOf(task.id), pauses })),
        next_cursor: next && cursors.seal(next, view),
        examined_until: timeOrNull(examinedUntil),
      };
      return { fields };
    },
  });
}

function toSearch(q: string, now: number): TaskSearch {
  const parsed = parseTaskSearch(q, now);
  if ("problem" in parsed) throw new StatusError(40000, { detail: parsed.problem });
  return parsed.search;
}

function hasScheduled({ deliveries }: FoundTaskRow): boolean {
  return deliveries.some(({ state }) => state === "scheduled");
}

interface Present {
  readonly progress: TaskProgress | null;
  readonly pauses: readonly DeliveryPause[];
}

function foundDocument(task: FoundTaskRow, { progress, pauses }: Present): FoundTask {
  const { id, login, state, statusCode, type, tag, priority, runs } = task;
  return {
    id,
    login,
    state,
    status_code: statusCode,
    status_message: task.statusMessage ?? statusMessage(statusCode),
    type,
    tag,
    priority,
    runs,
    created_at: timeText(task.createdAt),
    started_at: timeOrNull(task.startedAt),
    completed_at: timeOrNull(task.completedAt),
    start_at: timeOrNull(task.startAt),
    progress: state === "running" ? progress : null,
    ready: task.isReady,
    deliveries: task.deliveries.map((each) =>
      foundDelivery(each, pauseOf(pauses, { login, host: each.host })),
    ),
  };
}

function foundDelivery(delivery: FoundDelivery, pause: DeliveryPause | null): FoundDeliveryShown {
  const { kind, host, state, attempts, last, nextDueAt } = delivery;
  return {
    kind,
    host,
    state,
    attempts,
    last: last && {
      outcome: last.outcome,
      http_status: last.httpStatus,
      error: last.error,
      ended_at: timeText(last.endedAt),
    },
    next_attempt_at: timeOrNull(nextDueAt),
    is_paused: state === "scheduled" && pause !== null,
  };
}

export function timeline(deps: OperationDeps): Operation {
  return defineOperation("GET /v1/tasks/timeline/:id", {
    access: "viewer",
    id: "getTimeline",
    summary: "See what happened to a task",
    description:
      "The task with its run and its webhooks: each attempt with what it sent, the answer, and what the answer means. " +
      "It collects nothing. Shows the last 100 attempts of each delivery. The sentences advise an account and the operator by what each can do.",
    params: { id: TASK_ID_PARAM },
    codes: [40401, 40403],
    async handle({ scope, isOperator, params, query, now }) {
      const id = params["id"] ?? "";
      const wanted = { scope: scope?.accountId ?? null, id };
      const found = isId(id) ? await deps.store.findTimeline(wanted) : null;
      if (found === null) throw taskNotFound(id, { ...deps, now });
      const reader: ExplanationReader = {
        role: isOperator ? "operator" : "account",
        writeTime: query.time_zone ?? momentText,
      };
      return timelineAnswer(found, { deps, now, reader });
    },
  });
}

/** Everything about a task that was found. */
export async function timelineAnswer(
  found: TaskTimeline,
  { deps, ...circumstances }: ExplanationCircumstances & { readonly deps: OperationDeps },
): Promise<WholeAnswer> {
  const pauses = await deps.store.listDeliveryPauses();
  const progressOf = await deps.findProgress(runningIds([found.task]));
  const progress = progressOf(found.task.id);
  return { status: 200, text: timelineText(found, { ...circumstances, deps, progress, pauses }) };
}

function timelineText(
  found: TaskTimeline,
  {
    deps,
    now,
    reader,
    progress,
    pauses,
  }: DeliveryReading & {
    readonly deps: OperationDeps;
    readonly progress: TaskProgress | null;
  },
): string {
  const { task, deliveries } = found;
  const shown = deliveries.map((delivery) =>
    deliveryDocument(delivery, { found, now, reader, pauses }),
  );
  const fields: Omit<Timeline, "task"> = {
    run: runDocument(found, deps),
    explanation:
      shown.length === 0
        ? explainNoDelivery(task, { kind: null, reader, account: found })
        : unstartedText(shown),
    deliveries: shown,
    time: timeText(now),
  };
  // A task is kept as the JSON text that clients see, and is not parsed on its way out.
  return `${envelope(fields).slice(0, -1)},"task":${taskText(found, progress)}}`;
}

/** The explanations of deliveries that wait for their first attempt; null if an attempt has started. */
function unstartedText(deliveries: readonly TimelineDelivery[]): string | null {
  const isStarted = deliveries.some((each) =>
    each.attempts.some(({ started_at: start }) => start !== null),
  );
  if (isStarted) return null;
  return [...new Set(deliveries.map(({ explanation }) => explanation))].join("; ");
}

function taskText(found: TaskTimeline, progress: TaskProgress | null): string {
  const { task, login, inputBytes, resultBytes, isReady } = found;
  const summary = summaryJson(task, { progress }).slice(0, -1);
  const bytes = `"input_bytes":${inputBytes},"result_bytes":${resultBytes}`;
  const error = task.errorText ?? "null";
  return `${summary},"login":${JSON.stringify(login)},${bytes},"error":${error},"ready":${isReady}}`;
}

function runDocument({ task, lease }: TaskTimeline, { runnerOf }: OperationDeps): TimelineRun {
  const runner = task.type === null ? null : runnerOf(task.type);
  // Its type may have been configured otherwise since.
  const kind = runner?.kind ?? (lease === null ? null : "worker");
  const name = kind === "worker" ? (lease?.worker ?? null) : (runner?.name ?? null);
  const isHeld = lease !== null && lease.ending === null && task.state === "running";
  return { by: { kind, name }, lease_expires_at: isHeld ? timeText(lease.expiresAt) : null };
}

interface DeliveryReading extends ExplanationCircumstances {
  readonly pauses: readonly DeliveryPause[];
}

interface DeliveryOf extends DeliveryReading {
  readonly found: TaskTimeline;
}

function deliveryDocument(
  delivery: Delivery,
  { found, now, reader, pauses }: DeliveryOf,
): TimelineDelivery {
  const { kind, url, state, attempts } = delivery;
  const { task, webhookSecret, webhookSecretNext, traceText } = found;
  const form = parseUrlForm(url);
  const host = form.kind === "form" ? form.hostname : "";
  const facts: SentFacts = { kind, url, task, webhookSecret, webhookSecretNext, traceText };
  const pause = pauseOf(pauses, { login: found.login, host });
  const circumstances = { now, reader, account: found, pause };
  const last = attempts.at(-1);
  const isScheduled = last !== undefined && last.startedAt === null;
  const newest = attempts.findLast(hasGoneOut);
  const sent = newest === undefined ? null : sentRequest(newest, facts);
  // When nothing was sent yet: the parts that every attempt would send alike.
  const request = sent ?? webhookRequest({ ...facts, number: 1, startedAt: now });
  const headers = attemptHeaders(attempts, { facts, newest: request });
  return {
    delivery_id: webhookId(task.id, kind),
    kind,
    url,
    host,
    state,
    explanation: explainDelivery(delivery, circumstances),
    next_attempt_at: isScheduled ? timeText(last.dueAt) : null,
    is_paused: state === "scheduled" && pause !== null,
    request: requestDocument(request, url),
    attempts: attempts.map((attempt, index) => ({
      ...attemptDocument(attempt),
      explanation: explainAttempt(attempt, { ...circumstances, url }),
      retry_after: attempt.retryAfter,
      request_headers: headers[index] ?? [],
    })),
  };
}

const OF_ATTEMPT: readonly string[] = ["x-attempt", "webhook-timestamp", "webhook-signature"];
const BODY_SHOWN_MAX = 64 * 1024;

function requestDocument(request: WebhookRequest, url: string): TimelineRequest {
  const { method, headers, body } = request;
  const form = parseUrlForm(url);
  const [authority, target] =
    form.kind === "form" ? [form.authority, form.requestTarget] : ["", ""];
  const bytes = bytesOf(request);
  const length: HeaderLine[] = method === "POST" ? [["Content-Length", String(bytes)]] : [];
  const alike = Object.entries(headers).filter(([name]) => !OF_ATTEMPT.includes(name));
  return {
    method,
    target,
    headers: [["Host", authority], ...alike, ...length],
    body: { bytes, text: bytes > BODY_SHOWN_MAX ? null : (body ?? "") },
    message: method === "POST" ? "body" : url,
    signature: headers["x-signature"] ?? "",
    signature_next: headers["x-signature-next"] ?? null,
  };
}

function bytesOf({ body }: WebhookRequest): number {
  return body === null ? 0 : Buffer.byteLength(body);
}

// Each attempt has signed the whole body with its own time: 100 attempts of 4 MiB would take a second. Attempts beyond
// so many bytes, which are older, are shown without a signature.
const SIGNED_BYTES_MAX = 4 * 1024 * 1024;

function attemptHeaders(
  attempts: readonly Attempt[],
  { facts, newest }: { readonly facts: SentFacts; readonly newest: WebhookRequest },
): readonly (readonly HeaderLine[])[] {
  const signedMax = Math.max(1, Math.floor(SIGNED_BYTES_MAX / Math.max(1, bytesOf(newest))));
  let signed = 0;
  const newestFirst = attempts.toReversed().map((attempt) => {
    if (!hasGoneOut(attempt)) return [];
    signed++;
    // Signing a large body takes its time: the newest attempt is signed already.
    if (signed === 1) return signedHeaders(newest);
    return signed > signedMax
      ? unsignedHeaders(attempt)
      : signedHeaders(sentRequest(attempt, facts));
  });
  return newestFirst.toReversed();
}

function signedHeaders(request: WebhookRequest | null) {
  return Object.entries(request?.headers ?? {}).filter(([name]) => OF_ATTEMPT.includes(name));
}

function unsignedHeaders({ number, startedAt }: Attempt): readonly HeaderLine[] {
  const seconds = Math.floor((startedAt ?? 0) / 1000);
  return [
    ["x-attempt", String(number)],
    ["webhook-timestamp", String(seconds)],
  ];
}
