import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

import { HttpMessages } from "../kit/http-messages.ts";
import type { Attack } from "./attack-job.ts";
import { codeOf } from "./status-code.ts";

// A client that is shut out tries again, but does not spin.
const AGAIN_MS = 250;

/** One connection of an attack, opened when it is needed and again after it was closed. */
export class AttackLine {
  readonly #attack: Attack;
  readonly #index: number;
  #socket: Socket | null = null;
  #settle: (what: string) => void = () => {};

  constructor(attack: Attack, index: number) {
    this.#attack = attack;
    this.#index = index;
  }

  /**
   * Sends bytes; resolves to the first status code that comes, to `closed`, or to `refused` where nobody lets it in.
   */
  async ask(bytes: Buffer): Promise<string> {
    const { promise, resolve } = Promise.withResolvers<string>();
    this.#settle = resolve;
    this.send(bytes);
    return promise;
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
    const { job } = this.#attack;
    const socket = openSocket(job, this.#index);
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

/** A socket to the daemon from the next address. */
function openSocket(job: Attack["job"], index: number): Socket {
  const localAddress = addressOf(job, index);
  return connect({ host: "127.0.0.1", port: job.port, localAddress, noDelay: true });
}

/** The address that a connection comes from. */
export function addressOf({ from }: Attack["job"], index: number): string {
  const [first] = from;
  return from[index % from.length] ?? first;
}

/** Waits, but not beyond the end of the attack. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  // It rejects at the end of the attack, which the caller checks anyway.
  await sleep(ms, undefined, { signal }).catch(() => {});
}

/** Calls `begin` for each connection, but not for all at once: the listening queue is short. */
export async function rampUp(
  { job, signal }: Attack,
  begin: (index: number) => void,
): Promise<void> {
  for (let index = 0; index < job.connections && !signal.aborted; index++) {
    begin(index);
    if (index % RAMP_STEP === RAMP_STEP - 1) await pause(RAMP_MS, signal);
  }
}

/** Runs a task on each of the attack's connections until the attack ends, when all of them are cut off. */
export async function overEachLine(
  attack: Attack,
  run: (line: AttackLine) => Promise<void>,
): Promise<void> {
  const lines: AttackLine[] = [];
  const running: Promise<void>[] = [];
  attack.signal.addEventListener("abort", () => lines.forEach((line) => line.end()));
  await rampUp(attack, (index) => {
    const line = new AttackLine(attack, index);
    lines.push(line);
    running.push(run(line));
  });
  attack.underWay();
  await Promise.all(running);
}

const RAMP_STEP = 64;
const RAMP_MS = 20;

/** Settles at the end of the attack. */
export async function ended(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => {
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
