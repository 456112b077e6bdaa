import type { Clock } from "../../domain/clock/clock.ts";
import { MINUTE_MS } from "../../domain/clock/duration.ts";
import { RateLimiter } from "./rate-limiter.ts";

// A client that heeds Retry-After is refused once a minute or less; fifty of them behind one account are no flood.
const REFUSALS_PER_MINUTE = 60;

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
