import {
  type PostQuota,
  type QuotaExcess,
  type RateRule,
  type RateVerdict,
  type RateWindow,
  countEvents,
  excessOf,
} from "../../domain/account/quota.ts";
import type { Clock, Timer } from "../../domain/clock/clock.ts";
import { MINUTE_MS } from "../../domain/clock/duration.ts";
import type { Logger } from "../../domain/log.ts";
import { type ResponseHeaders, type StatusCode, StatusError } from "../../domain/status.ts";
import type { OperationDeps } from "../operation-deps.ts";
import type { AccountRef } from "../operation.ts";
import { RATE_KEYS_MAX, REFUSALS_PER_MINUTE, LOGGED_ADDRESSES_MAX } from "./limits.ts";

interface RateLimiterOptions extends RateRule {
  readonly clock: Pick<Clock, "monotonic">;
  /** How many nodes share the limit, 1 unless given. Each node allows its part. */
  readonly nodes?: () => number;
  /** {@link RATE_KEYS_MAX} unless given. */
  readonly entriesMax?: number;
}

/** A limit as responses show it. */
export interface RatePolicy {
  /** Consists of letters, digits and `-`. */
  readonly name: string;
  /** Why so many events are too many now. */
  readonly detail: (verdict: RateVerdict, events: number) => string;
}

/** How events are counted: one event and the default limit unless given; a limit holds for all nodes together. */
interface Counted {
  readonly limit?: number;
  readonly events?: number;
  /** Called when they are too many. */
  readonly refused?: () => void;
}

/**
 * Counts events by key in windows of a fixed length, each from its key's first event on. Memory is bounded: one key too
 * many displaces the key whose window began first, which is also the first to end. If its window has not ended yet, the
 * window of that key restarts. So a client with more than `entriesMax` concurrent addresses is not limited; every other
 * client still is.
 *
 * In a cluster each node allows its part of the limit, rounded up: a shared count would cost a write for each request.
 * So a client that stays with one node is allowed less than the limit, and one that asks all of them a little more.
 */
export class RateLimiter {
  readonly #options: Required<RateLimiterOptions>;
  // In the order in which they began, which is also the order in which they end.
  readonly #windows = new Map<string, RateWindow>();

  constructor(options: RateLimiterOptions) {
    this.#options = { nodes: () => 1, entriesMax: RATE_KEYS_MAX, ...options };
  }

  /** Of all nodes together; with 0 everything is allowed and nothing is remembered. */
  get limit(): number {
    return this.#options.limit;
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
    const { windowMs, clock, nodes, entriesMax } = this.#options;
    // Events that come together and are within the limit must not be refused for ever, however many nodes there are.
    const part = Math.max(Math.ceil(limit / nodes()), Math.min(limit, events));
    const moment = { now: clock.monotonic(), rule: { limit: part, windowMs } };
    const known = this.#windows.get(key) ?? null;
    const { window, verdict } = countEvents(known, moment, events);
    if (limit === 0) return verdict;
    if (known === null && this.#windows.size >= entriesMax) {
      const [oldest = ""] = this.#windows.keys();
      this.#windows.delete(oldest);
    } else if (known !== null && known.startedAt !== window.startedAt) this.#windows.delete(key);
    this.#windows.set(key, window);
    return verdict;
  }
}

/**
 * The headers that inform a client of a limit (draft-ietf-httpapi-ratelimit-headers-10): its policy and the rest of it.
 * Empty without a limit. `policyName` consists of letters, digits and `-`.
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

interface RefusedCredentialsDeps {
  readonly clock: Clock;
  readonly log: Pick<Logger, "info">;
  /** The limit of failed authentications, by client address. */
  readonly limiter: RateLimiter;
}

/** Counts refused credentials, and logs one line with their number for each address and minute. */
export class RefusedCredentials {
  readonly #deps: RefusedCredentialsDeps;
  readonly #counts = new Map<string, number>();
  #others = 0;
  #timer: Timer | null = null;

  constructor(deps: RefusedCredentialsDeps) {
    this.#deps = deps;
  }

