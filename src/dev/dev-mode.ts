import type { DevEvent } from "../api/dev.ts";
import { type Clock, type SteadyClock, systemClock } from "../domain/clock/clock.ts";
import { seedRandom } from "../domain/id.ts";
import type { UrlPolicy } from "../domain/webhook/webhook-url.ts";
import type { OperationDeps } from "../http/operation-deps.ts";
import type { Operation } from "../http/operation.ts";
import type { Runner } from "../run/runner.ts";
import type { DueList, Store } from "../store/store.ts";
import { AccountMaker } from "./account-maker.ts";
import {
  devAccounts,
  devReset,
  devSecrets,
  devSignInLink,
  devWebhooks,
} from "./account-operations.ts";
import { AttemptWatch } from "./attempt-watch.ts";
import { ClockDesk, DueNotes } from "./clock-desk.ts";
import { devClock, devWait } from "./clock-operations.ts";
import { type ClockMode, DevClock } from "./dev-clock.ts";
import { devInbox } from "./inbox-operations.ts";
import { Inbox } from "./inbox.ts";
import { type AttemptSender, OrderedFaults, UNSENT } from "./ordered-faults.ts";
import { OrderedResults, type RuledType, TaskNews } from "./ordered-results.ts";
import { reset } from "./reset.ts";
import { devFaults, devResults } from "./result-operations.ts";
import { SampleSender } from "./sample-sender.ts";
import { watchedStore } from "./store-watch.ts";
import { WorkWatch } from "./work-watch.ts";

export interface DevParts {
  readonly store: Store;
  readonly clock: SteadyClock;
  readonly due: DueList;
  readonly sender: AttemptSender;
  readonly urlPolicy: () => UrlPolicy;
  /** Notifies the engine and all waiting requests that the task was cancelled. */
  readonly cancelled: (id: string) => void;
}

/** The routes that a daemon for development adds to the API. */
export interface DevService {
  readonly inbox: Inbox;
  readonly operations: (deps: OperationDeps) => readonly Operation[];
}

/** Stands between the daemon's parts, so that the clock knows what goes on, and rules and faults can be ordered. */
export class DevMode {
  readonly clock: DevClock;
  readonly #work = new WorkWatch();
  readonly #notes: DueNotes;
  readonly #attempts: AttemptWatch;
  readonly #news = new TaskNews();
  readonly #results: OrderedResults;
  readonly #faults: OrderedFaults;
  #tell: (event: DevEvent) => void = () => {};

  /** For repeatable runs it makes attempts one after the other. */
  constructor(clock: DevClock, isRepeatable: boolean) {
    this.clock = clock;
    const notes = new DueNotes(clock);
    this.#notes = notes;
    this.#attempts = new AttemptWatch({ work: this.#work, notes, isRepeatable });
    this.#faults = new OrderedFaults({ clock, work: this.#work, notes });
    this.#results = new OrderedResults({ clock, news: this.#news, work: this.#work, notes });
  }

  /** The same store: the clock knows what goes on in it. */
  store(store: Store): Store {
    const { clock } = this;
    return watchedStore(store, { clock, work: this.#work, tell: (event) => this.#tell(event) });
  }

  /** The same runner for runs that no rule fits; the clock waits for those. */
  runner(type: RuledType, runner: Runner): Runner {
    return this.#results.runner(type, {
      concurrency: runner.concurrency,
      run: (request, options) =>
        this.#work.track(
          `the run of task ${request.id} (${type.name})`,
          runner.run(request, options),
        ),
    });
  }

  /** The same sender, with the faults that are ordered; the clock waits no longer than `timeoutMs` for each attempt. */
  sender(sender: AttemptSender, timeoutMs: number): AttemptSender {
    return this.#faults.sender({
      abort: () => {
        this.#attempts.abort();
        sender.abort();
      },
      send: (request) =>
        this.#attempts.follow(request, {
          timeoutMs,
          send: () => sender.send(request),
          unsent: UNSENT,
        }),
    });
  }

  /** Shows the daemon's time, with the machine's timers: waiting requests must end while the daemon's clock stands. */
  requestClock(shown: Clock): Clock {
    return { ...systemClock, now: () => shown.now() };
  }

  open(parts: DevParts): DevService {
    const { store, clock: steady, due } = parts;
    const [work, attempts, notes] = [this.#work, this.#attempts, this.#notes];
    const clock = new ClockDesk({ clock: this.clock, work, steady, due, notes });
    const samples = new SampleSender(parts);
    const inbox = new Inbox({ store, samples, clock: this.clock, work, attempts, notes });
    const clears = [inbox.boxes, this.#results, this.#faults, clock];
    this.#tell = (event) => {
      clock.tell(event);
      this.#news.tell(event.task_id);
    };
    const accounts = new AccountMaker(parts);
    const operations: DevService["operations"] = (deps) => [
      ...devClock(clock),
      ...devInbox(inbox),
      devAccounts(accounts, deps),
      devWebhooks(samples),
      devWait({ clock, news: this.#news }, deps),
      ...devResults(this.#results, deps),
      ...devFaults(this.#faults),
      ...devSecrets(deps),
      devReset(() => reset({ ...parts, work, clears })),
      devSignInLink({ store, clock }),
    ];
    return { inbox, operations };
  }
}

// Tests that repeat begin at the same time.
const SEEDED_START = Date.UTC(2026, 0, 1);

export interface SeededMode {
  readonly dev: DevMode;
  /** Ends its clock; from then on the random values of this process are unpredictable. */
  readonly close: () => void;
}

/** Makes it. With a seed, the random values of this process repeat, until it is closed. */
export function seededMode(given: {
  readonly clock: ClockMode;
  /** Null for a run like no other. */
  readonly seed: number | null;
}): SeededMode {
  const { clock: mode, seed } = given;
  const clock =
    seed === null ? new DevClock({ mode }) : new DevClock({ mode, startAt: SEEDED_START });
  const unseed = seed === null ? null : seedRandom(seed);
  const close = (): void => {
    clock.close();
    unseed?.();
  };
  return { dev: new DevMode(clock, seed !== null), close };
}
