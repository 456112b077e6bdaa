// Keeps the timers for the daemon, whose bundle is loaded later: a test may have replaced them by then.
import "./domain/clock/timers.ts";

const NODE_MIN = 24;

/** Says that `what` needs a newer Node than this one; null where it does not. Older ones would crash in SQLite's addon. */
export function nodeProblem(what: string): string | null {
  // No runtime is assumed, whichever types are declared.
  const { process: found }: { readonly process?: Partial<NodeJS.Process> } = globalThis;
  const version = found?.versions?.node ?? "none";
  if (Number.parseInt(version, 10) >= NODE_MIN) return null;
  return `${what} needs Node ${NODE_MIN} or newer, and here it is ${version}`;
}
