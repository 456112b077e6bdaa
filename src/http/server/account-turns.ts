/** Lets each account do one piece of work at a time, in the order in which the work was asked for. */
export class AccountTurns {
  /** The last piece of work of each account, begun or to come; settles in any case, and never rejects. */
  readonly #last = new Map<number, Promise<void>>();

  /** Does the work when everything that this account asked for before has ended. */
  async take<Value>(accountId: number, work: () => Promise<Value>): Promise<Value> {
    const before = this.#last.get(accountId) ?? Promise.resolve();
    const turn = before.then(work);
    const ended = turn.then(nothing, nothing);
    this.#last.set(accountId, ended);
    try {
      return await turn;
    } finally {
      if (this.#last.get(accountId) === ended) this.#last.delete(accountId);
    }
  }
}

function nothing(): void {}
