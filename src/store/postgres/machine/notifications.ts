import { createHash } from "node:crypto";

import { type Clock, type Timer, wait } from "../../../domain/clock/clock.ts";
import { messageOf } from "../../../domain/error.ts";
import type { Logger } from "../../../domain/log.ts";
import type { ChangeListener, Changes } from "../../cluster.ts";
import type { Connection } from "./connection.ts";
import type { Dialer, Session } from "./dialer.ts";

export interface NotificationsParts {
  readonly dialer: Dialer;
  readonly clock: Clock;
  /** True when other nodes may listen. */
  readonly hasOthers: () => boolean;
  readonly log: Logger | undefined;
}

// Each NOTIFY takes a lock of the whole server: one for each step cost two thirds of all commits (measured), and one for
// what a node did in 10 ms costs nothing that could be measured.
const GATHER_MS = 10;
// A node receives its own, and so knows that it receives.
const ECHO_MS = 5000;
const SILENCE_MS_MAX = 15_000;

const SESSION: Session = { deadlineMs: 5000, statementMs: 0, lockMs: 0, mayLose: true };

/**
 * Notifies other nodes soon of what this one did, and receives their notifications. Any notification may be lost, and
 * nothing depends on it: each node also polls once a second. Sending and receiving share a connection that does nothing
 * else. So no notification waits for a write, and no heartbeat waits for the lock of a NOTIFY. All notifications are
 * read, because unread ones block the server's queue.
 */
export class Notifications {
  readonly #parts: NotificationsParts;
  /** Distinguishes its own notifications from other nodes' notifications. */
  readonly #self = crypto.randomUUID().slice(0, 8);
  readonly #listeners = new Set<ChangeListener>();
  readonly #closing = new AbortController();
  readonly #gathered = new GatheredNews();
  /** Null while nothing is received: then nothing is sent either. */
  #line: { readonly connection: Connection; readonly channel: string } | null = null;
  #isSending = false;
  #timer: Timer | null = null;
  #heardAt = 0;
  #sentAt = 0;

  constructor(parts: NotificationsParts) {
    this.#parts = parts;
  }

  /** Begins to receive and to send. */
  start(): void {
    void this.#listen();
    void this.#echo();
  }

