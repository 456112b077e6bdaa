import type { Clock } from "../domain/clock/clock.ts";
import type { ObservedAttempt, Observer } from "../domain/observer.ts";
import type { FailingHost } from "../domain/stats/condition.ts";
import type { HostCount } from "../domain/webhook/webhook-request.ts";

const MINUTE_MS = 60_000;
// A receiver that is restarted is away for less; the second retry of a single webhook comes after six minutes.
const FAILING_MS = 5 * MINUTE_MS;
const FAILURES_MIN = 3;
const FORGOTTEN_MS = 60 * MINUTE_MS;
// The next attempt, which may have succeeded, may be another daemon's. The longest wait of the default is 15 minutes.
const FORGOTTEN_OF_SEVERAL_MS = 20 * MINUTE_MS;
// Those who post tasks name the hosts.
const HOSTS_MAX = 1000;

const GROUP_MS = 5 * MINUTE_MS;
const HOSTS_NAMED_MAX = 20;

interface Streak {
  readonly since: number;
  /** Monotonic. */
  readonly firstAt: number;
  readonly lastAt: number;
  readonly failures: number;
}

/** Webhooks that were given up, the hosts with the most of them first. */
export interface GivenUp {
  readonly count: number;
  /** Some of the hosts, where there are many. */
  readonly hosts: readonly HostCount[];
  readonly hostsInAll: number;
}

/** Follows how this node's attempts go: to which hosts they all fail, and how many webhooks are given up. */
export class ReceiverWatch implements Observer {
  readonly #clock: Clock;
  /** By host, the one that was tried last at the end: its attempts since the last that succeeded. */
  readonly #streaks = new Map<string, Streak>();
  readonly #givenUp = new Map<string, number>();
  /** When the first of those was given up, by the monotonic clock. */
  #givenUpAt = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  attempt({ host, outcome, state }: Pick<ObservedAttempt, "host" | "outcome" | "state">): void {
    // A refused URL is the poster's affair, and an interrupted attempt says nothing about the receiver.
    if (outcome === "refused" || outcome === "interrupted") return;
    if (outcome === "delivered") this.#streaks.delete(host);
    else this.#noteFailure(host);
    if (state === "given_up") this.#noteGivenUp(host);
  }

  /** The hosts to which every attempt has failed for some minutes. Where others attempt, too, they are forgotten sooner. */
  failing({ isAlone }: { readonly isAlone: boolean }): readonly FailingHost[] {
    const now = this.#clock.monotonic();
    this.#forget(now - (isAlone ? FORGOTTEN_MS : FORGOTTEN_OF_SEVERAL_MS));
    return [...this.#streaks].flatMap(([host, { failures, since, firstAt }]) =>
      failures >= FAILURES_MIN && now - firstAt >= FAILING_MS ? [{ host, failures, since }] : [],
    );
  }

  /** Takes what was given up: all of it, or once the first is some minutes old. Null when there is nothing to take. */
  takeGivenUp(when: "in time" | "at once"): GivenUp | null {
    if (this.#givenUp.size === 0) return null;
    if (when === "in time" && this.#clock.monotonic() - this.#givenUpAt < GROUP_MS) return null;
    const all = [...this.#givenUp].map(([host, count]) => ({ host, count }));
    this.#givenUp.clear();
    const count = all.reduce((sum, each) => sum + each.count, 0);
    const hosts = all.toSorted((a, b) => b.count - a.count).slice(0, HOSTS_NAMED_MAX);
    return { count, hosts, hostsInAll: all.length };
  }

  #noteFailure(host: string): void {
    const now = this.#clock.monotonic();
    const known = this.#streaks.get(host);
    const { since, firstAt, failures } = known ?? {
      since: this.#clock.now(),
      firstAt: now,
      failures: 0,
    };
    this.#streaks.delete(host);
    this.#streaks.set(host, { since, firstAt, lastAt: now, failures: failures + 1 });
    // Dead names of long ago keep no place from hosts that fail now.
    const [oldest] = this.#streaks.keys();
    if (this.#streaks.size > HOSTS_MAX && oldest !== undefined) this.#streaks.delete(oldest);
  }

  #noteGivenUp(host: string): void {
    if (this.#givenUp.size === 0) this.#givenUpAt = this.#clock.monotonic();
    const isKnown = this.#givenUp.has(host);
    // Hosts beyond that are counted together.
    const name = isKnown || this.#givenUp.size < HOSTS_MAX ? host : "others";
    this.#givenUp.set(name, (this.#givenUp.get(name) ?? 0) + 1);
  }

  #forget(before: number): void {
    for (const [host, { lastAt }] of this.#streaks) {
      if (lastAt < before) this.#streaks.delete(host);
    }
  }
}
