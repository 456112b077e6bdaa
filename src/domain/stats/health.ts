import { MINUTE_MS } from "../clock/duration.ts";

export type StatusWord = (typeof STATUS_WORDS)[number];

export const STATUS_WORDS = ["operational", "degraded", "down"] as const;

/** The response of GET /v1/appendix/status: words only, so that clients cannot count an operator's customers. */
export interface ServiceStatus {
  /** The worst of the components. */
  readonly status: StatusWord;
  readonly components: {
    readonly api: StatusWord;
    readonly runners: StatusWord;
    readonly webhooks: StatusWord;
  };
}

/** The facts that the status is decided from. Counts cover the last {@link STATUS_WINDOW_MS}. */
export interface ServiceFacts {
  readonly isServing: boolean;
  readonly hasRoom: boolean;
  readonly isWorking: boolean;
  /** How long the longest-waiting task that could be run has waited; 0 when none waits. */
  readonly queueAgeMs: number;
  readonly runs: FailureCount;
  /** Receivers that were tried, and how many of them had no success: one broken receiver is not an outage. */
  readonly receivers: FailureCount;
}

export interface FailureCount {
  readonly all: number;
  readonly failed: number;
}

export const STATUS_WINDOW_MS = 5 * MINUTE_MS;

// Work takes seconds to minutes, so a queue of minutes is normal.
const QUEUE_AGE_MS_MAX = 15 * MINUTE_MS;
// With fewer runs, a failure or two would count as an outage.
const RUNS_MIN = 20;
const RECEIVERS_MIN = 5;

export function decideServiceStatus(facts: ServiceFacts): ServiceStatus {
  const components = {
    api: apiStatus(facts),
    runners: worst(
      facts.isWorking ? rateStatus(facts.runs, RUNS_MIN) : "down",
      facts.queueAgeMs > QUEUE_AGE_MS_MAX ? "degraded" : "operational",
    ),
    webhooks: facts.isWorking ? rateStatus(facts.receivers, RECEIVERS_MIN) : "down",
  };
  return { status: worst(...Object.values(components)), components };
}

function apiStatus({ isServing, hasRoom }: ServiceFacts): StatusWord {
  if (!isServing) return "down";
  return hasRoom ? "operational" : "degraded";
}

function rateStatus({ all, failed }: FailureCount, min: number): StatusWord {
  if (all < min || failed * 2 < all) return "operational";
  return failed === all ? "down" : "degraded";
}

function worst(...words: readonly StatusWord[]): StatusWord {
  if (words.includes("down")) return "down";
  return words.includes("degraded") ? "degraded" : "operational";
}

/** How a database server is that nodes share, as far as they may see it. */
export interface DatabaseHealth {
  /** Of the server, as `15.14`. */
  readonly version: string;
  readonly bytes: number;
  /** The sessions of all clients of the server, and how many it takes. */
  readonly connections: { readonly used: number; readonly max: number };
  /** Null while nothing is retained. */
  readonly oldestSnapshot: HeldSnapshot | null;
  readonly standbys: readonly Standby[];
  /** True when a commit is acknowledged only once a standby has it, too. */
  readonly commitsWait: boolean;
  /** Old versions of rows that have not been cleaned up, in the two tables whose rows come and go. */
  readonly deadRows: { readonly queue: number; readonly outbox: number };
}

/** The snapshot that keeps the server from cleaning up what changed since: claims have to step over it. */
export interface HeldSnapshot {
  readonly holder: SnapshotHolder;
  /** The name of the session's application, of the slot, or of the prepared transaction. */
  readonly name: string;
  /** The process of a session, or of the user of the slot; null without one. */
  readonly pid: number | null;
  /** At least so long; null while that is not known. */
  readonly ageMs: number | null;
  /** How many transactions have begun since. */
  readonly transactions: number;
}

export const SNAPSHOT_HOLDERS = ["session", "slot", "prepared transaction"] as const;
export type SnapshotHolder = (typeof SNAPSHOT_HOLDERS)[number];

/** A server that follows; what this user may not see is null. */
export interface Standby {
  readonly name: string;
  /** In the server's word, such as `streaming`. */
  readonly state: string | null;
  /** In the server's word: `async`, `potential`, `sync`, `quorum`. */
  readonly syncState: string | null;
  /** The WAL that it has not replayed, in bytes. */
  readonly lagBytes: number | null;
  /** How long it took it lately to replay; null also where there is nothing to replay. */
  readonly lagMs: number | null;
}

export interface DatabaseWarning {
  /** Always the same words for the same state, without anything confidential. */
  readonly text: string;
  /** The session and the amount, for the log. */
  readonly facts: Readonly<Record<string, unknown>>;
}

// Reads of the nodes end after 5 s, so an older one belongs to another program. After 6 s at 5,000 tasks a second a
// claim took 7.9 ms instead of 1.7 (measured).
const SNAPSHOT_MS_MAX = MINUTE_MS;

/** Why every write waits in vain for a standby; null where one answers, or may. */
export function missingStandby({
  standbys,
  commitsWait,
}: Pick<DatabaseHealth, "standbys" | "commitsWait">): DatabaseWarning | null {
  const mayAnswer = ({ syncState }: Standby): boolean =>
    syncState === null || syncState === "sync" || syncState === "quorum";
  if (!commitsWait || standbys.some(mayAnswer)) return null;
  const text =
    "no write is acknowledged: PostgreSQL waits for a standby of synchronous_standby_names, and none is connected. Start such a standby, or name another one";
  return { text, facts: { standbys: standbys.map(({ name }) => name) } };
}

export function databaseWarnings(health: DatabaseHealth): readonly DatabaseWarning[] {
  const { oldestSnapshot, standbys, commitsWait } = health;
  const missing = missingStandby(health);
  const warnings: DatabaseWarning[] = missing === null ? [] : [missing];
  if (oldestSnapshot !== null && (oldestSnapshot.ageMs ?? 0) > SNAPSHOT_MS_MAX) {
    const text =
      "a transaction or a replication slot has kept the database from cleaning up for over a minute: claims get slower " +
      "until it ends";
    warnings.push({ text, facts: { ...oldestSnapshot } });
  }
  // A server without standbys cannot fail over.
  if (!commitsWait && standbys.length > 0) {
    const text = "no commit waits for a standby: a failover loses the last acknowledged tasks";
    warnings.push({ text, facts: { standbys: standbys.map(({ name }) => name) } });
  }
  return warnings;
}
