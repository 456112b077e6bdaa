import type { Ask, Caller } from "../kit/caller.ts";
import { mainThreadMs } from "../kit/processes.ts";

/** A measured request; it is made anew for each time where it can be sent only once. */
export interface Case {
  readonly ask: Ask | (() => Promise<Ask>);
  /** The expected status; 200 unless given. */
  readonly status?: number;
  /** Settles when all its work is done. Called before the request is sent. */
  readonly done?: () => Promise<void>;
  /** Work on the answer before the next time; it does not count. */
  readonly after?: (text: string) => Promise<void>;
  /** Its other work takes a second, or so many seconds that only the table shows it. */
  readonly pace?: "slow" | "very slow";
  /** For an endless answer: reads as much as belongs to it. */
  readonly isStream?: true;
}

/** Cases by the names of their rows; for most of them the request is all. */
export type Cases = Readonly<Record<string, Case | Case["ask"]>>;

/** The cost of a case for the daemon's main thread, each time that it was measured. */
export interface Measured {
  readonly status: number;
  readonly costsMs: readonly number[];
}

export interface MeasureOptions {
  readonly caller: Caller;
  readonly pid: number;
  /** How often to send it before it counts: code is compiled, threads are started. */
  readonly uncounted: number;
  readonly counted: number;
}

/** Sends it again and again, one after the other. Throws when the answer is not the expected one. */
export async function measure(each: Case, options: MeasureOptions): Promise<Measured> {
  const { caller, pid, uncounted, counted } = options;
  const costsMs: number[] = [];
  for (let i = 0; i < uncounted + counted; i++) {
    const ask = typeof each.ask === "function" ? await each.ask() : each.ask;
    const before = mainThreadMs(pid);
    const done = each.done?.();
    const { status, text } = await (each.isStream ? caller.peek(ask) : caller.send(ask));
    if (status !== (each.status ?? 200)) {
      throw new Error(`${ask.method} ${ask.path} answered ${status}: ${text.slice(0, 500)}`);
    }
    await done;
    if (i >= uncounted) costsMs.push(mainThreadMs(pid) - before);
    await each.after?.(text);
  }
  return { status: each.status ?? 200, costsMs };
}
