/** The outcome of a lease in an answer. */
export type Outcome = "ok" | "lost" | "cancelled";

/** The requests of a worker for a lease. */
export type AskKind = "heartbeat" | "complete" | "fail" | "release";

/** One lease of a request. */
export interface AskItem {
  readonly id: string;
  readonly leaseId: string;
  /** Of a completion: the result, as JSON text. */
  readonly result?: string;
  /** Of a failure. */
  readonly message?: string;
  readonly retry?: boolean;
}

/** A task that was handed out. */
export interface ClaimedTask {
  readonly id: string;
  readonly type: string;
  readonly leaseId: string;
  /** Epoch milliseconds. */
  readonly expiresAt: number;
}

interface At {
  /** Of the request, in its process. */
  readonly number: number;
  /** Epoch milliseconds. */
  readonly at: number;
}

/**
 * The actions of a worker process, reported before it acts, and their outcomes, reported at once: a killed process
 * has reported every request that can have reached the daemon.
 */
export type WorkerEvent =
  | (At & { readonly kind: "claiming"; readonly types: readonly string[] })
  | (At & { readonly kind: "claimed"; readonly tasks: readonly ClaimedTask[] })
  /** The connection broke: whether the daemon handed tasks out is not known. */
  | (At & { readonly kind: "unclaimed" })
  | (At & { readonly kind: "asking"; readonly what: AskKind; readonly items: readonly AskItem[] })
  | (At & { readonly kind: "answered"; readonly outcomes: readonly Outcome[] })
  /** The daemon answered in a way that it never must. */
  | { readonly kind: "fault"; readonly text: string }
  /** A request that is no request was refused, as it must be. */
  | { readonly kind: "refused" };

/** What a worker process is to do now; the first order starts it, and only the last two change. */
export interface WorkerOrder {
  readonly seed: number;
  readonly token: string;
  readonly types: readonly string[];
  /** Claims under way at once. */
  readonly loops: number;
  /** The daemon's present URL. */
  readonly url: string;
  /** From now on every task is completed at once. */
  readonly isHonest: boolean;
}
