import type { Clock, Timer } from "../../domain/clock/clock.ts";
import type { Logger } from "../../domain/log.ts";

const MINUTE_MS = 60_000;
// So many lines a minute are enough to see an attack; what comes from further addresses is counted together.
const ADDRESSES_MAX = 100;

/** Logs refused credentials: one line for each address and minute, with how often. */
export class RefusedCredentials {
  readonly #deps: { readonly clock: Clock; readonly log: Pick<Logger, "info"> };
  readonly #counts = new Map<string, number>();
  #others = 0;
  #timer: Timer | null = null;

  constructor(deps: { readonly clock: Clock; readonly log: Pick<Logger, "info"> }) {
    this.#deps = deps;
  }

  /** Notes credentials that were refused; the address is one by which limits count, of IPv6 the /64. */
  note(address: string): void {
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
