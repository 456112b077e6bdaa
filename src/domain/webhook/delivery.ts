import { someOf } from "../rule.ts";

/** The webhook that a finished task sends: a POST with the task's envelope, or a GET of a prepared URL. */
export type DeliveryKind = (typeof DELIVERY_KINDS)[number];

export const DELIVERY_KINDS = ["postback", "pingback"] as const;

/**
 * A delivery's life:
 *
 *     scheduled → in_flight → delivered
 *         ↑           ├─────→ given_up    (all retries used)
 *         │           ├─────→ refused     (the name resolved to a refused address)
 *         └───────────┘                   (failed, timed out or interrupted)
 */
export type DeliveryState = (typeof DELIVERY_STATES)[number];

export const DELIVERY_STATES = [
  "scheduled",
  "in_flight",
  "delivered",
  "given_up",
  "refused",
] as const;

export type EndedDeliveryState = Exclude<DeliveryState, "scheduled" | "in_flight">;

/** Milliseconds spent in each phase of an attempt; null for a phase that did not happen. */
export interface AttemptPhases {
  readonly dnsMs: number | null;
  readonly connectMs: number | null;
  readonly tlsMs: number | null;
  readonly firstByteMs: number | null;
}

/** Why an attempt was refused: the name, the addresses that it resolved to, and the rule that refuses them. */
export interface Refusal {
  readonly host: string;
  readonly addresses: readonly string[];
  readonly rule: string;
}

export type AttemptOutcome = (typeof ATTEMPT_OUTCOMES)[number];

/** Searches count so many attempts of a delivery: a task may be sent again without limit. */
export const ATTEMPTS_COUNTED_MAX = 1000;

export const ATTEMPT_OUTCOMES = [
  "delivered",
  "failed",
  "timed_out",
  "refused",
  "interrupted",
] as const;

/**
 * Selects deliveries; null is any. `outcome` is that of the last ended attempt. `since` (inclusive) and `until`
 * (exclusive) bound the time when it ended, or the time when a delivery that was never tried is due.
 */
export interface DeliveryFilter {
  readonly login: string | null;
  readonly taskId: string | null;
  readonly kind: DeliveryKind | null;
  readonly host: string | null;
  readonly states: readonly DeliveryState[] | null;
  readonly outcome: AttemptOutcome | null;
  readonly since: number | null;
  readonly until: number | null;
}

/** The ends of a delivery that did not arrive: these are sent again unless more is asked for. */
export const UNDELIVERED_STATES: readonly EndedDeliveryState[] = ["given_up", "refused"];

/** True for a delivery that did not arrive, and is not retried. */
export function isUndelivered(
  state: EndedDeliveryState | "scheduled",
): state is Exclude<EndedDeliveryState, "delivered"> {
  return state === "given_up" || state === "refused";
}

/** Some of the states in which a delivery has ended. */
export const ENDED_STATES = someOf<EndedDeliveryState>([...UNDELIVERED_STATES, "delivered"]);

/** How one attempt ended. Fields that do not apply are null (contract §5 lists them). */
export interface AttemptResult {
  readonly outcome: AttemptOutcome;
  readonly httpStatus: number | null;
  /** One short sentence from a fixed vocabulary; never a URL's query, a key or a secret. */
  readonly error: string | null;
  /** The address that was dialled, without port. */
  readonly address: string | null;
  readonly phases: AttemptPhases;
  /** At most the first 4 KiB of the response body, as text. */
  readonly responseExcerpt: string | null;
  readonly refusal: Refusal | null;
  /** The receiver's `Retry-After`, as sent; it is recorded and changes nothing (contract §5). */
  readonly retryAfter: string | null;
}

/** An attempt as it is recorded: scheduled until it has started, in flight until it has ended. */
export interface Attempt extends Omit<AttemptResult, "outcome"> {
  readonly number: number;
  readonly dueAt: number;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  /** Null while the attempt is scheduled or in flight. */
  readonly outcome: AttemptOutcome | null;
}

/** A delivery as it is recorded, with its attempts in the order in which they were made. */
export interface Delivery {
  readonly kind: DeliveryKind;
  readonly url: string;
  readonly state: DeliveryState;
  readonly attempts: readonly Attempt[];
}

/**
 * A delivery as a store keeps it: `waiting` until its task has ended, `open` while an attempt is scheduled or in
 * flight.
 */
export type StoredDeliveryState = "waiting" | "open" | EndedDeliveryState;

/**
 * The state of a delivery that has begun: while it is open, its last attempt tells whether it waits or is being sent.
 */
export function shownDeliveryState(
  state: Exclude<StoredDeliveryState, "waiting">,
  last: Pick<Attempt, "startedAt"> | undefined,
): DeliveryState {
  if (state !== "open") return state;
  return last?.startedAt === null ? "scheduled" : "in_flight";
}

/**
 * Every series of attempts begins with this one. It is due at once: when the task ends, and when the delivery is sent
 * again.
 */
export const FIRST_ATTEMPT = { number: 1, retry: 0 } as const;

/**
 * True for a delivery that begins a fresh series when it is sent again. For an open one, the scheduled attempt becomes
 * due now, and an attempt in flight goes on. A delivery that waits for its task is sent when that has ended.
 */
export function beginsAnew(state: StoredDeliveryState): state is EndedDeliveryState {
  return state !== "waiting" && state !== "open";
}

/** The sequel of an attempt's outcome. `retry` counts the retries that are used once the next attempt starts. */
export type DeliveryDecision =
  | { readonly state: "delivered" | "given_up" | "refused" }
  | { readonly state: "scheduled"; readonly dueAt: number; readonly retry: number };

/**
 * Decides what follows an attempt that ended at `endedAt` after `retriesUsed` retries (contract §5). The waits count
 * from the failure. An interrupted attempt is sent again at once and uses up no retry.
 */
export function decideDelivery(
  outcome: AttemptOutcome,
  facts: {
    readonly endedAt: number;
    readonly retriesUsed: number;
    readonly retryAfterMs: readonly number[];
  },
): DeliveryDecision {
  switch (outcome) {
    case "delivered":
    case "refused":
      return { state: outcome };
    case "interrupted":
      return { state: "scheduled", dueAt: facts.endedAt, retry: facts.retriesUsed };
    case "failed":
    case "timed_out": {
      const waitMs = facts.retryAfterMs[facts.retriesUsed];
      if (waitMs === undefined) return { state: "given_up" };
      return { state: "scheduled", dueAt: facts.endedAt + waitMs, retry: facts.retriesUsed + 1 };
    }
  }
}
