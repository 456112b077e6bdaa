import type { WorkWatch } from "./work-watch.ts";

/**
 * Attempts that let others go first: each until another one to the same host has been made, or until nothing else goes on
 * that might lead to one.
 */
export class HeldBackAttempts {
  readonly #work: WorkWatch;
  /** By host, the oldest first. */
  readonly #waiting = new Map<string, Set<() => void>>();

  constructor(work: WorkWatch) {
    this.#work = work;
  }

  /** Settles when the attempt may be made, or `signal` is aborted. */
  async wait(host: string, signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiting = this.#waiting.get(host) ?? new Set();
    this.#waiting.set(host, waiting.add(resolve));
    const forget = this.#work.atLull(resolve, "last");
    const give = (): void => resolve();
    signal.addEventListener("abort", give, { once: true });
    await promise;
    signal.removeEventListener("abort", give);
    forget();
    waiting.delete(resolve);
  }

  /** Tells that an attempt to this host has been made: the oldest that waits follows it. */
  passed(host: string): void {
    const [oldest] = this.#waiting.get(host) ?? [];
    oldest?.();
  }
}
