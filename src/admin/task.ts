import { systemClock } from "../domain/clock/clock.ts";
import {
  type RetentionEnd,
  decideResumption,
  retentionEnd,
} from "../domain/clock/service-clock.ts";
import { timeOrNull, timeText } from "../domain/clock/time.ts";
import type { WorkProgress } from "../domain/log.ts";
import { statusMessage } from "../domain/status.ts";
import { COMMAND_LINE_READER, explainNoDelivery } from "../domain/webhook/delivery-explanation.ts";
import {
  cancelStep,
  type BulkFilter,
  type BulkStep,
  type FoundTaskRow,
  type OpenTaskPlace,
  type Store,
  type TaskQuery,
  type TaskTimeline,
} from "../store/store.ts";
import { explained, hostOf } from "./delivery.ts";

export async function findTasks(
  store: Pick<Store, "searchTasks">,
  { search, limit }: Pick<TaskQuery, "search" | "limit">,
): Promise<{ readonly tasks: readonly FoundTaskRow[]; readonly hasMore: boolean }> {
  const tasks: FoundTaskRow[] = [];
  let after: TaskQuery["after"] = null;
  do {
    const page = { scope: null, search, limit: limit - tasks.length, after };
    const found = await store.searchTasks(page);
    tasks.push(...found.tasks);
    after = found.next;
  } while (after !== null && tasks.length < limit);
  return { tasks, hasMore: after !== null };
}

export function taskRecord({ id, login, state, statusCode, type, tag, ...task }: FoundTaskRow) {
  const times = {
    created_at: timeText(task.createdAt),
    completed_at: timeOrNull(task.completedAt),
  };
  const deliveries = task.deliveries.map(({ kind, host, state: of }) => ({
    kind,
    host,
    state: of,
  }));
  return { id, login, state, status_code: statusCode, type, tag, ...times, deliveries };
}

/** A task with the explanations of its webhooks, without input, result and the paths of its URLs. */
export async function taskDocument(found: TaskTimeline, store: Pick<Store, "listDeliveryPauses">) {
  const { task, login, lease, isReady } = found;
  const reader = COMMAND_LINE_READER;
  const pauses = await store.listDeliveryPauses();
  const now = systemClock.now();
  const { id, state, statusCode, type, runs, createdAt, startedAt, completedAt } = task;
  const ranMs = startedAt === null || completedAt === null ? null : completedAt - startedAt;
  return {
    id,
    login,
    state,
    status_code: statusCode,
    status_message: task.statusMessage ?? statusMessage(statusCode),
    type,
    runs,
    created_at: timeText(createdAt),
    started_at: timeOrNull(startedAt),
    completed_at: timeOrNull(completedAt),
    expires_at: timeOrNull(task.expiresAt),
    ran_ms: ranMs,
    ready: isReady,
    worker: lease?.worker ?? null,
    input_bytes: found.inputBytes,
    result_bytes: found.resultBytes,
    explanation:
      found.deliveries.length === 0
        ? explainNoDelivery(task, { kind: null, reader, account: found })
        : null,
    deliveries: found.deliveries.map((each) => ({
      kind: each.kind,
      host: hostOf(each.url),
      state: each.state,
      explanation: explained(each, { now, pauses, account: found }),
    })),
  };
}

interface OpenWalk {
  readonly store: Pick<Store, "cancelTasks" | "listTasks">;
  readonly filter: BulkFilter;
  /** The place where an earlier walk stopped; the beginning unless given. */
  readonly begin?: OpenTaskPlace | null;
  /** The retention of tasks that are cancelled now; null only counts. */
  readonly end: () => Promise<BulkStep["end"]>;
  /** Runs steps until one returns false, or until it stops by itself. */
  readonly bySteps: (step: () => Promise<boolean>, progress: () => WorkProgress) => Promise<void>;
  readonly cancelled?: (id: string) => void;
}

/** Cancels, or counts, the open tasks that a filter selects. `next` is null when none is left. */
export async function walkOpen({ store, filter, end, bySteps, cancelled, begin }: OpenWalk) {
  const total = { queued: 0, running: 0 };
  let next = begin ?? null;
  await bySteps(
    async () => {
      const page = await cancelStep(store, { filter, after: next, end: await end() });
      if (cancelled !== undefined) page.ids.forEach(cancelled);
      total.queued += page.queued;
      total.running += page.running;
      next = page.next;
      return next !== null;
    },
    () => ({ part: "tasks", done: total.queued + total.running, of: null }),
  );
  return { total, next };
}

/** The retention of a task that ends now, by the service clock of the daemon at its last reading. */
export async function endNow(
  store: Pick<Store, "findClockReading">,
  { retentionMs }: { readonly retentionMs: number },
): Promise<RetentionEnd & { readonly cancelledAt: number }> {
  const at = systemClock.now();
  const reading = { wallAt: at, uptimeMs: systemClock.uptime(), bootId: systemClock.bootId() };
  const { steadyAt } = decideResumption(await store.findClockReading(), reading);
  return { cancelledAt: at, ...retentionEnd({ at, steadyAt }, retentionMs) };
}
