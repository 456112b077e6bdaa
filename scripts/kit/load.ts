import { setTimeout as sleep } from "node:timers/promises";

import { helperProcess } from "./helper-process.ts";
import { KeptConnection, requireTaken, type HttpMessage } from "./http.ts";
import { epochMs, spreadOf, type Spread } from "./measure.ts";

/** Requests that are all alike, each sent when the connection has the response to the one before. */
export interface Load {
  /** On 127.0.0.1. */
  readonly port: number;
  readonly connections: number;
  readonly request: Uint8Array;
  /** Called before each request: whether it may be sent. */
  readonly goesOn: () => boolean;
  readonly onAnswer: (response: HttpMessage, latencyMs: number) => void;
}

/**
 * Sends requests until `goesOn` returns false, and waits for the last responses. Returns how many connections broke;
 * they are not opened again. Rejects if it cannot connect, or if `onAnswer` throws.
 */
export async function runLoad(load: Load): Promise<number> {
  using stack = new DisposableStack();
  const opening = Array.from({ length: load.connections }, async () =>
    stack.use(await KeptConnection.open(load.port)),
  );
  const isDone = async (connection: KeptConnection): Promise<boolean> => {
    while (load.goesOn()) {
      const sentAt = performance.now();
      const response = await connection.ask(load.request).catch(() => null);
      if (response === null) return false;
      load.onAnswer(response, performance.now() - sentAt);
    }
    return true;
  };
  const ends = await Promise.all((await Promise.all(opening)).map(isDone));
  return ends.filter((done) => !done).length;
}

/** Sends a request `times` times over eight connections. Rejects if a connection breaks or `require` throws. */
export async function sendTimes(
  times: number,
  { port, request }: { readonly port: number; readonly request: string },
  require: (response: HttpMessage) => unknown = requireTaken,
): Promise<void> {
  let left = times;
  const broken = await runLoad({
    port,
    connections: 8,
    request: Buffer.from(request),
    goesOn: () => left-- > 0,
    onAnswer: (response) => void require(response),
  });
  if (broken > 0) throw new Error(`the server closed ${broken} connections`);
}

/** What the load generator sends, and for how long. */
export interface LoadJob {
  readonly port: number;
  readonly connections: number;
  /** A whole request, of ASCII characters. */
  readonly request: string;
  /** Not counted: until the server's code is compiled. */
  readonly warmUpMs: number;
  /** Ends the load: a time after the warm-up, or a number of responses. */
  readonly until: { readonly measuredMs: number } | { readonly answers: number };
}

/** The responses after the warm-up. */
export interface LoadReport extends Spread {
  /** The time that they took. */
  readonly seconds: number;
  /** With the responses of the warm-up. */
  readonly countInAll: number;
}

class Generator {
  /** Rejects at the first response that is not 200 or that refuses a task. */
  async run({ until, ...job }: LoadJob): Promise<LoadReport> {
    const latencies: number[] = [];
    const measureFrom = performance.now() + job.warmUpMs;
    let endedAt = measureFrom;
    let countInAll = 0;
    let left = "answers" in until ? until.answers : Infinity;
    const endAt = "measuredMs" in until ? measureFrom + until.measuredMs : Infinity;
    const broken = await runLoad({
      ...job,
      request: Buffer.from(job.request, "latin1"),
      goesOn: () => left-- > 0 && performance.now() < endAt,
      onAnswer: (response, latencyMs) => {
        requireTaken(response);
        countInAll++;
        endedAt = performance.now();
        if (endedAt >= measureFrom) latencies.push(latencyMs);
      },
    });
    if (broken > 0) throw new Error(`the server closed ${broken} connections`);
    return { ...spreadOf(latencies), seconds: (endedAt - measureFrom) / 1000, countInAll };
  }
}

/** How a {@link Sender} sends requests to a server on 127.0.0.1. */
export interface Sending<Due> {
  readonly port: number;
  /** The loopback address that its connections come from. */
  readonly address?: string;
  readonly connections: number;
  /** Whether each request has a new connection. */
  readonly isAnew?: boolean;
  /** Called when the request is sent. */
  readonly requestOf: (due: Due) => string;
  /** The response is null if the connection broke or was refused. */
  readonly onEnd: (due: Due, response: HttpMessage | null) => void;
}

/**
 * Sends requests as soon as they are due, over the connection that has been idle longest (the server closes idle ones)
 * or the first that becomes free. A broken connection is opened again for the next request.
 */
export class Sender<Due> {
  readonly #sending: Sending<Due>;
  readonly #idle: (KeptConnection | null)[];
  readonly #waiting: Due[] = [];
  readonly #open = new Set<KeptConnection>();
  /** Changes if the server starts again on another port. */
  port: number;
  #isOver = false;

