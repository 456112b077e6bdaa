import type { Duty } from "../../cluster.ts";

/** Every duty that there is. */
export const DUTIES: readonly Duty[] = [
  ...(["release", "reap", "orders", "sweep", "sample", "fold", "clock"] as const),
];

/** A duty as the database has it. */
export interface DutyRow {
  readonly name: Duty;
  readonly nodeSeq: number | null;
  /** The holder has it until then, unless it renews it. */
  readonly until: number;
}

/** The view of a node of the others when it decides which duties to hold. */
export interface DutyView {
  readonly duties: readonly DutyRow[];
  readonly self: number;
  readonly members: number;
  /** True at the first look after a node has joined. */
  readonly hasGrown: boolean;
  /** It gives its duties to others, if there are any. */
  readonly isResigning: boolean;
  readonly now: number;
  /** False for a while after the database's clock was set: then no duty of another is taken for free. */
  readonly isClockTrusted: boolean;
  /** How long a duty is left to those who have less than their share. */
  readonly patienceMs: number;
}

/** Which duties a node claims or renews, and which it gives back. */
export interface DutyPlan {
  readonly hold: readonly Duty[];
  readonly release: readonly Duty[];
}

/**
 * Spreads the duties evenly: a node takes what is free up to its share, and more of what nobody else has taken for some
 * time. It gives back what is more than its share when a node has joined, and only then: a node that is there and takes
 * none must not make duties go to and fro.
 */
export function planDuties(view: DutyView): DutyPlan {
  const { duties, self, members, now, patienceMs } = view;
  const own = duties.filter(({ nodeSeq }) => nodeSeq === self).map(({ name }) => name);
  if (view.isResigning && members > 1) return { hold: [], release: own };
  const share = Math.ceil(duties.length / Math.max(1, members));
  const kept = view.hasGrown ? own.slice(0, share) : own;
  const isFree = ({ nodeSeq, until }: DutyRow): boolean =>
    nodeSeq !== self && until < now && (nodeSeq === null || view.isClockTrusted);
  const free = duties.filter(isFree);
  const taken = free.slice(0, Math.max(0, share - kept.length));
  const leftOver = free.filter((duty) => !taken.includes(duty) && duty.until < now - patienceMs);
  return {
    hold: [...kept, ...[...taken, ...leftOver].map(({ name }) => name)],
    release: own.filter((name) => !kept.includes(name)),
  };
}
