import { once as onceOf } from "node:events";
import { readFileSync } from "node:fs";
import { Socket } from "node:net";
import { setPriority } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

import { helperProcess } from "../../kit/helper-process.ts";
import { JSON_TYPE, KeptConnection, requestText, type HttpMessage } from "../../kit/http.ts";

export interface Attack {
  /** How the request is used: the function of that name says. */
  readonly shape: "repeat" | "burst" | "unread" | "hold" | "once";
  readonly connections: number;
  /** Method and path. */
  readonly line: string;
  readonly headers?: readonly string[];
  readonly body?: AttackBody;
  /** For the shape `once`: the bodies, each sent once. */
  readonly bodies?: readonly string[];
  /** Requests per second over all connections; without it a request follows each response. */
  readonly perSecond?: number;
  /** How many copies of the request are written at a time. */
  readonly pipelined?: number;
}

/** `start`, then `element` as often as `bytes` have space for, then `end`. ASCII. */
interface AttackBody {
  readonly start: string;
  readonly element: string;
  readonly end: string;
  readonly bytes: number;
  /** In chunks of one byte, or without its last byte. */
  readonly sent?: "chunked" | "unfinished";
}

export interface AttackOrder {
  readonly attack: Attack;
  /** The daemon's port, on 127.0.0.1. */
  readonly port: number;
  /** The addresses of its connections, in turn. */
  readonly from: readonly string[];
  readonly secret: string | undefined;
}

/** Numbers that are expensive to parse. */
export const NUMBERS = { start: "[", element: "1e9,", end: "0]" } as const;

export function bodyText({ start, element, end, bytes }: AttackBody): string {
  const space = bytes - start.length - end.length;
  return start + element.repeat(Math.floor(space / element.length)) + end;
}

/** ASCII text as chunks of one byte, and the last chunk. */
export function chunked(text: string): string {
  return `${text.replaceAll(/[^]/g, "1\r\n$&\r\n")}0\r\n\r\n`;
}

/** The request as it is sent, with this body unless it has its own. */
function requestBytes({ attack, secret }: AttackOrder, given?: string): Buffer {
  const { line, headers = [], body } = attack;
  const text = given ?? (body && bodyText(body));
  if (text !== undefined && body?.sent === "chunked") {
    const chunkedHeaders = [...headers, JSON_TYPE, "Transfer-Encoding: chunked"];
    const head = requestText(line, { secret, headers: chunkedHeaders });
    return Buffer.from(head + chunked(text), "latin1");
  }
  const whole = Buffer.from(requestText(line, { secret, headers, body: text }), "latin1");
  return body?.sent === "unfinished" ? whole.subarray(0, -1) : whole;
}

/** How often each outcome came: a status code, `closed`, `refused`, `unanswered` or `held`. */
export type Tally = Record<string, number>;

export function countUp(tally: Tally, what: string, times = 1): void {
  tally[what] = (tally[what] ?? 0) + times;
}

const STATUS_CODE = /"status_code": ?(\d{5})/;
const HTTP_STATUS = /^HTTP\/1\.1 (\d{3})/;

/** The status code of a response: the contract's if it has one, else HTTP's. */
export function codeOf({ head, body }: HttpMessage): string {
  const code = STATUS_CODE.exec(body.toString("latin1", 0, 600))?.[1];
  return code ?? HTTP_STATUS.exec(head)?.[1] ?? "unreadable";
}

interface UnderWay extends AttackOrder {
  readonly request: Buffer;
  readonly tally: (what: string, times?: number) => void;
  /** Aborted at the end of the attack. */
  readonly signal: AbortSignal;
  /** Called when all that it holds or posts is in place. */
  readonly inPlace: () => void;
}

// On another machine it would take nothing from the daemon; here it yields to the daemon and the measured clients.
const NICENESS = 10;
const UNDER_WAY_MS_MAX = 20_000;
const HELD_AGAIN_MS = 1000;
const LAST_BYTE_AFTER_MS = 1500;
const ANSWERED_MS_MAX = 90_000;
const NEXT_BURST_MS = 2000;
// A client that is refused tries again, but does not spin.
const AGAIN_MS = 250;
// The listening queue is short: connections are opened in steps.
const RAMP_STEP = 64;
const RAMP_MS = 20;

