import type { SteadyClock } from "../domain/clock/clock.ts";
import { retentionEnd } from "../domain/clock/service-clock.ts";
import { timeoutSignal } from "../domain/clock/timers.ts";
import { ANY_TASK } from "../domain/task/task-search.ts";
import { OPEN_STATES } from "../domain/task/task.ts";
import { cancelStep, type BulkPage, type OpenTaskPlace, type Store } from "../store/store.ts";
import type { AttemptSender } from "./ordered-faults.ts";
import type { WorkWatch } from "./work-watch.ts";

export interface Clearable {
  clear(): void;
}

export interface ResetParts {
  readonly store: Store;
  readonly clock: SteadyClock;
  readonly work: WorkWatch;
  readonly sender: Pick<AttemptSender, "abort">;
  /** Notifies the engine and all waiting requests that the task was cancelled. */
  readonly cancelled: (id: string) => void;
  readonly clears: readonly Clearable[];
}

const PAGE_MAX = 100;
const ORDERS_MAX = 1000;

// Aborted work is not waited for any longer; it changes nothing.
const BROKEN_OFF_MS_MAX = 2000;

/**
 * Erases everything that tests made, but accounts: cancels, breaks off and erases. Returns the number of tasks; nothing of
 * them is sent after it has settled.
 */
export async function reset(parts: ResetParts): Promise<number> {
  const { sender, work, clears } = parts;
  // Nothing that is held or late keeps a task.
  for (const each of clears) each.clear();
  await endOrders(parts);
  let tasks = 0;
  let erased: number;
  do {
    await cancelOpen(parts);
    erased = await erasePage(parts);
    tasks += erased;
  } while (erased > 0);
  await eraseAnswers(parts);
  // Their records are gone, so that nothing follows from how they end.
  sender.abort();
  await work.settled(timeoutSignal(BROKEN_OFF_MS_MAX)).catch(() => {});
  for (const each of clears) each.clear();
  return tasks;
}

async function endOrders({ store, clock }: ResetParts): Promise<void> {
  for (const { id } of await store.listOpenRedeliveryOrders({ limit: ORDERS_MAX })) {
    await store.cancelRedeliveryOrder({ id, login: null, now: clock.now() });
  }
}

async function cancelOpen({ store, clock, cancelled }: ResetParts): Promise<void> {
  const { states: _states, ...search } = ANY_TASK;
  for (const { login } of await store.listAccounts()) {
    const accountId = (await store.findAccount(login))?.accountId;
    if (accountId === undefined) continue;
    const filter = { accountId, states: OPEN_STATES, search };
    const moment = { at: clock.now(), steadyAt: clock.steady() };
    const end = { cancelledAt: moment.at, ...retentionEnd(moment, 0) };
    let after: OpenTaskPlace | null = null;
    do {
      const page: BulkPage = await cancelStep(store, { filter, after, end });
      for (const id of page.ids) cancelled(id);
      after = page.next;
    } while (after !== null);
  }
}

async function erasePage({ store }: ResetParts): Promise<number> {
  const query = { scope: null, search: ANY_TASK, limit: PAGE_MAX, after: null };
  const { tasks } = await store.listTasks(query);
  await Promise.all(tasks.map(({ id }) => store.eraseTask({ id, hasWebhooks: true })));
  return tasks.length;
}

/** Otherwise the response to a repeated request would have erased tasks. */
async function eraseAnswers({ store }: ResetParts): Promise<void> {
  const never = {
    decidedBefore: 0,
    pendingBefore: 0,
    sessionsBefore: 0,
    linksBefore: 0,
    auditBefore: 0,
  };
  const all = { answersBefore: Number.MAX_SAFE_INTEGER, recordsAfter: Number.MAX_SAFE_INTEGER };
  const stale = { ...never, ...all, trafficBefore: 0, max: ORDERS_MAX };
  while ((await store.eraseStale(stale)) > 0) continue;
}
