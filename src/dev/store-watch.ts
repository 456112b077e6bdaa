import type { DevEvent } from "../api/dev.ts";
import type { Clock } from "../domain/clock/clock.ts";
import { timeOrNull, timeText } from "../domain/clock/time.ts";
import { isPromise } from "../domain/error.ts";
import type { LeaseEnd, Store } from "../store/store.ts";
import type { WorkWatch } from "./work-watch.ts";

/** The events of a write, from what it was given and what it answered. */
type Telling = {
  readonly [Name in keyof Store]?: Store[Name] extends (
    ...given: infer Given
  ) => Promise<infer Answer>
    ? (answer: Answer, ...given: Given) => readonly Omit<DevEvent, "at">[]
    : never;
};

const started = (tasks: readonly { readonly id: string }[]) =>
  tasks.map(({ id: task_id }) => ({ task_id, event: "run_started" }) as const);

function leaseEnded({ id: task_id, how, sequel }: LeaseEnd): Omit<DevEvent, "at"> {
  if (sequel.kind === "finish") return { task_id, event: "task_ended", state: sequel.state };
  const next_at = sequel.kind === "retry" ? timeText(sequel.startAt) : null;
  return { task_id, event: "lease_ended", outcome: how, next_at };
}

const cancelled = (ids: readonly string[]) =>
  ids.map((task_id) => ({ task_id, event: "task_ended", state: "cancelled" }) as const);

const erased = (ids: readonly string[]) =>
  ids.map((task_id) => ({ task_id, event: "task_erased" }) as const);

const TELLING: Telling = {
  insertTasks: (outcome, { accepted, starting }) =>
    outcome.kind === "inserted" && outcome.started !== undefined
      ? started(accepted.filter(({ id }) => starting?.has(id)))
      : [],
  claimTasks: started,
  claimLeases: started,
  retryTask: (_, { id: task_id, startAt }) =>
    task_id === undefined ? [] : [{ task_id, event: "run_failed", next_at: timeText(startAt) }],
  finishTask: (lanes, { id: task_id, state }) =>
    lanes === null || task_id === undefined ? [] : [{ task_id, event: "task_ended", state }],
  endLeases: (results, { ends }) =>
    ends.filter((_, i) => results[i]?.isNew === true).map(leaseEnded),
  cancelTask: (outcome, { id }) => (outcome === "cancelled" ? cancelled([id]) : []),
  cancelTasks: ({ queued, running }) => cancelled([...queued, ...running]),
  expireQueued: ({ tasks }) =>
    tasks.map(({ id: task_id }) => ({ task_id, event: "task_ended", state: "failed" })),
  eraseExpired: ({ erased: ids }) => erased(ids),
  eraseTask: (outcome, { id }) => (outcome === "erased" ? erased([id]) : []),
  recordAttempt: (_, { attempt, result, decision }) => {
    const { taskId: task_id, kind, number } = attempt;
    const { outcome, httpStatus: http_status } = result;
    const next_at = timeOrNull(decision.state === "scheduled" ? decision.dueAt : null);
    const ended = { outcome, delivery: decision.state, http_status, next_at };
    return [{ task_id, event: "attempt_ended", kind, attempt: number, ...ended }];
  },
};

export interface StoreWatchParts {
  readonly clock: Clock;
  readonly work: WorkWatch;
  readonly tell: (event: DevEvent) => void;
}

/** The same store; every step counts as work in progress, and its writes are reported. */
export function watchedStore(store: Store, { clock, work, tell }: StoreWatchParts): Store {
  return new Proxy(store, {
    get(target, name) {
      const found: unknown = Reflect.get(target, name, target);
      if (typeof found !== "function") return found;
      const telling: unknown = Reflect.get(TELLING, name);
      return (...given: unknown[]): unknown => {
        const answer: unknown = found.apply(target, given);
        if (!isPromise(answer)) return answer;
        const told = answer.then((value: unknown) => {
          const events = typeof telling === "function" ? telling(value, ...given) : [];
          for (const event of events) tell({ at: timeText(clock.now()), ...event });
          return value;
        });
        return work.track(String(name), told);
      };
    },
  });
}
