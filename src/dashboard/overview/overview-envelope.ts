import type { WorkCounts } from "../shell/envelope.ts";

/** What the overview reads of the API. Times are RFC 3339. */

// GET /v1/stats/overview

export interface Overview {
  readonly tasks: WorkCounts;
  readonly day: {
    readonly posted: number;
    readonly completed: number;
    readonly failed: number;
    readonly delivered: number;
    readonly given_up: number;
    readonly refused: number;
    readonly first_attempts: number;
    readonly first_delivered: number;
    readonly success: number | null;
  };
  readonly oldest_waiting_ms: number | null;
  readonly attention: readonly Attention[];
  readonly setup: Setup;
  readonly time: string;
}

export interface Attention {
  readonly level: "problem" | "warning";
  readonly what: string;
  readonly text: string;
  readonly link: string | null;
}

export interface Setup {
  readonly has_account: boolean;
  readonly has_posted: boolean;
  readonly has_completed: boolean;
  readonly has_webhook: boolean;
  readonly has_delivered: boolean;
  readonly has_collected: boolean;
  /** The types that a task may name, those that give back their input first. */
  readonly types: readonly string[];
}

// GET /v1/stats/series

export interface Series {
  readonly from: string;
  readonly to: string;
  readonly step_ms: number;
  readonly limit_ms: number;
  readonly buckets: readonly Bucket[];
}

export interface Bucket {
  readonly at: string;
  readonly is_whole: boolean;
  readonly posted: number;
  readonly completed: number;
  readonly failed: number;
  readonly cancelled: number;
  readonly first_attempts: number;
  readonly first_delivered: number;
  readonly delivered: number;
  readonly given_up: number;
  readonly refused: number;
  readonly attempts: number;
  readonly p50_ms: number | null;
  readonly p95_ms: number | null;
  readonly p99_ms: number | null;
  readonly queued: number;
  readonly oldest_ms: number;
}
