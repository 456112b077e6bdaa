import { timeOrNull, timeText } from "../clock/time.ts";
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
 * Selects deliveries; null is any. `outcome` belongs to the last ended attempt. `since` (inclusive) and `until`
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

export const ENDED_STATES = someOf<EndedDeliveryState>([...UNDELIVERED_STATES, "delivered"]);

/** How one attempt ended. Fields that do not apply are null (webhooks.md lists them). */
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
  /** The receiver's `Retry-After`, as sent; it is recorded and changes nothing (webhooks.md). */
  readonly retryAfter: string | null;
}

/** The facts of an attempt that sent nothing, or of which nothing is known. */
export const NOTHING_HAPPENED: Omit<AttemptResult, "outcome"> = {
  httpStatus: null,
  error: null,
  address: null,
  phases: { dnsMs: null, connectMs: null, tlsMs: null, firstByteMs: null },
  responseExcerpt: null,
  refusal: null,
  retryAfter: null,
};

/** It may have reached the receiver, which may get it twice (webhooks.md). */
export const INTERRUPTED: AttemptResult = {
  ...NOTHING_HAPPENED,
  outcome: "interrupted",
  error: "the daemon stopped during the attempt",
};

/** An attempt as it is recorded: scheduled until it has started, in flight until it has ended. */
export interface Attempt extends Omit<AttemptResult, "outcome"> {
  readonly number: number;
  readonly dueAt: number;
  /** When it was claimed, which is before its first packet; null while it is scheduled. */
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

/** The state of a begun delivery. While it is open, its last attempt decides whether it waits or is being sent. */
export function shownDeliveryState(
  state: "open" | EndedDeliveryState,
  last: Pick<Attempt, "startedAt"> | undefined,
): DeliveryState {
  if (state !== "open") return state;
  return last?.startedAt === null ? "scheduled" : "in_flight";
}

/** The first attempt of each series, due immediately when the task ends or the delivery is sent again. */
export const FIRST_ATTEMPT = { number: 1, retry: 0 } as const;

/** The sequel of an attempt's outcome. `retry` counts the retries that are used once the next attempt starts. */
export type DeliveryDecision =
  | { readonly state: "delivered" | "given_up" | "refused" }
  | { readonly state: "scheduled"; readonly dueAt: number; readonly retry: number };

/**
 * Decides what follows an attempt that ended at `endedAt` after `retriesUsed` retries (webhooks.md). The waits count
 * from the failure. An interrupted attempt is sent again immediately and uses up no retry.
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

/** A task's delivery as JSON shows it (http-api.md, `deliveries`). */
export function deliveryDocument(taskId: string, { kind, url, state, attempts }: Delivery) {
  const next = attempts.at(-1);
  const isScheduled = next !== undefined && next.startedAt === null;
  return {
    delivery_id: `${taskId}-${kind}`,
    kind,
    url,
    state,
    next_attempt_at: isScheduled ? timeText(next.dueAt) : null,
    attempts: attempts.map(attemptDocument),
  };
}

/** An attempt as JSON shows it; fields that do not apply are null. */
export function attemptDocument(attempt: Attempt) {
  const { number, outcome, error, address, phases, refusal } = attempt;
  return {
    number,
    due_at: timeText(attempt.dueAt),
    started_at: timeOrNull(attempt.startedAt),
    ended_at: timeOrNull(attempt.endedAt),
    outcome,
    http_status: attempt.httpStatus,
    error,
    address,
    phases: {
      dns_ms: phases.dnsMs,
      connect_ms: phases.connectMs,
      tls_ms: phases.tlsMs,
      first_byte_ms: phases.firstByteMs,
    },
    response_excerpt: attempt.responseExcerpt,
    refusal,
  };
}

// The most bytes that a claim may bring into memory: 512 results of 4 MiB ended the process.
const CLAIM_BYTES_MAX = 32 * 1024 * 1024;
// The most of that for one account, except its first attempt: others are claimed beside it.
const ACCOUNT_BYTES_MAX = 8 * 1024 * 1024;

/** A claim of attempts in the making: what it has started so far. */
export class StartedAttempts {
  /** The `seq` of each, in their order. */
  readonly started: number[] = [];
  readonly #bytesOf = new Map<number, number>();
  #bytes = 0;

