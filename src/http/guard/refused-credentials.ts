import type { Clock, Timer } from "../../domain/clock/clock.ts";
import { MINUTE_MS } from "../../domain/clock/duration.ts";
import type { Logger } from "../../domain/log.ts";
import type { StatusCode } from "../../domain/status.ts";
import { tooManyRequests, type RateLimiter } from "./rate-limiter.ts";

// So many lines a minute are enough to see an attack; what comes from further addresses is counted together.
const ADDRESSES_MAX = 100;

export interface RefusedCredentialsDeps {
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
   * often. Only 40100 counts: a known key always gets its 40101 or 40102 (contract §2).
   */
  refuse(code: StatusCode, address: string): void {
    this.#note(address);
    if (code !== 40100) return;
    const verdict = this.#deps.limiter.count(address);
    if (verdict.isAllowed) return;
    const detail = "Too many refused credentials came from this address.";
    throw tooManyRequests(verdict.resetSeconds, { detail });
  }

  #note(address: string): void {
    const known = this.#counts.get(address);
    if (known === undefined && this.#counts.size >= ADDRESSES_MAX) this.#others++;
    else this.#counts.set(address, (known ?? 0) + 1);
    this.#timer ??= this.#deps.clock.setTimer(MINUTE_MS, () => this.write());
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