  /**
   * Notes that credentials of an address are refused with that code. Throws 42900 instead if the address has failed too
   * often. Only 40100 counts: a known key always gets its 40101 or 40102 (http-api.md).
   */
  refuse(code: StatusCode, address: string): void {
    const known = this.#counts.get(address);
    if (known === undefined && this.#counts.size >= LOGGED_ADDRESSES_MAX) this.#others++;
    else this.#counts.set(address, (known ?? 0) + 1);
    this.#timer ??= this.#deps.clock.setTimer(MINUTE_MS, () => this.write());
    if (code !== 40100) return;
    const verdict = this.#deps.limiter.count(address);
    if (verdict.isAllowed) return;
    const detail = "This address sent too many invalid credentials.";
    throw tooManyRequests(verdict.resetSeconds, { detail });
  }

  /** Logs what was noted since the last time. */
  write(): void {
    this.#timer?.cancel();
    this.#timer = null;
    const { log } = this.#deps;
    for (const [address, refused] of this.#counts) {
      log.info({ address, refused }, "credentials were refused");
    }
    if (this.#others > 0) {
      log.info({ refused: this.#others }, "credentials from further addresses were refused");
    }
    this.#counts.clear();
    this.#others = 0;
  }
}

/** Finds the accounts that go on however often they are refused for their limits. */
export class FloodWatch {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #refusals: RateLimiter;
  /** By login: when it was beyond that rate last. */
  readonly #beyondAt = new Map<string, number>();

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
    this.#refusals = new RateLimiter({ limit: REFUSALS_PER_MINUTE, windowMs: MINUTE_MS, clock });
  }

  /** Notes that a request of this account is refused for a limit of the account. */
  note(login: string): void {
    if (this.#refusals.count(login).isAllowed) return;
    this.#beyondAt.set(login, this.#clock.monotonic());
  }

  /** The logins of the accounts that were refused so often lately. */
  accounts(): readonly string[] {
    const now = this.#clock.monotonic();
    for (const [login, beyondAt] of this.#beyondAt) {
      if (now - beyondAt > MINUTE_MS) this.#beyondAt.delete(login);
    }
    return [...this.#beyondAt.keys()];
  }
}

/** The limits of an account that its posts, and webhooks that it sends again, may not exceed. */

const TASKS: RatePolicy = {
  name: "tasks",
  detail: ({ limit, remaining }, tasks) =>
    `This account may post ${limit} tasks per minute; ${remaining} are left, and this post has ${tasks}.`,
};

/** Counts the tasks of a post; throws 42900 when they are too many for this minute. */
export function countPosted(
  { accountId, login, limits: { tasksPerMinute: limit } }: AccountRef,
  events: number,
  { postedTasks, floods }: OperationDeps,
): ResponseHeaders {
  if (limit === 0) return {};
  const refused = (): void => floods.note(login);
  return postedTasks.admit(String(accountId), TASKS, { limit, events, refused });
}

/** The limits within which the store must keep this account's posts. */
export function quotaOf({ limits }: AccountRef, { shareBytes }: OperationDeps): PostQuota {
  return { bytes: limits.bytes, openTasks: limits.openTasks, shareBytes: shareBytes() };
}

// In seconds. Bytes are freed days after tasks have finished; tasks finish all the time.
const RETRY_AFTER = { bytes: "3600", shareBytes: "3600", openTasks: "10" };

/**
 * Throws 50700 for an account that has as many bytes as it may have: each attempt to send a webhook again would add to
 * them.
 */
export async function refuseBeyondBytes(holder: AccountRef, deps: OperationDeps): Promise<void> {
  // The share is as of the last look at the room.
  await deps.shortage();
  const { bytes } = await deps.store.countWork(holder.accountId);
  const used = { bytes, openTasks: 0 };
  const excess = excessOf({ bytes: 1, openTasks: 0 }, { used, quota: quotaOf(holder, deps) });
  if (excess !== null) {
    const { retentionDays, floods } = deps;
    throw overQuota(excess, holder, { retentionDays, floods, adds: "each attempt adds some" });
  }
}

/** 42900 or 50700, for the account that would have exceeded its quota; it is noted. `adds` says what would have. */
export function overQuota(
  { quota, limit, used, asked }: QuotaExcess,
  { login }: AccountRef,
  {
    retentionDays,
    floods,
    adds = `this post adds ${asked}`,
  }: Pick<OperationDeps, "retentionDays" | "floods"> & { readonly adds?: string },
): StatusError {
  floods.note(login);
  const raise = `the operator can raise the limit: postbackd admin account limit ${login}`;
  const kept = `Collecting tasks frees no space: they are kept for ${retentionDays} days after their end`;
  const details = {
    openTasks:
      `This account may have ${limit} open tasks, which wait or run (limits.account.open_tasks); it has ` +
      `${used}, and this post has ${asked}. Post again when some have finished; ${raise} --open-tasks N.`,
    bytes:
      `This account may have ${limit} bytes of tasks in the store (limits.account.bytes); it has ${used}, and ` +
      `${adds}. ${kept}; ${raise} --bytes SIZE.`,
    shareBytes:
      `While other accounts exist, one account may use half of the space for data, ${limit} bytes ` +
      `now; this account uses ${used}, and ${adds}. ${kept}; the operator can free disk space.`,
  };
  const headers = { "retry-after": RETRY_AFTER[quota] };
  const code = quota === "openTasks" ? 42900 : 50700;
  return new StatusError(code, { detail: details[quota], headers });
}
