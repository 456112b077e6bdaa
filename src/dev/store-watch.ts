import type { Clock } from "../domain/clock/clock.ts";
import { isPromise } from "../domain/error.ts";
import type { DevEvent } from "../http/dev-desk.ts";
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
  tasks.map(({ id: taskId }) => ({ event: "run_started", taskId }) as const);

function leaseEnded({ id: taskId, how, sequel }: LeaseEnd): Omit<DevEvent, "at"> {
  if (sequel.kind === "finish") return { event: "task_ended", taskId, state: sequel.state };
  const nextAt = sequel.kind === "retry" ? sequel.startAt : null;
  return { event: "lease_ended", taskId, outcome: how, nextAt };
}

const cancelled = (ids: readonly string[]) =>
  ids.map((taskId) => ({ event: "task_ended", taskId, state: "cancelled" }) as const);

const erased = (ids: readonly string[]) =>
  ids.map((taskId) => ({ event: "task_erased", taskId }) as const);

const TELLING: Telling = {
  claimTasks: started,
  claimLeases: started,
  retryTask: (_, { id: taskId, startAt: nextAt }) =>
    taskId === undefined ? [] : [{ event: "run_failed", taskId, nextAt }],
  finishTask: (lanes, { id: taskId, state }) =>
    lanes === null || taskId === undefined ? [] : [{ event: "task_ended", taskId, state }],
  endLeases: (results, { ends }) =>
    ends.filter((_, i) => results[i]?.isNew === true).map(leaseEnded),
  cancelTask: (outcome, { id }) => (outcome === "cancelled" ? cancelled([id]) : []),
  cancelTasks: ({ queued, running }) => cancelled([...queued, ...running]),
  expireQueued: ({ tasks }) =>
    tasks.map(({ id: taskId }) => ({ event: "task_ended", taskId, state: "failed" })),
  eraseExpired: ({ erased: ids }) => erased(ids),
  eraseTask: (outcome, { id }) => (outcome === "erased" ? erased([id]) : []),
  recordAttempt: (_, { attempt, result, decision }) => {
    const { taskId, kind, number } = attempt;
    const { outcome, httpStatus } = result;
    const nextAt = decision.state === "scheduled" ? decision.dueAt : null;
    const ended = { outcome, httpStatus, delivery: decision.state, nextAt };
    return [{ event: "attempt_ended", taskId, kind, attempt: number, ...ended }];
  },
};

export interface StoreWatchParts {
  readonly clock: Clock;
  readonly work: WorkWatch;
  readonly tell: (event: DevEvent) => void;
}

/** The same store, of which every step counts as work under way, and what it writes is told. */
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
          for (const event of events) tell({ at: clock.now(), ...event });
          return value;
        });
        return work.track(String(name), told);
      };
    },
  });
}
