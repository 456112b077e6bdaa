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

/** The requests of the load generator, and their duration. */
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

// A load that falls further behind measures the load generator.
const BEHIND_MS_MAX = 2000;
const LOOK_MS_MAX = 50;

/**
 * Sends each request at its time, over the connection that has been idle longest: the server closes idle connections. A
 * request that waits for a free connection counts the wait as latency. Returns the latencies. Rejects at a wrong response,
 * at a broken connection, and if the server or this process cannot keep the rate.
 */
export async function runOpenLoad(load: OpenLoad): Promise<Spread> {
  const { from, to, perSecond, requestAt, require = requireTaken, countedFrom = from } = load;
  const latencies: number[] = [];
  const faults: unknown[] = [];
  // By index; what was sent or waits and has no response, in the order in which it was due.
  const open = new Set<number>();
  const waiting: number[] = [];
  const dueAt = (index: number): number => from + (index * 1000) / perSecond;
  using stack = new DisposableStack();
  const opening = Array.from({ length: load.connections }, async () =>
    stack.use(await KeptConnection.open(load.port)),
  );
  const idle = await Promise.all(opening);
  const send = async (connection: KeptConnection, index: number): Promise<void> => {
    const at = dueAt(index);
    try {
      const response = await connection.ask(requestAt(at, index));
      if (at >= countedFrom) latencies.push(epochMs() - at);
      require(response);
    } catch (error) {
      faults.push(error);
    }
    open.delete(index);
    idle.push(connection);
    sendNext();
  };
  const sendNext = (): void => {
    if (idle.length === 0 || waiting.length === 0 || faults.length > 0) return;
    const [connection, index] = [idle.shift(), waiting.shift()];
    if (connection !== undefined && index !== undefined) void send(connection, index);
  };
  const total = Math.round(((to - from) * perSecond) / 1000);
  let index = 0;
  while (index < total || open.size > 0) {
    const now = epochMs();
    for (; index < total && dueAt(index) <= now; index++) {
      open.add(index);
      waiting.push(index);
      sendNext();
    }
    if (faults.length > 0) throw faults[0];
    const [oldest] = open;
    if (oldest !== undefined && now - dueAt(oldest) > BEHIND_MS_MAX)
      throw new Error(`the rate of ${perSecond} requests per second was not kept`);
    await sleep(index < total ? Math.max(0, Math.min(dueAt(index) - now, LOOK_MS_MAX)) : 1);
  }
  if (faults.length > 0) throw faults[0];
  return spreadOf(latencies);
}

export class LoadGenerator extends helperProcess(import.meta, Generator) {}
