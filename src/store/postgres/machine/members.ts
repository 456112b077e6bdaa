import type { BeatAnswer } from "./heartbeat.ts";

/** The nodes as a heartbeat's answer tells of them. */

/** Those among which work is divided, in the same order at each of them. Where all are leaving, all of them. */
export function membersOf({ nodes }: Pick<BeatAnswer, "nodes">): readonly string[] {
  const daemons = nodes.filter(({ isTool }) => !isTool);
  const staying = daemons.filter(({ isLeaving }) => !isLeaving);
  return (staying.length > 0 ? staying : daemons).map(({ seq }) => String(seq));
}

/** In what time the next of them will be taken for dead unless it is heard. */
export function nextExpiryMs({
  nodes,
  sample: { shown },
}: Pick<BeatAnswer, "nodes" | "sample">): number {
  const inMs = nodes.map(({ expiresAt }) => expiresAt - shown).filter((ms) => ms >= 0);
  // It has to be over by then.
  return Math.min(Infinity, ...inMs) + 20;
}

export function isSame(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((each, i) => each === b[i]);
}
