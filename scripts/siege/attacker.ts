import { setPriority } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

import { helperProcess } from "../kit/helper-process.ts";
import { requestBytes, type AttackOrder } from "./attack.ts";
import { AttackConnection, ended, overEach, pause, rampUp, type UnderWay } from "./connection.ts";
import { countUp, type Tally } from "./outcome.ts";
import { unread } from "./unread.ts";

// On another machine it would take nothing from the daemon; here it gives way to the daemon and to the measured
// clients.
const NICENESS = 10;
const UNDER_WAY_MS_MAX = 20_000;
const HELD_AGAIN_MS = 1000;
const LAST_BYTE_AFTER_MS = 1500;
const ANSWERED_MS_MAX = 90_000;
const NEXT_BURST_MS = 2000;

const SHAPES = { repeat, hold, once, burst, unread };

class Attacking {
  readonly #tally: Tally = {};
  readonly #stop = new AbortController();
  #attack: Promise<void> = Promise.resolve();

  /** Settles when everything that it holds is in place, or after 20 s. */
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

  /** Ends the attack and returns its answers. */
  async end(): Promise<Tally> {
    this.#stop.abort();
    await this.#attack;
    return this.#tally;
  }
}

/** The same request over each connection, the next one after the answer, at a rate where there is one. */
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
 * Sends one request over each of many connections, and keeps them; opens a closed one again. Reads the answers. A
 * request that waits counts when it is answered, a connection that is kept counts as `held`.
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

/** Posts each body once, over one connection, and then does nothing more. */
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
 * Sends many requests whose last bytes come together, again and again until the attack ends. It waits for a burst
 * that has begun: the daemon goes on reading what has arrived, whether or not somebody waits for it.
 */
async function burst(way: UnderWay): Promise<void> {
  way.inPlace();
  while (!way.signal.aborted) {
    await burstOnce(way);
    await pause(NEXT_BURST_MS, way.signal);
  }
}

async function burstOnce(way: UnderWay): Promise<void> {
  const { request, tally } = way;
  const begun: { readonly connection: AttackConnection; readonly answer: Promise<string> }[] = [];
  await rampUp(way, (index) => {
    const connection = new AttackConnection(way, index);
    begun.push({ connection, answer: connection.ask(request.subarray(0, -1)) });
  });
  await sleep(LAST_BYTE_AFTER_MS);
  const early = await Promise.all(
    begun.map(({ answer }) => Promise.race([answer, Promise.resolve(null)])),
  );
  const timeout = sleep(ANSWERED_MS_MAX, "unanswered", { ref: false });
  const answers = begun.map(({ connection, answer }, index) => {
    if (early[index] === null) connection.send(request.subarray(-1));
    return Promise.race([answer, timeout]);
  });
  for (const what of await Promise.all(answers)) tally(what);
  for (const { connection } of begun) connection.end();
}

/** An attacker in a process of its own. */
export class Attacker extends helperProcess(import.meta, Attacking) {}
