import { systemClock } from "../domain/clock/clock.ts";
import { timeOrNull, timeText } from "../domain/clock/time.ts";
import { statusMessage } from "../domain/status.ts";
import { COMMAND_LINE_READER, explainDelivery } from "../domain/webhook/delivery-explanation.ts";
import { pauseOf } from "../domain/webhook/delivery-pause.ts";
import type { FoundTaskRow, Store, TaskQuery, TaskTimeline } from "../store/store.ts";
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
