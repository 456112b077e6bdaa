import { systemClock } from "../domain/clock/clock.ts";
import {
  type RetentionEnd,
  decideResumption,
  retentionEnd,
} from "../domain/clock/service-clock.ts";
import { timeOrNull, timeText } from "../domain/clock/time.ts";
import type { WorkProgress } from "../domain/log.ts";
import { statusMessage } from "../domain/status.ts";
import type { OpenState } from "../domain/task/task.ts";
import { COMMAND_LINE_READER, explainDelivery } from "../domain/webhook/delivery-explanation.ts";
import { pauseOf } from "../domain/webhook/delivery-pause.ts";
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
import { hostOf } from "./delivery-report.ts";

/** Finds the newest tasks that pass a search. */
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

/** A task in a list. */
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

async function deliveriesOf(
  { login, deliveries }: TaskTimeline,
  store: Pick<Store, "listDeliveryPauses">,
) {
  const pauses = await store.listDeliveryPauses();
  const now = systemClock.now();
  return deliveries.map((delivery) => {
    const host = hostOf(delivery.url);
    const circumstances = {
      now,
      reader: COMMAND_LINE_READER,
      pause: pauseOf(pauses, { login, host }),
    };
    const { kind, state } = delivery;
    return { kind, host, state, explanation: explainDelivery(delivery, circumstances) };
  });
}

/** A task with the explanations of its webhooks, without input, result and the paths of its URLs. */
export async function taskDocument(found: TaskTimeline, store: Pick<Store, "listDeliveryPauses">) {
  const { task, login, lease, isReady } = found;
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
    deliveries: await deliveriesOf(found, store),
  };
}

export type OpenCounts = Readonly<Record<OpenState, number>>;

interface OpenWalk {
  readonly store: Store;
  readonly filter: BulkFilter;
  /** The retention of tasks that are cancelled now; null only counts. */
  readonly end: () => Promise<BulkStep["end"]>;
  /** Runs steps until one returns false, and shows the progress. */
  readonly bySteps: (step: () => Promise<boolean>, progress: () => WorkProgress) => Promise<void>;
}

/** Cancels, or counts, the open tasks that a filter selects. */
export async function walkOpen({ store, filter, end, bySteps }: OpenWalk): Promise<OpenCounts> {
  const total = { queued: 0, running: 0 };
  let after: OpenTaskPlace | null = null;
  await bySteps(
    async () => {
      const page = await cancelStep(store, { filter, after, end: await end() });
      total.queued += page.queued;
      total.running += page.running;
      after = page.next;
      return after !== null;
    },
    () => ({ part: "tasks", done: total.queued + total.running, of: null }),
  );
  return total;
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