  /** Calls back with what other nodes did. Returns a function that stops it. */
  watch(listener: ChangeListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Notifies the others, soon. */
  note(changes: Partial<Changes>): void {
    if (!this.#parts.hasOthers()) return;
    this.#gathered.add(changes);
    this.#plan();
  }

  close(): void {
    this.#closing.abort();
    this.#timer?.cancel();
  }

  #plan(): void {
    if (this.#timer !== null || this.#isSending || this.#gathered.isEmpty) return;
    // The first of them is sent immediately.
    const delayMs = Math.max(0, this.#sentAt + GATHER_MS - this.#parts.clock.monotonic());
    this.#timer = this.#parts.clock.setTimer(delayMs, () => {
      this.#timer = null;
      void this.#send(this.#gathered.take(this.#self));
    });
  }

  /** Notifications that are gathered meanwhile go with the next. */
  async #send(payloads: readonly string[]): Promise<void> {
    if (this.#isSending || this.#closing.signal.aborted) return;
    this.#isSending = true;
    try {
      if (this.#line !== null) {
        const { connection, channel } = this.#line;
        this.#sentAt = this.#parts.clock.monotonic();
        const notify = "SELECT pg_notify($1, $2)";
        await Promise.all(payloads.map((each) => connection.run(notify, [channel, each])));
      }
    } catch (error) {
      // The others find it by polling.
      this.#parts.log?.debug({ reason: messageOf(error) }, "a hint was lost");
    } finally {
      this.#isSending = false;
      if (!this.#closing.signal.aborted) this.#plan();
    }
  }

  /** Notifies itself now and then: a connection that does not receive this is replaced. */
  async #echo(): Promise<void> {
    const { clock } = this.#parts;
    const { signal } = this.#closing;
    while (!signal.aborted) {
      await wait(ECHO_MS, { clock, signal });
      if (clock.monotonic() - this.#sentAt >= ECHO_MS)
        await this.#send(this.#gathered.echo(this.#self));
    }
  }

  async #listen(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      try {
        const connection = await this.#parts.dialer.reach(SESSION);
        await this.#hear(connection).finally(() => {
          this.#line = null;
          connection.destroy("notifications are not received");
        });
      } catch (error) {
        const { clock, log } = this.#parts;
        log?.debug({ reason: messageOf(error) }, "notifications are not received");
        // A server or a pooler without LISTEN refuses it each time.
        await wait(ECHO_MS, { clock, signal });
      }
    }
  }

  /** Settles when nothing is received any more. */
  async #hear(connection: Connection): Promise<void> {
    const { clock } = this.#parts;
    connection.onNotification((payload) => this.#take(payload));
    const channel = await findChannel(connection);
    await connection.command(`LISTEN "${channel}"`);
    this.#line = { connection, channel };
    this.#heardAt = clock.monotonic();
    const end = AbortSignal.any([this.#closing.signal, connection.lost]);
    while (!end.aborted) {
      await wait(ECHO_MS, { clock, signal: end });
      if (clock.monotonic() - this.#heardAt > SILENCE_MS_MAX) break;
    }
  }

  #take(payload: string): void {
    this.#heardAt = this.#parts.clock.monotonic();
    const changes = readNotification(payload, this.#self);
    if (changes === null) return;
    for (const listener of this.#listeners) listener(changes);
  }
}

const NAME_BYTES_MAX = 63;

/** Nodes in other schemas of the same database have other channels. */
async function findChannel(connection: Connection): Promise<string> {
  const row = await connection.get<{ schema: string | null }>("SELECT current_schema() AS schema");
  const hash = createHash("sha256")
    .update(row?.schema ?? "")
    .digest("hex");
  return `postbackd_${hash}`.slice(0, NAME_BYTES_MAX);
}

/** Texts that nodes notify one another with: at most this many bytes each, of 8,000 that the server takes. */
export const PAYLOAD_BYTES_MAX = 7900;
// A node that did more in one moment leaves the rest to polls.
const PAYLOADS_MAX = 8;

type Item =
  | readonly ["a", number]
  | readonly ["t", string]
  | readonly ["l", number, string]
  | readonly ["e", string];

/** The news to be sent, each item once. */
export class GatheredNews {
  /** By their JSON text: what matters first comes first. */
  readonly #items = new Set<string>();
  #bytes = 0;

  get isEmpty(): boolean {
    return this.#items.size === 0;
  }

  add({ types = [], lanes = [], ended = [], accounts = [] }: Partial<Changes>): void {
    for (const type of types) this.#add(["t", type]);
    for (const { accountId, host } of lanes) this.#add(["l", accountId, host]);
    for (const id of ended) this.#add(["e", id]);
    for (const account of accounts) this.#add(["a", account]);
  }

  /** Returns the payloads that hold all of it, and begins again. */
  take(from: string): readonly string[] {
    const payloads: string[] = [];
    let items: string[] = [];
    let bytes = 0;
    const end = (): void => {
      if (items.length > 0) payloads.push(toPayload(from, items));
      items = [];
      bytes = 0;
    };
    const itemBytesMax = PAYLOAD_BYTES_MAX - toPayload(from, []).length;
    for (const item of this.#items) {
      const more = Buffer.byteLength(item) + 1;
      if (bytes + more > itemBytesMax) end();
      items.push(item);
      bytes += more;
    }
    end();
    this.#items.clear();
    this.#bytes = 0;
    return payloads.slice(0, PAYLOADS_MAX);
  }

  /** A payload without news, which shows this node that it receives. */
  echo(from: string): readonly string[] {
    return [toPayload(from, [])];
  }

  #add(item: Item): void {
    const text = JSON.stringify(item);
    // An item for which no payload has room is left to polls too.
    const isTooMuch = this.#bytes > PAYLOADS_MAX * PAYLOAD_BYTES_MAX;
    if (isTooMuch || Buffer.byteLength(text) > PAYLOAD_BYTES_MAX / 2 || this.#items.has(text))
      return;
    this.#items.add(text);
    this.#bytes += text.length;
  }
}

function toPayload(from: string, items: readonly string[]): string {
  return `{"from":"${from}","items":[${items.join(",")}]}`;
}

/** Reads a payload; null for one's own, and for an invalid one: any client that may connect can notify. */
export function readNotification(payload: string, self: string): Changes | null {
  let read: { from?: unknown; items?: unknown } | null;
  try {
    read = JSON.parse(payload) as typeof read;
  } catch {
    return null;
  }
  if (read === null || read.from === self || !Array.isArray(read.items)) return null;
  const items: readonly unknown[][] = read.items.filter((item) => Array.isArray(item));
  const texts = (kind: Item[0]): string[] =>
    items.flatMap(([is, text]) => (is === kind && typeof text === "string" ? [text] : []));
  return {
    accounts: items.flatMap(([is, id]) => (is === "a" && typeof id === "number" ? [id] : [])),
    types: texts("t"),
    lanes: items.flatMap(([is, accountId, host]) =>
      is === "l" && typeof accountId === "number" && typeof host === "string"
        ? [{ accountId, host }]
        : [],
    ),
    ended: texts("e"),
  };
}
