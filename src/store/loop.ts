/**
 * The life of a part that works by itself. Each method may be called twice, in any order and before the first piece of
 * work; none of them throws.
 *
 *     works → drain → quiet → (its resources can be closed)
 *               └→ abort ┘
 */
export interface Part {
  /** Begins nothing from now on; what is in progress goes on to its end. */
  drain(): void;
  /** Settles at the next moment when nothing is in progress. It begins nothing for that, and ends nothing. */
  quiet(): Promise<void>;
  /** Drains, and aborts what can be aborted: {@link quiet} settles soon. */
  abort(): void;
  /** True if nothing is in progress, and nothing is left that it would begin by itself. */
  isIdle(): boolean;
}

export interface LoopDeps {
  /** Does the work. It checks `isDraining` between its steps, and wakes the loop for what it leaves. */
  readonly round: (loop: Loop) => Promise<void>;
  /** Called with the error that ended a round. The next wake begins another round. */
  readonly failed: (error: unknown) => void;
}

/** Work that is done when it is woken: one round at a time, and another if it was woken meanwhile. */
export class Loop implements Part {
  readonly #deps: LoopDeps;
  #round: Promise<void> | null = null;
  #isDue = false;
  #isDraining = false;

  constructor(deps: LoopDeps) {
    this.#deps = deps;
  }

  /** Notes that there may be something to do. */
  wake(): void {
    this.#isDue = true;
    this.#begin();
  }

  /** Does one round before anything wakes the loop. Rejects if it fails. */
  first(): Promise<void> {
    return this.#deps.round(this);
  }

  get isDraining(): boolean {
    return this.#isDraining;
  }

  /** Begins no round after this; the current round ends after its current step. */
  drain(): void {
    this.#isDraining = true;
  }

  async quiet(): Promise<void> {
    while (this.#round !== null) await this.#round;
  }

  /** As {@link drain}: a step that waits for the store ends by the signal that it was given. */
  abort(): void {
    this.drain();
  }

  isIdle(): boolean {
    return this.#round === null;
  }

  #begin(): void {
    if (!this.#isDue || this.#round !== null || this.#isDraining) return;
    this.#isDue = false;
    this.#round = this.#deps
      .round(this)
      .catch(this.#deps.failed)
      .finally(() => {
        this.#round = null;
        // It may have been woken after its last step.
        this.#begin();
      });
  }
}

/** Counts the steps of a part that are in progress. */
export class Steps {
  #underWay = 0;
  #waiters: (() => void)[] = [];

  /** Counts the step until it settles in any way. Returns the step. */
  track<Value>(step: Promise<Value>): Promise<Value> {
    this.#underWay++;
    const ended = (): void => this.#ended();
    step.then(ended, ended);
    return step;
  }

  get isNone(): boolean {
    return this.#underWay === 0;
  }

  /** Settles at the next moment when no step is in progress. */
  async quiet(): Promise<void> {
    while (!this.isNone) await new Promise<void>((resolve) => this.#waiters.push(resolve));
  }

  #ended(): void {
    if (--this.#underWay > 0) return;
    for (const resolve of this.#waiters.splice(0)) resolve();
  }
}
