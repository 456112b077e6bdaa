import {
  type RateMoment,
  type RateRule,
  type RateVerdict,
  type RateWindow,
  countEvents,
} from "../../domain/account/quota.ts";
import type { Clock } from "../../domain/clock/clock.ts";
import { StatusError, type ResponseHeaders } from "../../domain/status.ts";

export interface RateLimiterOptions extends RateRule {
  readonly clock: Pick<Clock, "monotonic">;
  /** How many nodes share the limit, 1 unless given; each allows its part, so together they allow about the limit. */
  readonly nodes?: () => number;
  /** How many keys are remembered at once, 10,000 unless given. */
  readonly entriesMax?: number;
}

const ENTRIES_MAX = 10_000;

/** A limit as clients are told of it. */
export interface RatePolicy {
  /** Consists of letters, digits and `-`. */
  readonly name: string;
  /** Why so many events are too many now. */
  readonly detail: (verdict: RateVerdict, events: number) => string;
}

/** How events are counted: one event, and everybody's limit unless given; a limit is that of all nodes together. */
interface Counted {
  readonly limit?: number;
  readonly events?: number;
  /** Called when they are too many. */
  readonly refused?: () => void;
}

/**
 * Counts events by key in windows of a fixed length, each from its key's first event on. Memory is bounded: one key
 * too many displaces the key whose window began first, which is also the first to end. If it has not ended yet, that
 * key begins anew. So a client that sends from more than `entriesMax` addresses at once is not held back; everybody
 * else still is.
 *
 * Where nodes share a limit each allows its part of it, rounded up: a shared count would cost a write for each request.
 * So a client that stays with one node is allowed less than the limit, and one that asks all of them a little more.
 */
export class RateLimiter {
  /** Of all nodes together; 0: everything is allowed and nothing is remembered. */
  readonly limit: number;
  readonly #rule: RateRule;
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #nodes: () => number;
  readonly #entriesMax: number;
  // In the order in which they began, which is also the order in which they end.
  readonly #windows = new Map<string, RateWindow>();

  constructor(options: RateLimiterOptions) {
    const { limit, windowMs, clock, nodes = () => 1, entriesMax = ENTRIES_MAX } = options;
    this.limit = limit;
    this.#nodes = nodes;
    this.#rule = { limit, windowMs };
    this.#clock = clock;
    this.#entriesMax = entriesMax;
  }

  /** Counts as {@link count}, and returns the headers about the limit. Throws 42900 where the events are too many. */
  admit(key: string, { name, detail }: RatePolicy, counted: Counted = {}): ResponseHeaders {
    const verdict = this.count(key, counted);
    const headers = rateLimitHeaders(name, verdict);
    if (verdict.isAllowed) return headers;
    counted.refused?.();
    const reason = detail(verdict, counted.events ?? 1);
    throw tooManyRequests(verdict.resetSeconds, { detail: reason, headers });
  }

  /** Counts events of this key against its present limit. A refused event does not count. */
  count(key: string, { limit = this.limit, events = 1 }: Counted = {}): RateVerdict {
    // Events that come at once and are within the limit must not be refused for ever, however many nodes there are.
    const part = Math.max(Math.ceil(limit / this.#nodes()), Math.min(limit, events));
    const rule = { ...this.#rule, limit: part };
    const moment: RateMoment = { now: this.#clock.monotonic(), rule };
    const known = this.#windows.get(key) ?? null;
    const { window, verdict } = countEvents(known, moment, events);
    if (limit === 0) return verdict;
    if (known === null) this.#makeRoom();
    else if (known.startedAt !== window.startedAt) this.#windows.delete(key);
    this.#windows.set(key, window);
    return verdict;
  }

  #makeRoom(): void {
    if (this.#windows.size < this.#entriesMax) return;
    const [oldest] = this.#windows.keys();
    if (oldest !== undefined) this.#windows.delete(oldest);
  }
}

/**
 * The headers that inform a client of a limit (draft-ietf-httpapi-ratelimit-headers-10): its policy and the rest of
 * it. Empty where there is no limit. `policyName` consists of letters, digits and `-`.
 */
export function rateLimitHeaders(policyName: string, verdict: RateVerdict): ResponseHeaders {
  const { limit, windowSeconds, remaining, resetSeconds } = verdict;
  if (limit === 0) return {};
  return {
    "ratelimit-policy": `"${policyName}";q=${limit};w=${windowSeconds}`,
    ratelimit: `"${policyName}";r=${remaining};t=${resetSeconds}`,
  };
}

/** 42900, with the time after which it is worth another try. */
export function tooManyRequests(
  resetSeconds: number,
  { detail, headers }: { readonly detail: string; readonly headers?: ResponseHeaders },
): StatusError {
  const retry = { ...headers, "retry-after": String(resetSeconds) };
  return new StatusError(42900, { detail, headers: retry });
}
