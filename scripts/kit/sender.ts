import type { HttpMessage } from "./http-messages.ts";
import { KeptConnection } from "./kept-connection.ts";

/** How requests get to a server on 127.0.0.1, and what becomes of their answers. */
export interface Sending<Due> {
  readonly port: number;
  /** The loopback address that its connections come from, where it matters. */
  readonly address?: string;
  readonly connections: number;
  /** A new connection for each request. */
  readonly isAnew?: boolean;
  /** Made when it is sent. */
  readonly requestOf: (due: Due) => string;
  /** The answer is null where the connection broke, or nobody let it in. */
  readonly onEnd: (due: Due, answer: HttpMessage | null) => void;
}

/**
 * Sends requests as soon as they are due, over the connection that has been idle longest (the server closes those that
 * nobody uses) or the first that becomes free. One that broke is opened again for the next request.
 */
export class Sender<Due> {
  readonly #sending: Sending<Due>;
  readonly #idle: (KeptConnection | null)[];
  readonly #waiting: Due[] = [];
  readonly #open = new Set<KeptConnection>();
  #port: number;
  #isOver = false;

  constructor(sending: Sending<Due>) {
    this.#sending = sending;
    this.#port = sending.port;
    this.#idle = Array.from({ length: sending.connections }, () => null);
  }

  /** Opens all connections before they are needed. Rejects when nobody listens. */
  async open(): Promise<void> {
    const opening = this.#idle.splice(0).map(() => this.#connect());
    this.#idle.push(...(await Promise.all(opening)));
  }

  /** A server that was started again listens on another port. */
  moveTo(port: number): void {
    this.#port = port;
  }

  send(due: Due): void {
    this.#waiting.push(due);
    this.#sendNext();
  }

  /** Sends nothing more, also of what is due. */
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
    let answer: HttpMessage | null = null;
    try {
      connection ??= await this.#connect();
      answer = await connection.ask(this.#sending.requestOf(due));
    } catch {
      // Whoever sends is told so by the answer that is missing.
    }
    if (connection !== null && (answer === null || this.#sending.isAnew === true)) {
      this.#open.delete(connection);
      connection[Symbol.dispose]();
      connection = null;
    }
    this.#sending.onEnd(due, answer);
    this.#idle.push(connection);
    this.#sendNext();
  }

  async #connect(): Promise<KeptConnection> {
    const connection = await KeptConnection.open(this.#port, this.#sending.address);
    this.#open.add(connection);
    if (this.#isOver) connection[Symbol.dispose]();
    return connection;
  }
}

const TICK_MS = 5;

/**
 * Calls `due` at a steady rate from now on, with the time that is due (of `performance.now()`), until the timer is
 * cleared.
 */
export function pace(perSecond: number, due: (at: number, index: number) => void): NodeJS.Timeout {
  const from = performance.now();
  let index = 0;
  const at = (): number => from + (index * 1000) / perSecond;
  return setInterval(() => {
    for (; at() <= performance.now(); index++) due(at(), index);
  }, TICK_MS);
}
