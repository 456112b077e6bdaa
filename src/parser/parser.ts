import { Worker } from "node:worker_threads";

import { threadEntries, threadOptions } from "../assets.ts";
import type { Clock, Timer } from "../domain/clock/clock.ts";
import { setImmediate } from "../domain/clock/timers.ts";
import type { WorkOrder } from "../domain/json/json.ts";
import { StatusError } from "../domain/status.ts";
import type { BodyParser } from "../http/long-bodies.ts";
import type { ResultParser } from "../run/service-result.ts";
import type { ParseOrder, ParseOutcome } from "./parser-thread.ts";

export interface Parser {
  readonly bodies: BodyParser;
  readonly results: ResultParser;
  /** Ends the thread: orders without an answer are refused with 50300. */
  close(): Promise<void>;
}

// Then its memory is given back: for a body of 16 MiB it may have taken hundreds.
const IDLE_MS = 10_000;

/** Parses one thing at a time. The first starts the thread, which ends when idle; a lost thread loses its orders. */
export function newParser(clock: Clock): Parser {
  const turns = new ParseTurns();
  const thread = new ParserThread(clock);
  const run = (name: string, args: unknown, by: WorkOrder): Promise<unknown> =>
    // The caller can use only existing names, each with its own arguments.
    turns.take(by, () => thread.ask({ name, args } as ParseOrder));
  return {
    // Arguments and results are tied to the name; the compiler sees only that some value is.
    bodies: { run: run as BodyParser["run"] },
    results: { run: run as ResultParser["run"] },
    close() {
      turns.close();
      return thread.close();
    },
  };
}

/** The thread, while there is one. It gets one order at a time. */
class ParserThread {
  readonly #clock: Clock;
  readonly #ending = new Set<Promise<unknown>>();
  #worker: Worker | null = null;
  #waiting: PromiseWithResolvers<unknown> | null = null;
  #idle: Timer | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  async ask(order: ParseOrder): Promise<unknown> {
    this.#idle?.cancel();
    this.#worker ??= this.#start();
    try {
      // Throws if the order cannot be sent to the thread: then no caller waits for its outcome.
      this.#worker.postMessage(order);
      const waiting = Promise.withResolvers<unknown>();
      this.#waiting = waiting;
      return await waiting.promise;
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

  #start(): Worker {
    const workerData = { role: "parser" };
    const worker = new Worker(threadEntries.parser, { ...threadOptions, workerData });
    worker.on("message", (outcome: ParseOutcome) => {
      // An answer of a thread that was let go belongs to no order.
      if (this.#worker === worker) this.#settle(outcome);
    });
    worker.on("error", (cause) => this.#lose(worker, new Error("the parser was lost", { cause })));
    worker.once("exit", () => this.#lose(worker, new Error("the parser has ended")));
    return worker;
  }

  #end(): void {
    const worker = this.#worker;
    if (worker === null) return;
    this.#lose(worker, new StatusError(50300, { headers: { "retry-after": "5" } }));
    const ended = worker.terminate();
    this.#ending.add(ended);
    void ended.finally(() => this.#ending.delete(ended));
  }

  #settle(outcome: ParseOutcome): void {
    const waiting = this.#waiting;
    this.#waiting = null;
    if (outcome.kind === "done") waiting?.resolve(outcome.value);
    else waiting?.reject(toError(outcome));
  }

  #lose(worker: Worker, error: Error): void {
    if (this.#worker !== worker) return;
    this.#worker = null;
    this.#waiting?.reject(error);
    this.#waiting = null;
  }
}

function toError(outcome: Exclude<ParseOutcome, { kind: "done" }>): Error {
  if (outcome.kind === "error") return new Error(outcome.message);
  const { code, message, details, headers } = outcome;
  return new StatusError(code, { message, details, headers });
}

// Half a second's worth of the worst input, and far more than nearly all honest input needs.
const OWNER_BYTES_MAX = 32 * 1024 ** 2;
const ALL_BYTES_MAX = 128 * 1024 ** 2;

interface Line {
  readonly begins: ((error: StatusError | null) => void)[];
  bytes: number;
}

/** Owners take turns: each waits for one piece of another owner at most. */
export class ParseTurns {
  /** The waiting owners, in the order of their turns. */
  readonly #lines = new Map<string, Line>();
  #bytes = 0;
  #isBusy = false;
  #isClosed = false;

  /** Rejects with 42900 if too many bytes of this owner wait, and with 50300 if too many of all owners do. */
  async take<Value>(by: WorkOrder, parse: () => Promise<Value>): Promise<Value> {
    if (this.#isClosed) throw closed();
    if (this.#isBusy) await this.#wait(by);
    this.#isBusy = true;
    try {
      return await parse();
    } finally {
      // The event loop goes round between two, because the result of a parse costs the main thread time as well.
      setImmediate(() => this.#next());
    }
  }

  /** Refuses everything that waits, and everything that comes. */
  close(): void {
    this.#isClosed = true;
    for (const { begins } of this.#lines.values()) for (const begin of begins) begin(closed());
    this.#lines.clear();
  }

  #wait(by: WorkOrder): Promise<void> {
    const line = this.#lines.get(by.owner) ?? { begins: [], bytes: 0 };
    if (by.isPatient !== true) refuseOver(by.bytes, { line, all: this.#bytes });
    this.#lines.set(by.owner, line);
    line.bytes += by.bytes;
    this.#bytes += by.bytes;
    return new Promise((resolve, reject) => {
      line.begins.push((error) => {
        line.bytes -= by.bytes;
        this.#bytes -= by.bytes;
        if (error === null) resolve();
        else reject(error);
      });
    });
  }

  #next(): void {
    this.#isBusy = false;
    const [first] = this.#lines;
    if (first === undefined) return;
    this.#isBusy = true;
    const [owner, line] = first;
    this.#lines.delete(owner);
    const begin = line.begins.shift();
    if (line.begins.length > 0) this.#lines.set(owner, line);
    begin?.(null);
  }
}

// The first piece of an owner is accepted in any case: no owner is refused because of the others.
function refuseOver(
  bytes: number,
  { line, all }: { readonly line: Line; readonly all: number },
): void {
  if (line.begins.length === 0) return;
  if (line.bytes + bytes > OWNER_BYTES_MAX) throw refusal(42900, OWNER_BYTES_MAX);
  if (all + bytes > ALL_BYTES_MAX) throw refusal(50300, ALL_BYTES_MAX);
}

function refusal(code: 42900 | 50300, bytesMax: number): StatusError {
  const whose = code === 42900 ? "of yours " : "";
  const detail = `At most ${bytesMax} bytes of large bodies ${whose}may wait for their turn: send this again in a second.`;
  return new StatusError(code, { detail, headers: { "retry-after": "1" } });
}

function closed(): StatusError {
  return new StatusError(50300, { headers: { "retry-after": "5" } });
}
