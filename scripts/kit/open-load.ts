import { setTimeout as sleep } from "node:timers/promises";

import { asError } from "./as-error.ts";
import { Durations, epochMs, type Spread } from "./durations.ts";
import type { HttpMessage } from "./http-messages.ts";
import { requireTaken } from "./request.ts";
import { Sender } from "./sender.ts";

/** Requests that are sent at a steady rate, whether those before them have been answered or not. */
export interface OpenLoad {
  /** On 127.0.0.1. */
  readonly port: number;
  readonly connections: number;
  readonly perSecond: number;
  /** When the first request is due, and the time before which the last is due, in epoch milliseconds. */
  readonly from: number;
  readonly to: number;
  /** The request that is due at this time, exactly as sent. */
  readonly requestAt: (at: number, index: number) => string;
  /** Throws at an answer that is not as it must be; one to a task_post unless given. */
  readonly require?: (answer: HttpMessage) => unknown;
  /** What is due before is not counted: `from` unless given. */
  readonly countedFrom?: number;
}

/** The result: every request was answered as it must be. */
export interface OpenLoadEnd {
  readonly sent: number;
  /** From the time a request was to be sent to its answer. */
  readonly answers: Spread;
}

interface Due {
  readonly at: number;
  readonly index: number;
}

// A load that falls behind by more than this measures the load generator.
const BEHIND_MS_MAX = 2000;
const LOOK_MS_MAX = 50;

/**
 * Sends the requests of {@link OpenLoad} over kept connections, each at its time; when all connections wait for
 * answers, it waits its turn, and that counts as latency. Rejects at an answer that `require` throws at, and when the
 * server or this process cannot keep the rate.
 */
export async function runOpenLoad(load: OpenLoad): Promise<OpenLoadEnd> {
  const { from, to, perSecond, requestAt, require = requireTaken, countedFrom = from } = load;
  const answers = new Durations();
  // In the order in which they are due.
  const open = new Set<Due>();
  const faults: Error[] = [];
  const take = (due: Due, answer: HttpMessage | null): void => {
    open.delete(due);
    if (answer === null) throw new Error("the server closed the connection");
    if (due.at >= countedFrom) answers.add(epochMs() - due.at);
    require(answer);
  };
  using sender = new Sender<Due>({
    port: load.port,
    connections: load.connections,
    requestOf: ({ at, index }) => requestAt(at, index),
    onEnd(due, answer) {
      try {
        take(due, answer);
      } catch (error) {
        faults.push(asError(error));
      }
    },
  });
  await sender.open();
  const total = Math.round(((to - from) * perSecond) / 1000);
  let index = 0;
  while (index < total || open.size > 0) {
    const now = epochMs();
    const dueAt = (): number => from + (index * 1000) / perSecond;
    for (; index < total && dueAt() <= now; index++) {
      const due = { at: dueAt(), index };
      open.add(due);
      sender.send(due);
    }
    requireSound({ faults, open, now, perSecond });
    await sleep(index < total ? Math.max(0, Math.min(dueAt() - now, LOOK_MS_MAX)) : 1);
  }
  requireSound({ faults, open, now: epochMs(), perSecond });
  return { sent: total, answers: answers.spread };
}

function requireSound(state: {
  readonly faults: readonly Error[];
  readonly open: ReadonlySet<Due>;
  readonly now: number;
  readonly perSecond: number;
}): void {
  const { faults, open, now, perSecond } = state;
  const [fault] = faults;
  if (fault !== undefined) throw fault;
  const [oldest] = open;
  const behindMs = oldest === undefined ? 0 : now - oldest.at;
  if (behindMs <= BEHIND_MS_MAX) return;
  const late = `one is ${behindMs.toFixed(0)} ms behind`;
  throw new Error(`the rate of ${perSecond} requests a second was not kept: ${late}`);
}
