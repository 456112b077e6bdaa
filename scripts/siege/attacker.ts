import { setPriority } from "node:os";

import { helperProcess } from "../kit/helper-process.ts";
import { requestBytes } from "./attack-job.ts";
import type { AttackJob, AttackTally } from "./attack-job.ts";
import { burst } from "./burst.ts";
import { chunks } from "./chunks.ts";
import { endless } from "./endless.ts";
import { hold } from "./hold.ts";
import { post } from "./post.ts";
import { repeat } from "./repeat.ts";
import { unread } from "./unread.ts";

const SHAPES = { repeat, burst, unread, hold, endless, chunks, post } as const;

// On another machine it would take nothing from the daemon; here it gives way to the daemon and to the measured
// clients.
const NICENESS = 10;
const UNDER_WAY_MS_MAX = 20_000;

class Attacking {
  readonly #counts = new Map<string, number>();
  readonly #stop = new AbortController();
  #attack: Promise<void> = Promise.resolve();

  /** Settles when everything that it holds is in place, or after 20 s. */
  async begin(job: AttackJob): Promise<void> {
    setPriority(NICENESS);
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, UNDER_WAY_MS_MAX);
    this.#attack = SHAPES[job.shape]({
      job,
      signal: this.#stop.signal,
      underWay: resolve,
      request: requestBytes(job.request),
      tally: (what, times = 1) => this.#counts.set(what, (this.#counts.get(what) ?? 0) + times),
    });
    await Promise.race([promise, this.#attack]);
    clearTimeout(timer);
  }

  /** Ends the attack and returns its answers. */
  async end(): Promise<AttackTally> {
    this.#stop.abort();
    await this.#attack;
    return Object.fromEntries(this.#counts);
  }
}

/** An attacker in a process of its own. */
export class Attacker extends helperProcess(import.meta, Attacking) {}
