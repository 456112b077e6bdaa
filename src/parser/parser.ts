import { Worker } from "node:worker_threads";

import { parserThreadEntry, threadOptions } from "../assets.ts";
import type { Clock, Timer } from "../domain/clock/clock.ts";
import type { WorkOrder } from "../domain/offload.ts";
import { StatusError } from "../domain/status.ts";
import type { BodyParser } from "../http/long-parses.ts";
import type { ResultParser } from "../runners/http/service-result.ts";
import { ParseTurns } from "./parse-turns.ts";
import type { ParseOrder, ParseOutcome } from "./parser-thread.ts";

/** Parses what may take long in a thread of its own. */
export interface Parser {
  readonly bodies: BodyParser;
  readonly results: ResultParser;
  /** Ends the thread: orders without an answer are refused with 50300. */
  close(): Promise<void>;
}

// Then its memory is given back: for a body of 16 MiB it may have taken hundreds.
const IDLE_MS = 10_000;

/**
 * Parses one thing at a time, owner by owner in turn. The first starts the thread, which ends when it has been idle for
 * a while. When the thread is lost, so are its orders; the next starts another.
 */
export function newParser(clock: Clock): Parser {
  const turns = new ParseTurns();
  const threads = new ThreadKeeper(clock);
  const run = (name: string, args: unknown, by: WorkOrder): Promise<unknown> =>
    // The caller can use only existing names, each with its own arguments.
    turns.take(by, () => threads.ask({ name, args } as ParseOrder));
  return {
    // Arguments and results are tied to the name; the compiler sees only that some value is.
    bodies: { run: run as BodyParser["run"] },
    results: { run: run as ResultParser["run"] },
    close() {
      turns.close();
      return threads.close();
    },
  };
}

class ThreadKeeper {
  readonly #clock: Clock;
  readonly #ending = new Set<Promise<unknown>>();
  #thread: ParserThread | null = null;
  #idle: Timer | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  async ask(order: ParseOrder): Promise<unknown> {
    this.#idle?.cancel();
    if (this.#thread === null || this.#thread.isLost) this.#thread = new ParserThread();
    try {
      return await this.#thread.ask(order);
    } finally {
      this.#idle?.cancel();
      this.#idle = this.#clock.setTimer(IDLE_MS, () => this.#end());
    }
  }

  async close(): Promise<void> {
    this.#idle?.cancel();
    this.#end();
    await Promise.all(this.#ending);
  }

  #end(): void {
    if (this.#thread === null) return;
    const ended = this.#thread.end();
    this.#thread = null;
    this.#ending.add(ended);
    void ended.finally(() => this.#ending.delete(ended));
  }
}

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

class ParserThread {
  readonly #worker: Worker;
  #waiting: Waiting | null = null;
  #isLost = false;

  constructor() {
    this.#worker = new Worker(parserThreadEntry, {
      ...threadOptions,
      workerData: { role: "parser" },
    });
    this.#worker.on("message", (outcome: ParseOutcome) => this.#settle(outcome));
    this.#worker.on("error", (cause) => this.#lose(new Error("the parser was lost", { cause })));
    this.#worker.once("exit", () => this.#lose(new Error("the parser has ended")));
  }

  get isLost(): boolean {
    return this.#isLost;
  }

  /** One at a time. */
  ask(order: ParseOrder): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#worker.postMessage(order);
      this.#waiting = { resolve, reject };
    });
  }

  async end(): Promise<void> {
    this.#lose(new StatusError(50300, { headers: { "retry-after": "5" } }));
    await this.#worker.terminate();
  }

  #settle(outcome: ParseOutcome): void {
    const waiting = this.#waiting;
    this.#waiting = null;
    if (outcome.kind === "done") waiting?.resolve(outcome.value);
    else waiting?.reject(toError(outcome));
  }

  #lose(error: Error): void {
    this.#isLost = true;
    this.#waiting?.reject(error);
    this.#waiting = null;
  }
}

function toError(outcome: Exclude<ParseOutcome, { kind: "done" }>): Error {
  if (outcome.kind === "error") return new Error(outcome.message);
  const { code, message, details, headers } = outcome;
  return new StatusError(code, { message, details, headers });
}
