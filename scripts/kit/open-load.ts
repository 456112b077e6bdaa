import { setTimeout as sleep } from "node:timers/promises";

import { asError } from "./as-error.ts";
import { Durations, epochMs, type Spread } from "./durations.ts";
import type { HttpMessage } from "./http-messages.ts";
import { KeptConnection } from "./kept-connection.ts";
import { requireTaken } from "./request.ts";

/** Requests that are sent at a steady rate, whether those before them have been answered or not. */
export interface OpenLoad {
  /** On 127.0.0.1. */
  readonly port: number;
  readonly connections: number;
  readonly perSecond: number;
  /** When the first request is due, and the time before which the last is due, in epoch milliseconds. */
  readonly from: number;
  readonly to: number;
  /** The request that is due at this time, exactly as sent. */
  readonly requestAt: (at: number, index: number) => string;
  /** Throws at an answer that is not as it must be; one to a task_post unless given. */
  readonly require?: (answer: HttpMessage) => unknown;
  /** What is due before is not counted: `from` unless given. */
  readonly countedFrom?: number;
}

/** The result: every request was answered as it must be. */
export interface OpenLoadEnd {
  readonly sent: number;
  /** From the time a request was to be sent to its answer. */
  readonly answers: Spread;
}

// A load that falls behind by more than this measures the load generator.
const BEHIND_MS_MAX = 2000;
const LOOK_MS_MAX = 50;

/**
 * Sends the requests of {@link OpenLoad} over kept connections, each at its time; when all connections wait for answers, it
 * waits its turn, and that counts as latency. Rejects at an answer that `require` throws at, and when the server or this
 * process cannot keep the rate.
 */
export async function runOpenLoad(load: OpenLoad): Promise<OpenLoadEnd> {
  using stack = new DisposableStack();
  const opening = Array.from({ length: load.connections }, async () =>
    stack.use(await KeptConnection.open(load.port)),
  );
  return await new Sending(load, await Promise.all(opening)).run();
}

interface Waiting {
  readonly at: number;
  readonly index: number;
}

class Sending {
  readonly #load: OpenLoad;
  readonly #idle: KeptConnection[];
  readonly #waiting: Waiting[] = [];
  readonly #underWay = new Set<Waiting>();
  readonly #answers = new Durations();
  #fault: Error | null = null;

  constructor(load: OpenLoad, connections: readonly KeptConnection[]) {
    this.#load = load;
    this.#idle = [...connections];
  }

  async run(): Promise<OpenLoadEnd> {
    const { from, to, perSecond } = this.#load;
    const total = Math.round(((to - from) * perSecond) / 1000);
    const dueAt = (index: number): number => from + (index * 1000) / perSecond;
    for (let index = 0; index < total;) {
      const now = epochMs();
      for (; index < total && dueAt(index) <= now; index++)
        this.#waiting.push({ at: dueAt(index), index });
      this.#send();
      this.#require(now);
      await sleep(Math.max(0, Math.min(dueAt(index) - now, LOOK_MS_MAX)));
    }
    while (this.#waiting.length + this.#underWay.size > 0) {
      this.#require(epochMs());
      await sleep(1);
    }
    if (this.#fault !== null) throw this.#fault;
    return { sent: total, answers: this.#answers.spread };
  }

  #send(): void {
    while (this.#waiting.length > 0) {
      // The one that has been idle longest: the server closes connections that nobody uses.
      const connection = this.#idle.shift();
      const request = connection === undefined ? undefined : this.#waiting.shift();
      if (connection === undefined || request === undefined) return;
      void this.#ask(connection, request);
    }
  }

  /** Never rejects: what fails ends the run. */
  async #ask(connection: KeptConnection, request: Waiting): Promise<void> {
    const { requestAt, require = requireTaken, from, countedFrom = from } = this.#load;
    this.#underWay.add(request);
    try {
      const answer = await connection.ask(requestAt(request.at, request.index));
      if (request.at >= countedFrom) this.#answers.add(epochMs() - request.at);
      require(answer);
    } catch (error) {
      this.#fault ??= asError(error);
    }
    this.#underWay.delete(request);
    this.#idle.push(connection);
    this.#send();
  }

  #require(now: number): void {
    if (this.#fault !== null) throw this.#fault;
    const oldest = Math.min(
      ...[this.#waiting[0] ?? { at: now }, ...this.#underWay].map(({ at }) => at),
    );
    if (now - oldest <= BEHIND_MS_MAX) return;
    const { perSecond } = this.#load;
    throw new Error(
      `the rate of ${perSecond} requests a second was not kept: one is ${(now - oldest).toFixed(0)} ms behind`,
    );
  }
}
