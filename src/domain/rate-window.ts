/** A number of events in a time. */
export interface RateRule {
  /** Events in one window; 0 is no limit. */
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

/** The verdict of a limit. */
export interface RateVerdict {
  /** True when the counted events were within the limit. */
  readonly isAllowed: boolean;
  /** Events that are left in the window; Infinity without a limit. */
  readonly remaining: number;
  /** Whole seconds until the window ends, at least 1. */
  readonly resetSeconds: number;
  /** 0 is no limit. */
  readonly limit: number;
  /** Length of the window in whole seconds, rounded up. */
  readonly windowSeconds: number;
}

/** The moment, by the monotonic clock, and the rule by which events are counted. */
export interface RateMoment {
  readonly now: number;
  readonly rule: RateRule;
}

/**
 * Counts events, all of them or none. A window begins with a key's first event and lasts for the rule's time, however
 * many events follow; the next event after its end begins a new one.
 */
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

/** The current window: a new one when there is none, or when it has ended. */
function currentWindow(window: RateWindow | null, { now, rule }: RateMoment): RateWindow {
  const isOver = window === null || now - window.startedAt >= rule.windowMs;
  return isOver ? { startedAt: now, count: 0 } : window;
}