  /**
   * Adds an attempt, if the claim may start one more by the bytes that are sent with it. One attempt is always started,
   * and one of each account while there is room, however large: it would never be sent otherwise.
   */
  start(attempt: {
    readonly seq: number;
    readonly accountId: number;
    readonly bytes: number;
  }): boolean {
    const { seq, accountId, bytes } = attempt;
    if (this.started.length > 0 && this.#bytes + bytes > CLAIM_BYTES_MAX) return false;
    const ofAccount = this.#bytesOf.get(accountId) ?? 0;
    if (ofAccount > 0 && ofAccount + bytes > ACCOUNT_BYTES_MAX) return false;
    this.#bytes += bytes;
    this.#bytesOf.set(accountId, ofAccount + bytes);
    this.started.push(seq);
    return true;
  }
}

/** The nodes that share the work, as one of them sees them. */
export interface NodeView {
  readonly self: string;
  /** All of them, each once. */
  readonly members: readonly string[];
}

export const ALONE: NodeView = { self: "", members: [""] };

/**
 * How many of `max` attempts to a host this node may have under way. If all nodes see the same members, the shares add
 * up to `max`. Each node gets an equal part. The rest goes, one by one, to the nodes that rank highest for this host
 * (rendezvous hashing), so that each node gets about as many hosts with a limit of 1. A share of 0 leaves the host to
 * the others.
 */
export function shareOfHost(max: number, host: string, { self, members }: NodeView): number {
  const rest = max % members.length;
  const part = (max - rest) / members.length;
  return rest > 0 && rankOf(self, host, members) < rest ? part + 1 : part;
}

/** How many of `max` attempts to all hosts this node may have under way: rounded up, so that it is never none. */
export function shareOfAll(max: number, { members }: Pick<NodeView, "members">): number {
  return Math.ceil(max / members.length);
}

function rankOf(self: string, host: string, members: readonly string[]): number {
  const own = weightOf(self, host);
  return members.filter((each) => {
    const weight = weightOf(each, host);
    return weight > own || (weight === own && each > self);
  }).length;
}

const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

/** FNV-1a over both names, and murmur3's last step: without it names that differ in their last letter rank alike. */
function weightOf(node: string, host: string): number {
  let hash = FNV_OFFSET;
  const text = `${host} ${node}`;
  for (let i = 0; i < text.length; i++) {
    hash = Math.imul(hash ^ text.charCodeAt(i), FNV_PRIME);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** A job works along the attempts that existed when it was given; attempts that ended later are not part of it. */

// Every other write waits for a step. Measured with a million attempts in a file: a step that looks at so many and
// finds nothing takes 2 ms, one that begins so many series 2 ms, and the longest of 3,400 took 6.5 ms.
export const STEP_EXAMINED_MAX = 2000;
const STEP_STARTED_MAX = 100;

/** The owner of an order is in its filter: a list of an account's orders looks at so many, in 1 ms (measured). */
export const ORDERS_LISTED_MAX = 5000;

/** How many series a step may begin when so many are wanted. */
export function stepSize(wanted: number): number {
  return Math.max(0, Math.min(wanted, STEP_STARTED_MAX));
}

/** The attempts that a step found, in their order: `max` at most, and none after `to`. */
export interface StepFindings {
  readonly found: readonly { readonly seq: number }[];
  readonly max: number;
  readonly to: number;
}

/** The last attempt that a step is done with. When the step is full, more attempts may follow the last one found. */
export function examinedBy({ found, max, to }: StepFindings): number {
  const last = found.length < max ? undefined : found.at(-1);
  return last?.seq ?? to;
}

export function isWorkedOff(order: {
  readonly examined: number;
  readonly lastAttempt: number;
}): boolean {
  return order.examined >= order.lastAttempt;
}

/** True if a filter selects a whole task or one of its webhooks: then scheduled attempts become due too. */
export function hastensScheduled(filter: DeliveryFilter): boolean {
  const { taskId, host, states, outcome, since, until } = filter;
  return taskId !== null && [host, states, outcome, since, until].every((each) => each === null);
}
