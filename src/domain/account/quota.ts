import { type Rule, fault, quote, rawOf } from "../rule.ts";

/** The limits of an account; 0 means no limit. */
export interface AccountLimits {
  /** Of data in the store, as {@link AccountUsage} measures it. */
  readonly bytes: number;
  /** Tasks that wait or run. */
  readonly openTasks: number;
  readonly requestsPerMinute: number;
  /** Posted tasks, including refused ones. */
  readonly tasksPerMinute: number;
}

/** The limits that the operator gave to one account; null takes the configured one. */
export type OwnLimits = Readonly<Record<keyof AccountLimits, number | null>>;

export const DEFAULT_LIMIT = "default";

export function ownLimit(rule: Rule<number>): Rule<number | typeof DEFAULT_LIMIT> {
  return {
    ...rule,
    takes: `${rule.takes}, or ${quote(DEFAULT_LIMIT)}`,
    hint: `${rule.hint}|${DEFAULT_LIMIT}`,
    form: "text",
    parse(raw) {
      if (raw === DEFAULT_LIMIT) return { kind: "value", value: DEFAULT_LIMIT };
      const parsed = rule.parse(typeof raw === "string" ? rawOf(rule, raw) : raw);
      return parsed.kind === "value"
        ? parsed
        : fault(`${parsed.reason}, or ${quote(DEFAULT_LIMIT)}`);
    },
  };
}

export function limitsOf(own: OwnLimits, standard: AccountLimits): AccountLimits {
  return {
    bytes: own.bytes ?? standard.bytes,
    openTasks: own.openTasks ?? standard.openTasks,
    requestsPerMinute: own.requestsPerMinute ?? standard.requestsPerMinute,
    tasksPerMinute: own.tasksPerMinute ?? standard.tasksPerMinute,
  };
}

export interface AccountUsage {
  /** Of tasks, attempts and stored responses, in UTF-8, each with the size of its rows and index entries. */
  readonly bytes: number;
  readonly openTasks: number;
}

type OpenCounts = Readonly<Record<"queued" | "delayed" | "running", number>>;

export function openTasksOf({ queued, delayed, running }: OpenCounts): number {
  return queued + delayed + running;
}

/** True when there is room for one more beside the existing ones, which are counted in the step that adds it. */
export function hasRoomBeside(existing: number, max: number): boolean {
  return existing < max;
}

/** The most keys, sign-ins and noted redeliveries of an account in an hour: keys of 30 days take some 30 MB. */
export const UNCOUNTED_PER_HOUR = 100;

/** The limits that a post may not exceed for its account; 0 means no limit. */
export interface PostQuota extends Pick<AccountLimits, "bytes" | "openTasks"> {
  /** One account's part of the space for all data. */
  readonly shareBytes: number;
}

export interface QuotaExcess {
  readonly quota: keyof PostQuota;
  readonly limit: number;
  readonly used: number;
  readonly asked: number;
}

/** The usage that each limit of a post bounds. */
const BOUNDED: readonly (readonly [keyof PostQuota, keyof AccountUsage])[] = [
  ["bytes", "bytes"],
  ["shareBytes", "bytes"],
  ["openTasks", "openTasks"],
];

/** Finds the limit that a post would exceed; reaching it exactly is allowed. Null when it exceeds none. */
export function excessOf(
  asked: AccountUsage,
  { used, quota }: { readonly used: AccountUsage; readonly quota: PostQuota },
): QuotaExcess | null {
  for (const [name, measure] of BOUNDED) {
    const excess = { quota: name, limit: quota[name], used: used[measure], asked: asked[measure] };
    const isBounded = excess.limit > 0 && excess.asked > 0;
    if (isBounded && excess.used + excess.asked > excess.limit) return excess;
  }
  return null;
}

export interface RateRule {
  /** Events in one window; 0 means no limit. */
  readonly limit: number;
  readonly windowMs: number;
}

/** The events of one key that were counted since its window began. */
export interface RateWindow {
  /** Monotonic milliseconds of the first event. */
  readonly startedAt: number;
  /** Never above the limit at that time: refused events are not counted. */
  readonly count: number;
}

export interface RateVerdict {
  /** True when the counted events were within the limit. */
  readonly isAllowed: boolean;
  /** Events that are left in the window; Infinity without a limit. */
  readonly remaining: number;
  /** Whole seconds until the window ends, at least 1. */
  readonly resetSeconds: number;
  /** 0 means no limit. */
  readonly limit: number;
  /** Length of the window in whole seconds, rounded up. */
  readonly windowSeconds: number;
}

/** The moment, by the monotonic clock, and the rule by which events are counted. */
export interface RateMoment {
  readonly now: number;
  readonly rule: RateRule;
}

/** Counts all events or none. A window begins with a key's first event; the next event after its end begins another. */
export function countEvents(
  window: RateWindow | null,
  moment: RateMoment,
  events = 1,
): { readonly window: RateWindow; readonly verdict: RateVerdict } {
  const { now, rule } = moment;
  const current = currentWindow(window, moment);
  const isAllowed = rule.limit === 0 || current.count + events <= rule.limit;
  const count = isAllowed && rule.limit > 0 ? current.count + events : current.count;
  const counted = { ...current, count };
  const verdict = {
    isAllowed,
    remaining: rule.limit === 0 ? Number.POSITIVE_INFINITY : Math.max(0, rule.limit - count),
    resetSeconds: Math.ceil((counted.startedAt + rule.windowMs - now) / 1000),
    limit: rule.limit,
    windowSeconds: Math.ceil(rule.windowMs / 1000),
  };
  return { window: counted, verdict };
}

function currentWindow(window: RateWindow | null, { now, rule }: RateMoment): RateWindow {
  const isOver = window === null || now - window.startedAt >= rule.windowMs;
  return isOver ? { startedAt: now, count: 0 } : window;
}
