/** Counts the steps of a part that are under way, and knows when there are none. */
export class Steps {
  #underWay = 0;
  #waiters: (() => void)[] = [];

  /** Counts the step until it settles in any way. Answers the step. */
  track<Value>(step: Promise<Value>): Promise<Value> {
    this.#underWay++;
    const ended = (): void => this.#ended();
    step.then(ended, ended);
    return step;
  }

  /** True when none is under way. */
  get isNone(): boolean {
    return this.#underWay === 0;
  }

  /** Settles at the next moment when none is under way. */
  async quiet(): Promise<void> {
    while (!this.isNone) await new Promise<void>((resolve) => this.#waiters.push(resolve));
  }

  #ended(): void {
    if (--this.#underWay > 0) return;
    for (const tell of this.#waiters.splice(0)) tell();
  }
}