const SHAPES = { repeat, hold, once, burst, unread };

class Attacking {
  readonly #tally: Tally = {};
  readonly #stop = new AbortController();
  #attack: Promise<void> = Promise.resolve();

  /** Settles when all that it holds is in place, or after 20 s. */
  async begin(order: AttackOrder): Promise<void> {
    setPriority(NICENESS);
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, UNDER_WAY_MS_MAX);
    this.#attack = SHAPES[order.attack.shape]({
      ...order,
      signal: this.#stop.signal,
      inPlace: resolve,
      request: requestBytes(order),
      tally: (what, times) => countUp(this.#tally, what, times),
    });
    await Promise.race([promise, this.#attack]);
    clearTimeout(timer);
  }

  /** Ends the attack and returns its responses. */
  async end(): Promise<Tally> {
    this.#stop.abort();
    await this.#attack;
    return this.#tally;
  }
}

/** The same request over each connection, each after the response to the one before, at a rate if there is one. */
function repeat(way: UnderWay): Promise<void> {
  const { attack, signal, request } = way;
  const gapMs = attack.perSecond ? (1000 * attack.connections) / attack.perSecond : 0;
  return overEach(way, async (connection) => {
    while (!signal.aborted) {
      const nextAt = performance.now() + gapMs;
      await connection.askAndCount(request);
      if (gapMs > 0) await pause(Math.max(0, nextAt - performance.now()), signal);
    }
  });
}

/**
 * Sends one request over each of many connections, keeps them, and opens a closed one again. A request counts at its
 * response, a kept connection as `held`.
 */
function hold(way: UnderWay): Promise<void> {
  const { signal, request, tally } = way;
  let held = 0;
  signal.addEventListener("abort", () => tally("held", held));
  return overEach(way, async (connection) => {
    while (!signal.aborted) {
      held++;
      let what = await connection.ask(request);
      while (what !== "closed" && what !== "refused" && !signal.aborted) {
        tally(what);
        what = await connection.next();
      }
      if (signal.aborted) return;
      held--;
      tally(what);
      await pause(HELD_AGAIN_MS, signal);
    }
  });
}

/** Posts each body once, over one connection. */
async function once(way: UnderWay): Promise<void> {
  const connection = new AttackConnection(way, 0);
  way.signal.addEventListener("abort", () => connection.end());
  for (const body of way.attack.bodies ?? []) {
    if (way.signal.aborted) break;
    await connection.askAndCount(requestBytes(way, body));
  }
  way.inPlace();
  await ended(way.signal);
}

/**
 * Sends many requests whose last bytes come together, again and again. It waits for a burst that has begun: the daemon
 * goes on reading what has arrived.
 */
async function burst(way: UnderWay): Promise<void> {
  const { request, tally, signal } = way;
  way.inPlace();
  while (!signal.aborted) {
    const begun: { readonly connection: AttackConnection; readonly answer: Promise<string> }[] = [];
    await rampUp(way, (index) => {
      const connection = new AttackConnection(way, index);
      begun.push({ connection, answer: connection.ask(request.subarray(0, -1)) });
    });
    await sleep(LAST_BYTE_AFTER_MS);
    const timeout = sleep(ANSWERED_MS_MAX, "unanswered", { ref: false });
    const answers = begun.map(({ connection, answer }) => {
      connection.send(request.subarray(-1));
      return Promise.race([answer, timeout]);
    });
    for (const what of await Promise.all(answers)) tally(what);
    for (const { connection } of begun) connection.end();
    await pause(NEXT_BURST_MS, signal);
  }
}

/** Sends requests over many connections and reads nothing. Connections that are open at the end count as `held`. */
async function unread(way: UnderWay): Promise<void> {
  const { attack, signal, request, tally, inPlace } = way;
  const bytes = Buffer.concat(Array.from({ length: attack.pipelined ?? 1 }, () => request));
  const sockets: Socket[] = [];
  const opened = new Set<string>();
  let refused = 0;
  const noteOne = (): void => {
    if (opened.size + refused === attack.connections) inPlace();
  };
  await rampUp(way, (index) => {
    // Paused before it connects, so it never reads a byte.
    const socket = new Socket().pause();
    const localAddress = addressOf(way, index);
    socket.on("connect", () => {
      opened.add(`${localAddress}:${socket.localPort}`);
      socket.write(bytes);
      noteOne();
    });
    socket.on("error", () => {
      refused++;
      noteOne();
    });
    socket.connect({ host: "127.0.0.1", port: way.port, localAddress });
    sockets.push(socket);
  });
  await ended(signal);
  const held = countEstablished(opened);
  tally("held", held);
  tally("closed", opened.size - held);
  tally("refused", attack.connections - opened.size);
  for (const socket of sockets) socket.destroy();
}

