import type { WorkWatch } from "./work-watch.ts";

/** Attempts that let the next one to the same host go first, if there is one. */
export class HeldBackAttempts {
  readonly #work: WorkWatch;
  /** By host: one at most waits for the next one. */
  readonly #waiting = new Map<string, () => void>();

  constructor(work: WorkWatch) {
    this.#work = work;
  }

  /**
   * Settles when the attempt may be made: after the next one to its host, when nothing else goes on that might lead to
   * one, or when `signal` is aborted. To be called only if {@link take} found none.
   */
  async wait(host: string, signal: AbortSignal): Promise<void> {
    const { promise, resolve: go } = Promise.withResolvers<void>();
    this.#waiting.set(host, go);
    const forget = this.#work.atLull(go, "last");
    const give = (): void => go();
    signal.addEventListener("abort", give, { once: true });
    await promise;
    signal.removeEventListener("abort", give);
    forget();
    if (this.#waiting.get(host) === go) this.#waiting.delete(host);
  }

  /** Returns how to let the attempt go that waits for the next one to this host; null if none waits. */
  take(host: string): (() => void) | null {
    const go = this.#waiting.get(host) ?? null;
    this.#waiting.delete(host);
    return go;
  }
}