  constructor(sending: Sending<Due>) {
    this.#sending = sending;
    this.port = sending.port;
    this.#idle = Array.from({ length: sending.connections }, () => null);
  }

  /** Opens all connections before they are needed. Rejects if the port is closed. */
  async open(): Promise<void> {
    const opening = this.#idle.splice(0).map(() => this.#connect());
    this.#idle.push(...(await Promise.all(opening)));
  }

  send(due: Due): void {
    this.#waiting.push(due);
    this.#sendNext();
  }

  [Symbol.dispose](): void {
    this.#isOver = true;
    for (const connection of this.#open) connection[Symbol.dispose]();
  }

  #sendNext(): void {
    if (this.#isOver || this.#idle.length === 0) return;
    const due = this.#waiting.shift();
    if (due !== undefined) void this.#ask(this.#idle.shift() ?? null, due);
  }

  async #ask(kept: KeptConnection | null, due: Due): Promise<void> {
    let connection = kept;
    let response: HttpMessage | null = null;
    try {
      connection ??= await this.#connect();
      response = await connection.ask(this.#sending.requestOf(due));
    } catch {
      // `onEnd` is called with null.
    }
    if (connection !== null && (response === null || this.#sending.isAnew === true)) {
      this.#open.delete(connection);
      connection[Symbol.dispose]();
      connection = null;
    }
    this.#sending.onEnd(due, response);
    this.#idle.push(connection);
    this.#sendNext();
  }

  async #connect(): Promise<KeptConnection> {
    const connection = await KeptConnection.open(this.port, this.#sending.address);
    this.#open.add(connection);
    if (this.#isOver) connection[Symbol.dispose]();
    return connection;
  }
}

/** Requests that are sent at a steady rate, whether or not the requests before them have a response. */
export interface OpenLoad {
  readonly port: number;
  readonly connections: number;
  readonly perSecond: number;
  /** When the first request is due, and the time before which the last is due, in epoch milliseconds. */
  readonly from: number;
  readonly to: number;
  readonly requestAt: (at: number, index: number) => string;
  /** Throws at a wrong response; {@link requireTaken} unless given. */
  readonly require?: (response: HttpMessage) => unknown;
  /** Requests that are due before are not counted: `from` unless given. */
  readonly countedFrom?: number;
}

interface Due {
  readonly at: number;
  readonly index: number;
}

// A load that falls further behind measures the load generator.
const BEHIND_MS_MAX = 2000;
const LOOK_MS_MAX = 50;

/**
 * Sends each request at its time; a request that waits for a free connection counts that as latency. Returns the
 * latencies. Rejects at a wrong response, and if the server or this process cannot keep the rate.
 */
export async function runOpenLoad(load: OpenLoad): Promise<Spread> {
  const { from, to, perSecond, requestAt, require = requireTaken, countedFrom = from } = load;
  const latencies: number[] = [];
  // In the order in which they are due.
  const open = new Set<Due>();
  const faults: unknown[] = [];
  using sender = new Sender<Due>({
    port: load.port,
    connections: load.connections,
    requestOf: ({ at, index }) => requestAt(at, index),
    onEnd(due, response) {
      open.delete(due);
      try {
        if (response === null) throw new Error("the server closed the connection");
        if (due.at >= countedFrom) latencies.push(epochMs() - due.at);
        require(response);
      } catch (error) {
        faults.push(error);
      }
    },
  });
  await sender.open();
  const total = Math.round(((to - from) * perSecond) / 1000);
  let index = 0;
  while (index < total || open.size > 0) {
    const now = epochMs();
    const dueAt = (): number => from + (index * 1000) / perSecond;
    for (; index < total && dueAt() <= now; index++) {
      const due = { at: dueAt(), index };
      open.add(due);
      sender.send(due);
    }
    if (faults.length > 0) throw faults[0];
    const [oldest] = open;
    if (oldest !== undefined && now - oldest.at > BEHIND_MS_MAX)
      throw new Error(`the rate of ${perSecond} requests per second was not kept`);
    await sleep(index < total ? Math.max(0, Math.min(dueAt() - now, LOOK_MS_MAX)) : 1);
  }
  if (faults.length > 0) throw faults[0];
  return spreadOf(latencies);
}

const TICK_MS = 5;

/** Calls `due` at a steady rate, with the time of `performance.now()` that is due, until the timer is cleared. */
export function pace(perSecond: number, due: (at: number, index: number) => void): NodeJS.Timeout {
  const from = performance.now();
  let index = 0;
  const at = (): number => from + (index * 1000) / perSecond;
  return setInterval(() => {
    for (; at() <= performance.now(); index++) due(at(), index);
  }, TICK_MS);
}

/** The load generator, in a process of its own. */
export class LoadGenerator extends helperProcess(import.meta, Generator) {}