const ESTABLISHED = "01";

/** A socket of Node that does not read gets no event when its connection is closed; the kernel knows. */
function countEstablished(opened: ReadonlySet<string>): number {
  const lines = readFileSync("/proc/net/tcp", "latin1").split("\n").slice(1);
  return lines.filter((line) => {
    const [, local = "", , state] = line.trim().split(/\s+/);
    return state === ESTABLISHED && opened.has(endpointText(local));
  }).length;
}

/** `0203007F:1F90`, as the kernel has it on a little-endian machine, is 127.0.3.2:8080. */
function endpointText(local: string): string {
  const [address = "", port = ""] = local.split(":");
  const bytes = Buffer.from(address, "hex").toReversed();
  return `${bytes.join(".")}:${Number.parseInt(port, 16)}`;
}

/** One connection of an attack, opened when it is needed and again after it was closed. */
class AttackConnection {
  readonly #way: UnderWay;
  readonly #index: number;
  #open: KeptConnection | null = null;

  constructor(way: UnderWay, index: number) {
    this.#way = way;
    this.#index = index;
  }

  /** Sends bytes; resolves to the first status code, to `closed`, or to `refused` if it could not connect. */
  async ask(bytes: Buffer): Promise<string> {
    const { port, signal } = this.#way;
    try {
      this.#open ??= await KeptConnection.open(port, addressOf(this.#way, this.#index));
    } catch {
      return "refused";
    }
    if (signal.aborted) this.end();
    return this.#outcome(this.#open.ask(bytes));
  }

  /** Like {@link ask}, and counts the outcome; waits after it was refused. */
  async askAndCount(bytes: Buffer): Promise<void> {
    const { tally, signal } = this.#way;
    const what = await this.ask(bytes);
    tally(signal.aborted ? "unanswered" : what);
    if (what === "closed" || what === "refused") await pause(AGAIN_MS, signal);
  }

  /** Sends bytes without waiting. */
  send(bytes: Buffer): void {
    this.#open?.send(bytes);
  }

  /** The next status code, or `closed`. */
  async next(): Promise<string> {
    return this.#open === null ? "closed" : this.#outcome(this.#open.next());
  }

  end(): void {
    this.#open?.[Symbol.dispose]();
  }

  async #outcome(response: Promise<HttpMessage>): Promise<string> {
    try {
      return codeOf(await response);
    } catch {
      this.#open = null;
      return "closed";
    }
  }
}

/** The loopback address that a connection comes from. */
function addressOf({ from }: AttackOrder, index: number): string {
  return from[index % from.length] ?? "127.0.0.1";
}

/** Waits, but not beyond the end of the attack. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  // It rejects at the end of the attack, which the caller checks.
  await sleep(ms, undefined, { signal }).catch(() => {});
}

/** Calls `begin` for each of the attack's connections, some at a time. */
async function rampUp({ attack, signal }: UnderWay, begin: (index: number) => void): Promise<void> {
  for (let index = 0; index < attack.connections && !signal.aborted; index++) {
    begin(index);
    if (index % RAMP_STEP === RAMP_STEP - 1) await pause(RAMP_MS, signal);
  }
}

/** Runs on each of the attack's connections until the attack ends, when all of them are cut off. */
async function overEach(
  attack: UnderWay,
  run: (connection: AttackConnection) => Promise<void>,
): Promise<void> {
  const connections: AttackConnection[] = [];
  const running: Promise<void>[] = [];
  attack.signal.addEventListener("abort", () => connections.forEach((each) => each.end()));
  await rampUp(attack, (index) => {
    const connection = new AttackConnection(attack, index);
    connections.push(connection);
    running.push(run(connection));
  });
  attack.inPlace();
  await Promise.all(running);
}

async function ended(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await onceOf(signal, "abort");
}

export class Attacker extends helperProcess(import.meta, Attacking) {}
