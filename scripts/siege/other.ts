import { setTimeout as sleep } from "node:timers/promises";

import { spreadOf, type Spread } from "../kit/durations.ts";
import { requestText } from "../kit/request.ts";
import { pace, Sender } from "../kit/sender.ts";
import { countUp, outcomeOf, type Tally } from "./outcome.ts";

/** Durations in milliseconds; a request that was never answered counts with the time that it was waited for. */
export interface Figures extends Spread {
  /** How often there was no good answer, by the outcome instead. */
  readonly bad: Tally;
}

/** The other's answers in a stretch of time; gets over kept connections and over new ones together. */
export type OthersFigures = Readonly<Record<Question, Figures>>;

/** The account that the attacks must not affect. */
export interface OtherAccount {
  readonly key: string;
  /** One of its finished tasks. */
  readonly taskId: string;
}

type Question = "get" | "post" | "livez";

/** One request of the other, and its outcome. Times are of `performance.now()`. */
interface Sample {
  readonly question: Question;
  /** When it was due: waiting for its turn counts as waiting. */
  readonly at: number;
  /** Null until it is answered. */
  ms: number | null;
  /** As {@link outcomeOf} has it; `unanswered` until then. */
  outcome: string;
}

const PER_SECOND = { get: 50, post: 1, livez: 10 } as const;
const ANEW_EVERY = 25;
const KEPT = 4;
// More than there ever are at once: none waits for another.
const ANEW = 500;
const LOOK_MS = 100;
const SETTLED_GETS = 50;
const SLOW_GETS_MAX = 2;

/**
 * The other: an account that asks for one of its tasks 50 times a second and posts one a second, whatever else goes
 * on, and asks for health. Requests go out on time over kept connections, every 25th get over one of its own.
 */
export class Other {
  readonly #samples: Sample[] = [];
  readonly #kept: Sender<Sample>;
  readonly #anew: Sender<Sample>;
  readonly #timers: readonly NodeJS.Timeout[];

  constructor(account: OtherAccount, port: number) {
    const requests = requestsOf(account);
    const sending = {
      port,
      requestOf: ({ question }: Sample) => requests[question],
      onEnd: (sample: Sample, answer: Parameters<typeof outcomeOf>[0]) => {
        sample.ms = performance.now() - sample.at;
        sample.outcome = outcomeOf(answer);
      },
    };
    this.#kept = new Sender({ ...sending, connections: KEPT });
    this.#anew = new Sender({ ...sending, connections: ANEW, isAnew: true });
    const questions = ["get", "post", "livez"] as const;
    this.#timers = questions.map((question) =>
      pace(PER_SECOND[question], (at, index) => {
        const sample = { question, at, ms: null, outcome: "unanswered" };
        this.#samples.push(sample);
        const isAnew = question === "get" && index % ANEW_EVERY === 0;
        (isAnew ? this.#anew : this.#kept).send(sample);
      }),
    );
  }

  /** A daemon that was started again listens on another port. */
  moveTo(port: number): void {
    this.#kept.moveTo(port);
    this.#anew.moveTo(port);
  }

  /** What came, until now, of the requests that were due from `from` on and before `to`. */
  figures(from: number, to: number): OthersFigures {
    const of = (question: Question): Figures => {
      const some = this.#samples.filter((each) => each.question === question);
      return figuresOf(some.filter(({ at }) => at >= from && at < to));
    };
    return { get: of("get"), post: of("post"), livez: of("livez") };
  }

  /**
   * Waits until all is as before: 50 gets in a row, one of them over a new connection, all answered well and all but
   * two of them within `msMax`. Resolves to how many milliseconds after `from` the first of them was due; null when
   * that has not happened within `waitMs`.
   */
  async settled(
    from: number,
    { msMax, waitMs }: { readonly msMax: number; readonly waitMs: number },
  ): Promise<number | null> {
    while (performance.now() < from + waitMs) {
      await sleep(LOOK_MS);
      const gets = this.#samples.filter(({ at, question }) => at >= from && question === "get");
      for (let index = 0; index + SETTLED_GETS <= gets.length; index++) {
        const some = gets.slice(index, index + SETTLED_GETS);
        if (areAsBefore(some, msMax)) return (some[0]?.at ?? from) - from;
      }
    }
    return null;
  }

  [Symbol.dispose](): void {
    for (const timer of this.#timers) clearInterval(timer);
    this.#kept[Symbol.dispose]();
    this.#anew[Symbol.dispose]();
  }
}

function requestsOf({ key: secret, taskId }: OtherAccount): Readonly<Record<Question, string>> {
  const body = '[{"type":"echo","input":{"from":"the other"}}]';
  return {
    get: requestText(`GET /v1/tasks/task_get/${taskId}`, { secret }),
    post: requestText("POST /v1/tasks/task_post", { secret, body }),
    livez: requestText("GET /livez"),
  };
}

function figuresOf(samples: readonly Sample[]): Figures {
  const now = performance.now();
  const bad: Tally = {};
  for (const { outcome } of samples) if (outcome !== "ok") countUp(bad, outcome);
  // A refusal may be quick: it does not count as an answer.
  const answered = samples.filter(({ outcome, ms }) => outcome === "ok" || ms === null);
  return { ...spreadOf(answered.map(({ ms, at }) => ms ?? now - at)), bad };
}

function areAsBefore(gets: readonly Sample[], msMax: number): boolean {
  const slow = gets.filter(({ ms }) => ms === null || ms > msMax);
  return gets.every(({ outcome }) => outcome === "ok") && slow.length <= SLOW_GETS_MAX;
}
