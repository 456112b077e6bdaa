/** So many events in so much time. */
export interface RateRule {
  /** Events in one window; 0 is no limit. */
  readonly limit: number;
  readonly windowMs: number;
}

/** The events that one key has counted since its window began. */
export interface RateWindow {
  /** Monotonic milliseconds of the first event. */
  readonly startedAt: number;
  /** Never beyond the limit: what is refused is not counted. */
  readonly count: number;
}

/** What a limit says. */
export interface RateVerdict {
  /** Whether the event was within the limit. */
  readonly isAllowed: boolean;
  /** Events that the window has left; Infinity without a limit. */
  readonly remaining: number;
  /** Whole seconds until the window ends, at least 1. */
  readonly resetSeconds: number;
  /** 0 is no limit. */
  readonly limit: number;
  /** Length of the window in whole seconds, rounded up. */
  readonly windowSeconds: number;
}

/** Where a limit is applied: a moment of the monotonic clock and the rule. */
export interface RateMoment {
  readonly now: number;
  readonly rule: RateRule;
}

/**
 * Counts one event. A window begins with a key's first event and lasts the rule's time, however many
 * follow; the next event after its end begins a new one.
 */
export function countEvent(
  window: RateWindow | null,
  moment: RateMoment,
): { readonly window: RateWindow; readonly verdict: RateVerdict } {
  const { now, rule } = moment;
  const current = currentWindow(window, moment);
  const isAllowed = rule.limit === 0 || current.count < rule.limit;
  const counted = isAllowed && rule.limit > 0 ? { ...current, count: current.count + 1 } : current;
  const verdict = {
    isAllowed,
    remaining: rule.limit === 0 ? Number.POSITIVE_INFINITY : rule.limit - counted.count,
    resetSeconds: Math.ceil((counted.startedAt + rule.windowMs - now) / 1000),
    limit: rule.limit,
    windowSeconds: Math.ceil(rule.windowMs / 1000),
  };
  return { window: counted, verdict };
}

/** The window as it stands: none is a new one, and so is one that has ended. */
function currentWindow(window: RateWindow | null, { now, rule }: RateMoment): RateWindow {
  const isOver = window === null || now - window.startedAt >= rule.windowMs;
  return isOver ? { startedAt: now, count: 0 } : window;
}
