import { setTimeout as sleep } from "node:timers/promises";

import { KeptConnection } from "../kit/kept-connection.ts";
import { requestText } from "../kit/request.ts";
import { outcomeOf } from "./status-code.ts";

/**
 * The requests of the other: one finished task, a post, a health check; `get anew` is a `get` over a new connection.
 */
export type Question = "get" | "get anew" | "post" | "livez";

/** One request of the other, and its outcome. Times are of `performance.now()`. */
export interface Sample {
  readonly question: Question;
  /** When it was due: waiting for its turn counts as waiting. */
  readonly at: number;
  /** Null until it is answered. */
  ms: number | null;
  /** `ok`, a status code, or `closed`; null until it is answered. */
  outcome: string | null;
}

/** The account that the attacks must not affect. */
export interface OtherAccount {
  readonly key: string;
  /** One of its finished tasks. */
  readonly taskId: string;
}

const GETS_PER_SECOND = 50;
const ANEW_EVERY = 25;
const PER_SECOND = { post: 1, livez: 10 } as const;
const TICK_MS = 5;
const KEPT = 4;
const LOOK_MS = 100;
const SETTLED_GETS = 50;
const SLOW_GETS_MAX = 2;

/**
 * The other: an account that asks for one of its tasks 50 times a second and posts one a second, whatever else goes
 * on. Requests go out on time, over a free kept connection or the first one that becomes free.
 */
export class Other {
  readonly samples: Sample[] = [];
  readonly #account: OtherAccount;
  #port: number;
  #idle: (KeptConnection | null)[] = Array.from({ length: KEPT }, () => null);
  readonly #open = new Set<KeptConnection>();
  readonly #waiting: Sample[] = [];
  readonly #sent = { get: 0, post: 0, livez: 0 };
  readonly #beganAt = performance.now();
  readonly #timer: NodeJS.Timeout;

  constructor(account: OtherAccount, port: number) {
    this.#account = account;
    this.#port = port;
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
  }

  /** A daemon that was started again listens on another port. */
  moveTo(port: number): void {
    this.#port = port;
  }

  /** The requests that were due from `from` on and before `to`. */
  between(from: number, to: number): readonly Sample[] {
    return this.samples.filter(({ at }) => at >= from && at < to);
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
      const gets = this.samples.filter(({ at, question }) => at >= from && isGet(question));
      for (let index = 0; index + SETTLED_GETS <= gets.length; index++) {
        const some = gets.slice(index, index + SETTLED_GETS);
        if (areAsBefore(some, msMax)) return (some[0]?.at ?? from) - from;
      }
    }
    return null;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    for (const connection of this.#open) connection[Symbol.dispose]();
  }

  #tick(): void {
    const seconds = (performance.now() - this.#beganAt) / 1000;
    const due = (perSecond: number): number => Math.floor(seconds * perSecond);
    for (; this.#sent.get <= due(GETS_PER_SECOND); this.#sent.get++) {
      const isAnew = this.#sent.get % ANEW_EVERY === 0;
      this.#plan(isAnew ? "get anew" : "get", this.#sent.get / GETS_PER_SECOND);
    }
    for (const question of ["post", "livez"] as const) {
      for (; this.#sent[question] <= due(PER_SECOND[question]); this.#sent[question]++) {
        this.#plan(question, this.#sent[question] / PER_SECOND[question]);
      }
    }
    this.#send();
  }

  #plan(question: Question, atSeconds: number): void {
    const sample = { question, at: this.#beganAt + atSeconds * 1000, ms: null, outcome: null };
    this.samples.push(sample);
    if (question === "get anew") void this.#askAnew(sample);
    else this.#waiting.push(sample);
  }

  #send(): void {
    while (this.#waiting.length > 0) {
      // The one that has been idle longest: the server closes connections that nobody uses.
      const connection = this.#idle.shift();
      const sample = connection === undefined ? undefined : this.#waiting.shift();
      if (sample === undefined) return;
      void this.#askOver(connection ?? null, sample);
    }
  }

  async #askOver(kept: KeptConnection | null, sample: Sample): Promise<void> {
    const connection = await this.#ask(sample, kept);
    this.#idle.push(connection);
    this.#send();
  }

  async #askAnew(sample: Sample): Promise<void> {
    const connection = await this.#ask(sample, null);
    if (connection !== null) this.#close(connection);
  }

  /** Asks, and resolves to the connection if it can be used again. */
  async #ask(sample: Sample, kept: KeptConnection | null): Promise<KeptConnection | null> {
    let connection = kept;
    try {
      connection ??= await KeptConnection.open(this.#port);
      this.#open.add(connection);
      const answer = await connection.ask(this.#request(sample.question));
      this.#note(sample, outcomeOf(answer));
      return connection;
    } catch {
      this.#note(sample, "closed");
      if (connection !== null) this.#close(connection);
      return null;
    }
  }

  #note(sample: Sample, outcome: string): void {
    sample.ms = performance.now() - sample.at;
    sample.outcome = outcome;
  }

  #close(connection: KeptConnection): void {
    this.#open.delete(connection);
    connection[Symbol.dispose]();
  }

  #request(question: Question): string {
    const { key: secret, taskId } = this.#account;
    if (question === "livez") return requestText("GET /livez");
    if (question !== "post") return requestText(`GET /v1/tasks/task_get/${taskId}`, { secret });
    const body = '[{"type":"echo","input":{"from":"the other"}}]';
    return requestText("POST /v1/tasks/task_post", { secret, body });
  }
}

function isGet(question: Question): boolean {
  return question === "get" || question === "get anew";
}

function areAsBefore(gets: readonly Sample[], msMax: number): boolean {
  const slow = gets.filter(({ ms }) => ms === null || ms > msMax);
  const isAnswered = gets.every(({ outcome }) => outcome === "ok");
  return isAnswered && slow.length <= SLOW_GETS_MAX;
}
