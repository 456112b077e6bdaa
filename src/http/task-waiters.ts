import type { Clock } from "../domain/clock/clock.ts";
import type { TaskKey } from "../domain/task/task.ts";

/**
 * Requests that wait for a task to end. The one who ends it tells them; nothing is polled, and a waiter costs a timer
 * and an entry.
 */
export class TaskWaiters {
  readonly #clock: Clock;
  readonly #waiting = new Map<string, Set<() => void>>();
  /** The same, by the calling account. */
  readonly #byAccount = new Map<number, Set<() => void>>();
  #isAborted = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Settles when the task has ended, when its account is disabled, when `ms` are over, when `gone` is aborted or when
   * all are broken off, whichever comes first. To be called before the task is looked at, so that no end is missed.
   */
  wait(
    { id, accountId }: TaskKey,
    { ms, gone }: { readonly ms: number; readonly gone: AbortSignal },
  ): Promise<void> {
    if (this.#isAborted || gone.aborted || ms <= 0) return Promise.resolve();
    return new Promise((resolve) => {
      const end = (): void => {
        timer.cancel();
        gone.removeEventListener("abort", end);
        leave(this.#waiting, id, end);
        leave(this.#byAccount, accountId, end);
        resolve();
      };
      const timer = this.#clock.setTimer(ms, end);
      gone.addEventListener("abort", end);
      join(this.#waiting, id, end);
      join(this.#byAccount, accountId, end);
    });
  }

  get ids(): Iterable<string> {
    return this.#waiting.keys();
  }

  /** Tells that a task has ended; its end must be committed. */
  tell(id: string): void {
    for (const end of this.#waiting.get(id) ?? []) end();
  }

  /** Tells that accounts are disabled: requests that wait for their tasks have to be admitted again. */
  tellAccounts(accountIds: ReadonlySet<number>): void {
    for (const accountId of accountIds) {
      for (const end of this.#byAccount.get(accountId) ?? []) end();
    }
  }

  /** Breaks off all waits, and those that begin from now on: the daemon stops. */
  abort(): void {
    this.#isAborted = true;
    for (const id of [...this.#waiting.keys()]) this.tell(id);
  }
}

type Ends<Key> = Map<Key, Set<() => void>>;

function join<Key>(waiting: Ends<Key>, key: Key, end: () => void): void {
  const others = waiting.get(key) ?? new Set();
  waiting.set(key, others.add(end));
}

function leave<Key>(waiting: Ends<Key>, key: Key, end: () => void): void {
  const others = waiting.get(key);
  others?.delete(end);
  if (others?.size === 0) waiting.delete(key);
}
