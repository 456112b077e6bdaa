import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

import { performanceNow, queueMicrotask, setImmediate } from "../../domain/clock/timers.ts";
import { boundFineChunks } from "../body.ts";
import { addressKey } from "../guard/client.ts";
import { Counts, connectionOf, whenAnswered } from "./connections.ts";
import {
  WAITING_MAX,
  IN_LINE_OF_ADDRESS_MAX,
  IN_LINE_MAX,
  TURN_MS,
  TURN_REQUESTS_MAX,
  ARRIVALS_MS,
  OTHERS_MS,
} from "./limits.ts";

type Exchange = readonly [request: IncomingMessage, response: ServerResponse];

/** The requests that wait behind the one under way on their connection. */
interface Line {
  /** The name by which shares are counted. */
  readonly address: string;
  readonly waiting: Exchange[];
}

/**
 * Wraps a listener: it gets the requests of one connection one after the other, each when the one before is answered.
 * Node hands on everything that has arrived: a change could overtake the one before it (RFC 9112 §9.3.2), and one
 * connection could make thousands of requests wait, or have as many large results held for it. A connection with ten
 * waiting requests is not read any further. A client that has gone gets no more turns, and a client that sends ahead
 * more than all connections of its address may have in line is cut off. One turn of the event loop begins a limited
 * number of requests over all connections (see {@link shareTurns}).
 */
export function takeTurns(listener: RequestListener, options: TurnOptions): RequestListener {
  const begun = shareTurns(listener, options);
  const lines = new WeakMap<Duplex, Line>();
  const inLine = new Counts();

  function begin(socket: Duplex, [request, response]: Exchange): void {
    whenAnswered(request, response, () => endTurn(socket));
    begun(request, response);
  }

  function endTurn(socket: Duplex): void {
    const line = lines.get(socket);
    if (line === undefined) return;
    const next = socket.destroyed ? undefined : line.waiting.shift();
    const left = next === undefined ? line.waiting.length : 1;
    if (left > 0) inLine.add(line.address, -left);
    if (next === undefined) lines.delete(socket);
    if (line.waiting.length === 0 && socket.isPaused()) socket.resume();
    if (next !== undefined) begin(socket, next);
  }

  return (request, response) => {
    const { socket } = request;
    // This request was read together with one too many.
    if (socket.destroyed) return;
    boundFineChunks(request);
    const line = lines.get(socket);
    if (line === undefined) {
      lines.set(socket, { address: connectionOf(request)?.address ?? "", waiting: [] });
      begin(socket, [request, response]);
      return;
    }
    if (inLine.all >= IN_LINE_MAX || inLine.of(line.address) >= IN_LINE_OF_ADDRESS_MAX) {
      socket.destroy();
      return;
    }
    inLine.add(line.address, 1);
    line.waiting.push([request, response]);
    // Not now: Node resumes it at the end of this very request.
    if (line.waiting.length >= WAITING_MAX) {
      queueMicrotask(() => line.waiting.length > 0 && socket.pause());
    }
  };
}

interface TurnOptions {
  readonly arrivals: Arrivals;
  readonly loop?: EventLoop;
}

/**
 * Wraps a listener: it gets the requests that arrive in one turn of the event loop for {@link TURN_MS}, and the rest
 * in the following turns, in turn with the connections that come in. In between the loop goes round, and everything
 * else that is due has its time. The requests that wait take turns: health checks and all others, within each the
 * addresses, within an address the credentials. A request that comes alone does not wait.
 */
export function shareTurns(
  listener: RequestListener,
  { arrivals, loop = EVENT_LOOP }: TurnOptions,
): RequestListener {
  const queue = new TurnQueue<Parameters<RequestListener>>();
  let endsAt: number | null = null;
  let isPlanned = false;

  function plan(): void {
    if (isPlanned) return;
    isPlanned = true;
    loop.goRound(nextTurn);
  }

  function hasTime(): boolean {
    const now = loop.now();
    endsAt ??= now + TURN_MS;
    plan();
    return now < endsAt;
  }

  function nextTurn(): void {
    isPlanned = false;
    endsAt = null;
    if (queue.size === 0) return;
    if (arrivals.haveTheirTurn()) {
      plan();
      return;
    }
    for (let left = Math.min(queue.size, TURN_REQUESTS_MAX); left > 0; left--)
      loop.goRound(beginNext);
  }

  function beginNext(): void {
    if (queue.size === 0 || !hasTime()) return;
    const next = queue.shift();
    // A client that has gone meanwhile needs no answer.
    if (next !== undefined && !next[0].socket.destroyed) listener(...next);
  }

  return (request, response) => {
    if (queue.size === 0 && !arrivals.haveTheirTurn() && hasTime()) {
      listener(request, response);
      return;
    }
    queue.push([request, response], turnKeys(request));
    plan();
  };
}

const HEALTH_CHECK = /^\/(?:livez|readyz)(?:\?|$)/;

