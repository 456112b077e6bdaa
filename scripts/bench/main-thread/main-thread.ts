import type { Answer, Ask, Caller } from "../../kit/client.ts";
import { defineCommand, optional, text, whole } from "../../kit/command.ts";
import { markdownTable, median } from "../../kit/measure.ts";
import { mainThreadMs } from "../../kit/processes.ts";
import { BOUNDS, type BoundName } from "./bounds.ts";
import { prepareCases } from "./cases.ts";
import { withWorld } from "./world.ts";

/** A measured request. */
export interface Case {
  /** A function if each request can be sent only once. */
  readonly ask: Ask | (() => Promise<Ask>);
  /** The expected status; 200 unless given. */
  readonly status?: number;
  /** Settles when all its work is done. Called before the request is sent. */
  readonly done?: () => Promise<void>;
  /** Work on the response before the next request; it does not count. */
  readonly after?: (text: string) => Promise<void>;
  /** Its other work takes a second, or so long that only the command measures it. */
  readonly pace?: "slow" | "very slow";
  /** For an endless response: reads its beginning. */
  readonly isStream?: true;
}

/** Cases by the names of their rows; most of them are the request alone. */
export type Cases = Readonly<Record<string, Case | Case["ask"]>>;

const UNCOUNTED = 3;

export const mainThread = defineCommand({
  about: `Sends each operation the worst input that the limits accept, one request at a time, and measures what it costs the
daemon's main thread: the time that Linux gave the thread (schedstat), from before the request until its response has been
read. Waits, and the work of other threads, are not in it. scripts/bench/main-thread/bounds.ts has the bounds.`,
  flags: {
    repeat: whole("requests of each, after three that are not counted", 20),
    only: optional(text("NAME", "one row of bounds.ts, by its name there")),
  },
  async run({ repeat: counted, only }, { place, print }) {
    const rows: (readonly string[])[] = [];
    await withWorld(place, async (world) => {
      const cases = await prepareCases(world);
      const { anybody: caller, daemon } = world;
      for (const [name, bound] of Object.entries(BOUNDS)) {
        if (only !== null && name !== only) continue;
        // The compiler knows names of members only as text.
        const each = cases[name as BoundName];
        const options = { caller, pid: daemon.pid, uncounted: UNCOUNTED, counted };
        const costsMs = await measure(each, options);
        const figures = [median(costsMs), Math.max(...costsMs)].map((ms) => ms.toFixed(2));
        rows.push([
          bound.what,
          bound.worst,
          String(each.status ?? 200),
          String(bound.ms),
          ...figures,
        ]);
      }
    });
    const figures = ["status", "may cost ms", "median ms", "worst ms"];
    print(markdownTable(["operation", "worst input", ...figures], rows, 2));
  },
});

/** Sends it again and again; returns what each request cost the main thread. Rejects at an unexpected status. */
export async function measure(
  each: Case,
  options: {
    readonly caller: Caller;
    readonly pid: number;
    /** Requests before the first that counts: code is compiled, threads are started. */
    readonly uncounted: number;
    readonly counted: number;
  },
): Promise<readonly number[]> {
  const { caller, pid, uncounted, counted } = options;
  const costsMs: number[] = [];
  for (let i = 0; i < uncounted + counted; i++) {
    const ask = typeof each.ask === "function" ? await each.ask() : each.ask;
    const before = mainThreadMs(pid);
    const done = each.done?.();
    const { status, text: body }: Pick<Answer, "status" | "text"> = await (each.isStream
      ? caller.peek(ask)
      : caller.send(ask));
    if (status !== (each.status ?? 200))
      throw new Error(`${ask.method} ${ask.path} responded ${status}: ${body.slice(0, 500)}`);
    await done;
    if (i >= uncounted) costsMs.push(mainThreadMs(pid) - before);
    await each.after?.(body);
  }
  return costsMs;
}
