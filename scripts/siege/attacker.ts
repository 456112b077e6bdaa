import { setPriority } from "node:os";

import { z } from "zod";

import { HelperProcess, answerMessages } from "../kit/helper-process.ts";
import { attackJob, attackTally, requestBytes } from "./attack-job.ts";
import type { Attack, AttackJob, AttackTally } from "./attack-job.ts";
import { burst } from "./burst.ts";
import { chunks } from "./chunks.ts";
import { endless } from "./endless.ts";
import { hold } from "./hold.ts";
import { post } from "./post.ts";
import { repeat } from "./repeat.ts";
import { unread } from "./unread.ts";

const order = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("begin"), job: attackJob }),
  z.object({ kind: z.literal("end") }),
]);

const SHAPES = { repeat, burst, unread, hold, endless, chunks, post } as const;

// On another machine it would take nothing from the daemon; here it gives way to it and to who is measured.
const NICENESS = 10;
const UNDER_WAY_MS_MAX = 20_000;

/** An attacker in a process of its own. */
export class Attacker {
  readonly #helper = new HelperProcess(new URL(import.meta.url));

  /** Settles when all that it holds is in place, or after 20 s. */
  async begin(job: AttackJob): Promise<void> {
    await this.#helper.ask({ kind: "begin", job });
  }

  /** Ends the attack and tells what it was answered. */
  async end(): Promise<AttackTally> {
    return attackTally.parse(await this.#helper.ask({ kind: "end" }));
  }

  [Symbol.dispose](): void {
    this.#helper[Symbol.dispose]();
  }
}

function answerOrders(): void {
  const counts = new Map<string, number>();
  const stop = new AbortController();
  let attacking: Promise<void> = Promise.resolve();
  answerMessages(async (message) => {
    const asked = order.parse(message);
    if (asked.kind === "end") {
      stop.abort();
      await attacking;
      return Object.fromEntries(counts);
    }
    setPriority(NICENESS);
    const { promise, resolve } = Promise.withResolvers<void>();
    const attack: Attack = {
      job: asked.job,
      request: requestBytes(asked.job.request),
      tally: (what, times = 1) => counts.set(what, (counts.get(what) ?? 0) + times),
      signal: stop.signal,
      underWay: resolve,
    };
    const timer = setTimeout(resolve, UNDER_WAY_MS_MAX);
    attacking = SHAPES[asked.job.shape](attack);
    await Promise.race([promise, attacking]);
    clearTimeout(timer);
    return {};
  });
}

if (import.meta.main) answerOrders();
