import type { Answer, Ask, Caller } from "../../kit/client.ts";
import { mainThreadMs } from "../../kit/processes.ts";

export interface Request {
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

/** The most that an operation may cost the main thread, with the worst input that the limits accept. */
export interface Case extends Request {
  /** The name in the API's document, or what runs without such an operation. */
  readonly operation: string;
  readonly worst: string;
  /** Milliseconds of the main thread's time. */
  readonly ms: number;
  /** The reason, if it is more than {@link UNEXPLAINED_MS_MAX}. */
  readonly why: string | null;
}

/** How long a request may delay the requests of others without an explanation. */
export const UNEXPLAINED_MS_MAX = 5;

type Bound = number | readonly [ms: number, why: string];

/** A row: `what` is the operation and, behind a colon, its worst request. */
export function row(what: string, bound: Bound, request: Request | Request["ask"]): Case {
  const [operation = "", worst = ""] = what.split(": ");
  const [ms, why] = typeof bound === "number" ? [bound, null] : bound;
  return { operation, worst, ms, why, ...("ask" in request ? request : { ask: request }) };
}

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
