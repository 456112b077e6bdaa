import { setImmediate } from "../domain/clock/timers.ts";

/** Work that goes on outside of the clock's time, such as a run or an attempt. */
export interface Work {
  /** For the waiting caller: `the run of task …`. */
  readonly what: string;
  /** Reports that it may take long: a wait for a lull ignores it from then on. */
  takesLong(): void;
  /** Safe to call twice. */
  end(): void;
}

/** Counts work that takes the machine's time: writes, runs, packets. The clock stands still meanwhile. */
export class WorkWatch {
  readonly #underWay = new Set<Work>();
  readonly #long = new Set<Work>();
  #begun = 0;
  /** The calls for a lull, the oldest first; those in the second list after all in the first. */
  readonly #atLull = [new Set<() => void>(), new Set<() => void>()] as const;
  #isLookingForLull = false;
  /** Called when work ends or takes long, or when no caller waits for a lull any more. */
  #changed: (() => void)[] = [];

  begin(what: string): Work {
    const work: Work = {
      what,
      takesLong: () => {
        if (this.#underWay.has(work)) this.#long.add(work);
        this.#tell();
      },
      end: () => {
        this.#underWay.delete(work);
        this.#long.delete(work);
        this.#tell();
      },
    };
    this.#underWay.add(work);
    this.#begun++;
    return work;
  }

  /** Notes work for as long as a promise has not settled. */
  track<T>(what: string, promise: Promise<T>): Promise<T> {
    const work = this.begin(what);
    return promise.finally(() => work.end());
  }

  underWay(): readonly string[] {
    return [...this.#underWay].map(({ what }) => what);
  }

  /** Settles when nothing goes on, nothing has followed from it, and no call waits for a lull. Rejects when aborted. */
  settled(signal: AbortSignal): Promise<void> {
    return this.#until(() => this.#underWay.size === 0 && !this.#isLullWanted(), signal);
  }

  /** Calls back one at a time when only long work goes on; the `last` ones after all others. Returns how to stop. */
  atLull(call: () => void, place: "first" | "last"): () => void {
    const waiting = this.#atLull[place === "first" ? 0 : 1];
    waiting.add(call);
    if (!this.#isLookingForLull) void this.#lookForLulls();
    return () => {
      waiting.delete(call);
      this.#tell();
    };
  }

  async #lookForLulls(): Promise<void> {
    this.#isLookingForLull = true;
    while (this.#isLullWanted()) {
      await this.#until(() => this.#underWay.size === this.#long.size, NEVER);
      const waiting = this.#atLull.find(({ size }) => size > 0);
      const [call] = waiting ?? [];
      if (call === undefined) continue;
      waiting?.delete(call);
      call();
      this.#tell();
    }
    this.#isLookingForLull = false;
  }

  #isLullWanted(): boolean {
    return this.#atLull.some(({ size }) => size > 0);
  }

  async #until(isQuiet: () => boolean, signal: AbortSignal): Promise<void> {
    let begun: number;
    do {
      signal.throwIfAborted();
      begun = this.#begun;
      while (!isQuiet()) await this.#change(signal);
      // An end is handed on in promises, and what follows begins in one of the next turns.
      for (let turn = 0; turn < TURNS; turn++) await new Promise(setImmediate);
    } while (begun !== this.#begun || !isQuiet());
  }

  #tell(): void {
    for (const tell of this.#changed.splice(0)) tell();
  }

  #change(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const aborted = (): void => reject(signal.reason);
      signal.addEventListener("abort", aborted, { once: true });
      this.#changed.push(() => {
        signal.removeEventListener("abort", aborted);
        resolve();
      });
    });
  }
}

// A deadline cuts its attempt in the next turn, and what that leads to begins in the one after.
const TURNS = 4;

const NEVER = new AbortController().signal;
