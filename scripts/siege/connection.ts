import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

import { HttpMessages } from "../kit/http-messages.ts";
import type { AttackOrder } from "./attack.ts";
import { codeOf } from "./outcome.ts";

/** An attack under way. */
export interface UnderWay extends AttackOrder {
  readonly request: Buffer;
  readonly tally: (what: string, times?: number) => void;
  /** Aborted at the end of the attack. */
  readonly signal: AbortSignal;
  /** To be called when everything that it holds or posts is in place. */
  readonly inPlace: () => void;
}

// A client that is shut out tries again, but does not spin.
const AGAIN_MS = 250;
// The listening queue is short: not all connections are opened at once.
const RAMP_STEP = 64;
const RAMP_MS = 20;

/** One connection of an attack, opened when it is needed and again after it was closed. */
export class AttackConnection {
  readonly #attack: UnderWay;
  readonly #index: number;
  #socket: Socket | null = null;
  #settle: (what: string) => void = () => {};

  constructor(attack: UnderWay, index: number) {
    this.#attack = attack;
    this.#index = index;
  }

  /**
   * Sends bytes; resolves to the first status code that comes, to `closed`, or to `refused` where nobody lets it in.
   */
  ask(bytes: Buffer): Promise<string> {
    this.send(bytes);
    return this.next();
  }

  /** Like {@link ask}, and counts the outcome; waits after it was shut out. */
  async askAndCount(bytes: Buffer): Promise<void> {
    const { tally, signal } = this.#attack;
    const what = await this.ask(bytes);
    tally(signal.aborted ? "unanswered" : what);
    if (what === "closed" || what === "refused") await pause(AGAIN_MS, signal);
  }

  /** Sends bytes without waiting for anything. */
  send(bytes: Buffer): void {
    this.#socket ??= this.#open();
    this.#socket.write(bytes);
  }

  /** The next thing that comes: a status code, `closed` or `refused`. */
  next(): Promise<string> {
    const { promise, resolve } = Promise.withResolvers<string>();
    this.#settle = resolve;
    if (this.#socket === null) resolve("closed");
    return promise;
  }

  end(): void {
    this.#socket?.destroy();
  }

  #open(): Socket {
    const socket = connect({ ...placeOf(this.#attack, this.#index), noDelay: true });
    const messages = new HttpMessages();
    let what = "refused";
    socket.on("connect", () => (what = "closed"));
    socket.on("data", (chunk: Buffer) => {
      try {
        messages.read(chunk, (message) => this.#settle(codeOf(message)));
      } catch {
        this.#settle("unreadable");
      }
    });
    // "close" follows every error and says everything that matters here.
    socket.on("error", () => {});
    socket.on("close", () => {
      if (this.#socket === socket) this.#socket = null;
      this.#settle(what);
    });
    return socket;
  }
}

/** Where a connection goes to, and the address that it comes from. */
export function placeOf({ from, port }: AttackOrder, index: number) {
  return { host: "127.0.0.1", port, localAddress: from[index % from.length] ?? "127.0.0.1" };
}

/** Waits, but not beyond the end of the attack. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  // It rejects at the end of the attack, which the caller checks anyway.
  await sleep(ms, undefined, { signal }).catch(() => {});
}

/** Calls `begin` for each of the attack's connections, some at a time. */
export async function rampUp(
  { attack, signal }: UnderWay,
  begin: (index: number) => void,
): Promise<void> {
  for (let index = 0; index < attack.connections && !signal.aborted; index++) {
    begin(index);
    if (index % RAMP_STEP === RAMP_STEP - 1) await pause(RAMP_MS, signal);
  }
}

/** Runs a task on each of the attack's connections until the attack ends, when all of them are cut off. */
export async function overEach(
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

/** Settles at the end of the attack. */
export async function ended(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, "abort");
}
