import { addressText, parseAddress } from "../../domain/address/address.ts";
import type { Clock } from "../../domain/clock/clock.ts";
import { HOUR_MS, MINUTE_MS } from "../../domain/clock/duration.ts";
import { headerValues } from "../server/raw-headers.ts";
import { isTrustedProxy, type ProxyPolicy, type ReceivedRequest } from "./client-address.ts";

// To look costs a microsecond, and a proxy puts its headers on every request.
const LOOK_MS = 1000;
// Somebody who tries such a header once is no proxy, nor is one who tries it again half an hour later.
const LASTS_MS = MINUTE_MS;
const SHOWN_MS = HOUR_MS;
// A daemon has fewer proxies, and anybody may come from an address of his own.
const STREAKS_MAX = 16;

/** Finds a proxy that nobody has named: a peer that is not trusted and sends X-Forwarded-* for longer than a minute. */
export class ProxyWatch {
  readonly #clock: Pick<Clock, "monotonic">;
  #lookedAt = Number.NEGATIVE_INFINITY;
  /** By address, the one that came last at the end: its requests with less than a minute between them. */
  readonly #streaks = new Map<string, { readonly firstAt: number; readonly lastAt: number }>();
  #found: { readonly address: string; readonly at: number } | null = null;

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
    if (!isTrustedProxy(address, policy)) this.#note(address, now);
  }

  /** The address of the last such peer; null when there was none within the hour. */
  address(): string | null {
    if (this.#found === null) return null;
    return this.#clock.monotonic() - this.#found.at <= SHOWN_MS ? this.#found.address : null;
  }

  #note(address: string, now: number): void {
    const known = this.#streaks.get(address);
    const goesOn = known !== undefined && now - known.lastAt <= LASTS_MS;
    const firstAt = goesOn ? known.firstAt : now;
    this.#streaks.delete(address);
    this.#streaks.set(address, { firstAt, lastAt: now });
    const [oldest] = this.#streaks.keys();
    if (this.#streaks.size > STREAKS_MAX && oldest !== undefined) this.#streaks.delete(oldest);
    if (now - firstAt >= LASTS_MS) this.#found = { address, at: now };
  }
}

function isForwarded(request: ReceivedRequest): boolean {
  return ["x-forwarded-for", "x-forwarded-proto"].some(
    (name) => headerValues(request, name).length > 0,
  );
}
