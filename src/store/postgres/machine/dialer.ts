import { type Clock, wait } from "../../../domain/clock/clock.ts";
import { messageOf } from "../../../domain/error.ts";
import type { Logger } from "../../../domain/log.ts";
import { StoreError } from "../../store-error.ts";
import type { Connection } from "./connection.ts";
import { reachServer } from "./reach-server.ts";
import type { ServerAddress } from "./server-address.ts";
import { setUp, type Session } from "./server-state.ts";

export interface DialerParts {
  readonly server: ServerAddress;
  /** By which the server's operator knows these connections. */
  readonly applicationName: string;
  readonly clock: Clock;
  readonly log: Logger | undefined;
}

const PAUSE_MS_MIN = 50;
const PAUSE_MS_MAX = 1000;

/** Opens connections to that host of a server which takes writes, and keeps them together. */
export class Dialer {
  readonly #parts: DialerParts;
  readonly #open = new Set<Connection>();
  readonly #closed = new AbortController();
  /** The host that answered last. */
  #first = "";
  #isDown = false;

  constructor(parts: DialerParts) {
    this.#parts = parts;
  }

  /** Connects to the first host that takes writes. Rejects with a StoreError when none does, or this is closed. */
  dial(session: Session): Promise<Connection> {
    const { signal } = this.#closed;
    return new Promise((resolve, reject) => {
      const end = (): void => reject(isClosed());
      if (signal.aborted) end();
      signal.addEventListener("abort", end);
      // One that is closed meanwhile destroys what it opens.
      this.#dial(session)
        .finally(() => signal.removeEventListener("abort", end))
        .then(resolve, reject);
    });
  }

  async #dial(session: Session): Promise<Connection> {
    this.#refuseWhenClosed();
    const { connection, host } = await reachServer(this.#server(), session.deadlineMs);
    this.#first = host.shown;
    this.#open.add(connection);
    connection.lost.addEventListener("abort", () => this.#open.delete(connection));
    try {
      this.#refuseWhenClosed();
      await setUp(connection, session);
    } catch (error) {
      connection.destroy();
      throw error;
    }
    return connection;
  }

  /** Connects as soon as the server can be reached. Rejects once this is closed. */
  async reach(session: Session): Promise<Connection> {
    const { clock } = this.#parts;
    for (let pauseMs = PAUSE_MS_MIN; ; pauseMs = Math.min(2 * pauseMs, PAUSE_MS_MAX)) {
      try {
        const connection = await this.dial(session);
        this.#noteDown(null);
        return connection;
      } catch (error) {
        this.#refuseWhenClosed();
        this.#noteDown(error);
      }
      // Nodes that lost the server at one moment must not all come back at one.
      const jitterMs = pauseMs * (0.5 + Math.random() / 2);
      await wait(jitterMs, { clock, signal: this.#closed.signal });
    }
  }

  /** Ends every connection at once, and opens none any more. */
  close(): void {
    this.#closed.abort();
    for (const connection of this.#open) connection.destroy("the store is closed");
  }

  #server(): ServerAddress {
    const { applicationName } = this.#parts;
    const server = this.#parts.server.readAgain();
    const hosts = server.hosts
      .map((host) => ({ ...host, application_name: applicationName }))
      // The one that answered last is asked first: one that is gone may cost its whole timeout each time.
      .toSorted((a, b) => Number(b.shown === this.#first) - Number(a.shown === this.#first));
    // Whatever else the address may be used for, a node writes.
    return { ...server, hosts, targetSession: "read-write" };
  }

  #refuseWhenClosed(): void {
    if (this.#closed.signal.aborted) throw isClosed();
  }

  /** Tells once for all connections. */
  #noteDown(error: unknown): void {
    const { log, server } = this.#parts;
    const isDown = error !== null;
    if (isDown === this.#isDown) return;
    this.#isDown = isDown;
    if (isDown) log?.warn({ server: server.shown, reason: messageOf(error) }, "lost the database");
    else log?.info({ server: server.shown }, "reached the database again");
  }
}

function isClosed(): StoreError {
  return new StoreError("closed", "the store is closed");
}