function turnKeys(request: IncomingMessage): readonly string[] {
  const { url = "", headers, socket } = request;
  const kind = HEALTH_CHECK.test(url) ? "health" : "other";
  const credential = headers.authorization ?? headers.cookie ?? "";
  const address = connectionOf(request)?.address ?? addressKey(socket.remoteAddress ?? "");
  return [kind, address, credential];
}

export interface EventLoop {
  /** In milliseconds; only differences mean something. */
  now(): number;
  /** Calls back when the loop goes round; a call from such a callback waits for the next time. */
  goRound(callback: () => void): void;
}

const EVENT_LOOP: EventLoop = {
  now: () => performanceNow(),
  goRound: (callback) => void setImmediate(callback),
};

/**
 * Counts the connections that come in, by turns of the event loop. While they come in one after the other, work that
 * can wait takes turns with them: for {@link ARRIVALS_MS} the loop goes round for them, then for {@link OTHERS_MS}
 * for the rest.
 */
export class Arrivals {
  readonly #loop: EventLoop;
  #hasCome = false;
  #hadCome = false;
  #isFlowing = false;
  #isLooking = false;
  #areOn = false;
  #changeAt = 0;

  constructor(loop: EventLoop = EVENT_LOOP) {
    this.#loop = loop;
  }

  follow(server: Server): void {
    server.prependListener("connection", () => this.note());
  }

  note(): void {
    this.#hasCome = true;
    if (!this.#isLooking) this.#look();
  }

  /** Whether work that can wait must wait now: for another turn of the loop, after which it asks again. */
  haveTheirTurn(): boolean {
    if (!this.#isFlowing) return false;
    const now = this.#loop.now();
    if (now >= this.#changeAt) {
      this.#areOn = !this.#areOn;
      this.#changeAt = now + (this.#areOn ? ARRIVALS_MS : OTHERS_MS);
    }
    return this.#areOn;
  }

  /** Calls back when the loop has gone round and the connections have had their turn. */
  afterwards(callback: () => void): void {
    this.#loop.goRound(() => {
      if (this.haveTheirTurn()) this.afterwards(callback);
      else callback();
    });
  }

  // A single connection delays no other: further requests come only after two consecutive turns had one each.
  #look(): void {
    this.#isLooking = true;
    this.#loop.goRound(() => {
      this.#isLooking = false;
      this.#isFlowing = this.#hasCome && this.#hadCome;
      this.#hadCome = this.#hasCome;
      this.#hasCome = false;
      if (this.#hadCome) this.#look();
      if (this.#isFlowing) return;
      this.#areOn = false;
      this.#changeAt = 0;
    });
  }
}

/**
 * A queue whose items take turns by the first key of each, among those with one first key by the second, and so on;
 * items with the same keys keep their order. However many items one key has, another key waits for one of them at a
 * time.
 */
export class TurnQueue<Item> {
  readonly #root: Turns<Item> = new Map();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** `keys` has at least one key, and the same number for all items. */
  push(item: Item, keys: readonly string[]): void {
    let turns = this.#root;
    for (const key of keys.slice(0, -1)) {
      const known = turns.get(key);
      const next: Turns<Item> = known === undefined || Array.isArray(known) ? new Map() : known;
      turns.set(key, next);
      turns = next;
    }
    const last = keys.at(-1) ?? "";
    const items = turns.get(last);
    if (Array.isArray(items)) items.push(item);
    else turns.set(last, [item]);
    this.#size++;
  }

  /** The item whose turn it is; undefined if no item waits. */
  shift(): Item | undefined {
    if (this.#size === 0) return undefined;
    this.#size--;
    return take(this.#root);
  }
}

/** The first entry has the next turn. */
type Turns<Item> = Map<string, Turns<Item> | Item[]>;

function take<Item>(turns: Turns<Item>): Item | undefined {
  const [first] = turns;
  if (first === undefined) return undefined;
  const [key, rest] = first;
  turns.delete(key);
  const item = Array.isArray(rest) ? rest.shift() : take(rest);
  const isEmpty = Array.isArray(rest) ? rest.length === 0 : rest.size === 0;
  if (!isEmpty) turns.set(key, rest);
  return item;
}

/** Lets each account do one piece of work at a time, in the order in which the work was asked for. */
export class AccountTurns {
  /** The last piece of work of each account, begun or to come; never rejects. */
  readonly #last = new Map<number, Promise<void>>();

  /** Does the work when everything that this account asked for before has ended. */
  async take<Value>(accountId: number, work: () => Promise<Value>): Promise<Value> {
    const before = this.#last.get(accountId) ?? Promise.resolve();
    const turn = before.then(work);
    const ended = turn.then(nothing, nothing);
    this.#last.set(accountId, ended);
    try {
      return await turn;
    } finally {
      if (this.#last.get(accountId) === ended) this.#last.delete(accountId);
    }
  }
}

function nothing(): void {}
