import type { AuditAction, AuditEntry } from "../domain/audit/audit-entry.ts";
import type { ClockReading, Resumption } from "../domain/clock/service-clock.ts";
import type { DeliveryKind } from "../domain/webhook/delivery.ts";
import type { StoreError } from "./store-error.ts";

/** Maintains the store, and reports its condition. */
export interface UpkeepStore {
  /**
   * Keeps `fresh` under a name that has no secret yet. Returns the stored secret that seals cursors; all daemons of the
   * database use it. Two are not secret: what serves the file, and the id of the installation.
   */
  keepSecret(secret: { name: "cursors" | "mode" | "installation"; fresh: string }): Promise<string>;
  /**
   * Looks at up to `max` tasks whose retention is over, `now` by the steady clock; at fewer when they are large, so
   * that nothing else waits for long. Erases them with everything that belongs to them. A task with a webhook still to
   * be sent is kept, and looked at again after an hour. Returns the number of examined tasks, 0 if no task is left, and
   * the ids of the erased tasks in the order of their due times.
   */
  eraseExpired(due: { now: number; max: number }): Promise<ExpiredErased>;
  /**
   * Erases, as {@link eraseExpired} does, up to `max` each of kept answers, access requests, revoked keys, ended redelivery
   * orders, sessions, entries of the audit and traffic from before their times.
   */
  eraseStale(due: StaleBefore & { max: number }): Promise<number>;
  /** How many bytes of the file are data: the space that erased tasks left does not count. */
  usedBytes(): Promise<number>;
  /** Gives a bounded part of the space that erased tasks left back to the file system. */
  reclaimSpace(): Promise<"more" | "done">;
  /** Why the last write found no room (kind `full`); null once a write has found some. */
  shortage(): StoreError | null;
  /** Makes a write that changes nothing. Rejects with a StoreError if the disk is full. */
  tryWrite(): Promise<void>;
  /** Checks that the file is still in its place and still the same. If not, that is its fault from now on. */
  lookAtFile(): void;
  /** Looks for damage in the next part of the file, beside everything else. Any damage is its fault from now on. */
  checkFile(): Promise<"more" | "done">;
  /** The reason why the store cannot write any more; null while it can. */
  fault(): StoreError | null;
  /** Finishes what was asked for before, then closes the file. Safe to call twice. */
  close(): Promise<void>;
}

export interface ExpiredErased {
  readonly looked: number;
  readonly erased: readonly string[];
}

export interface StaleBefore {
  /** Kept answers that were to be kept until before this time of the steady clock. */
  readonly answersBefore: number;
  /** Access requests that were decided, keys that were revoked, and redelivery orders that ended, before this time. */
  readonly decidedBefore: number;
  /** Access requests that wait and were made before this time. */
  readonly pendingBefore: number;
  /** Sessions from before this time of the steady clock. */
  readonly sessionsBefore: number;
  /** Sign-in links that expired before this time. */
  readonly linksBefore: number;
  /** Entries of the audit from before this time. */
  readonly auditBefore: number;
  /** Traffic, and failures of hosts, from before this time. */
  readonly trafficBefore: number;
  /** Requests, keys, orders and traffic from after this time: a clock that was ahead has left them in the future. */
  readonly recordsAfter: number;
}

/** The clock as it is found at a start. */
export interface ClockResumption extends Omit<Resumption, "steadyAt"> {
  readonly reading: ClockReading;
}

export interface ClockStore {
  /** Finds what the clocks showed when they were last kept; null in a new file. */
  findClockReading(): Promise<ClockReading | null>;
  keepClockReading(reading: ClockReading): Promise<void>;
  /**
   * Resumes after a start. Moves scheduled times, as {@link shiftTimes} does, by the amount that the clock was set
   * since the last reading. Ends all sessions and sign-in links if the elapsed time is unknown. Stores the new reading.
   * Returns the number of moved attempts.
   */
  resumeClock(start: ClockResumption): Promise<number>;
  /**
   * Moves these by `by` milliseconds: every attempt that is scheduled for after `after`, the next runs of failed tasks,
   * all leases that are held, and sign-in links. The wall clock was set, and their times were meant as durations.
   * Returns the number of moved attempts.
   */
  shiftTimes(shift: { after: number; by: number }): Promise<number>;
  /**
   * Makes first attempts that are scheduled for later than `now` due at `now`, and retries that are scheduled for later
   * than `latest` due at `latest`: no correct clock can have scheduled them so. Returns their number.
   */
  hastenAttempts(bounds: { now: number; latest: number }): Promise<number>;
}

export type { Actor, AuditAction, AuditEntry } from "../domain/audit/audit-entry.ts";

/** Remembers who did what of consequence: nothing changes an entry, and the oldest are erased first. */
export interface AuditStore {
  /** Adds an entry about an action that is not a write of the store. Writes take theirs with them: {@link Audited}. */
  noteAudit(entry: AuditEntry): Promise<void>;
  /** Lists entries, newest first. */
  listAudit(query: AuditQuery): Promise<readonly ListedAuditEntry[]>;
}

/** A write that records who did it, in its own transaction, if it takes effect. */
export interface Audited {
  readonly audit?: AuditEntry;
}

export interface AuditQuery {
  readonly since: number | null;
  readonly action: AuditAction | null;
  readonly limit: number;
  /** The `seq` of the last entry of the page before. */
  readonly before: number | null;
}

export interface ListedAuditEntry extends AuditEntry {
  readonly seq: number;
}

/** Something that happens by itself when its time has come. */
export interface DueItem {
  /** By the wall clock. */
  readonly at: number;
  readonly what:
    | "attempt"
    | "attempt_timeout"
    | "inbox_answer"
    | "task_start"
    | "run_end"
    | "run_timeout"
    | "lease_end"
    | "erasure";
  /** Null for the response to a message without a task. */
  readonly taskId: string | null;
  /** Of the webhook; null for what is about none. */
  readonly kind: DeliveryKind | null;
}

/** Lists what waits in a file for its time. It may read all that waits: it is for development. */
export interface DueList {
  /** Up to `max` items after `now`, the earliest first. `steady` is the same moment by the steady clock. */
  list(query: {
    readonly now: number;
    readonly steady: number;
    readonly max: number;
  }): readonly DueItem[];
  /** True while a task waits to be started that could be. */
  isQueued(): boolean;
  close(): void;
}
