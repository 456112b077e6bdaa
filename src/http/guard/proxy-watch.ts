import { addressText, parseAddress } from "../../domain/address/address-text.ts";
import type { Clock } from "../../domain/clock/clock.ts";
import { headerValues } from "../server/raw-headers.ts";
import { isTrustedProxy, type ProxyPolicy, type ReceivedRequest } from "./client-address.ts";

// To look costs a microsecond, and a proxy puts its headers on every request.
const LOOK_MS = 1000;
// Somebody who tries such a header once is no proxy.
const LASTS_MS = 60_000;
const OVER_AFTER_MS = 3_600_000;

/** Finds a proxy that nobody has named: a peer that is not trusted and sends X-Forwarded-* for longer than a minute. */
export class ProxyWatch {
  readonly #clock: Pick<Clock, "monotonic">;
  #lookedAt = Number.NEGATIVE_INFINITY;
  #seen: { readonly address: string; readonly firstAt: number; readonly lastAt: number } | null =
    null;

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  /** Looks at a request, unless it has looked at another one just now. */
  look(request: ReceivedRequest, policy: ProxyPolicy): void {
    const now = this.#clock.monotonic();
    if (now - this.#lookedAt < LOOK_MS) return;
    this.#lookedAt = now;
    const peer = parseAddress(request.socket.remoteAddress ?? "");
    if (peer === null || !isForwarded(request)) return;
    const address = addressText(peer);
    if (isTrustedProxy(address, policy)) return;
    const firstAt = this.#recent(now)?.firstAt ?? now;
    this.#seen = { address, firstAt, lastAt: now };
  }

  /** The address of the last such peer; null when there was none within the hour. */
  address(): string | null {
    const seen = this.#recent(this.#clock.monotonic());
    return seen !== null && seen.lastAt - seen.firstAt >= LASTS_MS ? seen.address : null;
  }

  #recent(now: number) {
    return this.#seen !== null && now - this.#seen.lastAt <= OVER_AFTER_MS ? this.#seen : null;
  }
}

function isForwarded(request: ReceivedRequest): boolean {
  return ["x-forwarded-for", "x-forwarded-proto"].some(
    (name) => headerValues(request, name).length > 0,
  );
}
