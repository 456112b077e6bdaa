/**
 * Shares a claim among the accounts that wait for a type. They take turns, one task each, beginning with the account
 * after the one whose task was started last. A claim goes in rounds. In each round every account that may have more is
 * given the same share, by priority and then age, and the next round shares what the short ones leave over. Disabled
 * accounts have no turn: the read of accounts skips any number of them in one step.
 */

/** An account's turn in a claim, and the tasks that it has been given so far. */
export interface Turn<Row> {
  readonly accountId: number;
  readonly rows: Row[];
  /** False once it was given less than its share. */
  mayHaveMore: boolean;
}

export function newTurn<Row>(accountId: number): Turn<Row> {
  return { accountId, rows: [], mayHaveMore: true };
}

/** How many tasks each account is given in a round; the last round may end before every account had its turn. */
export function shareOf(left: number, accounts: number): number {
  return Math.max(1, Math.floor(left / accounts));
}

/** The given tasks in the order of the turns: one of each account, then another of each, until none is left. */
export function inTurn<Row>(turns: readonly Turn<Row>[]): readonly Row[] {
  const rounds = Math.max(0, ...turns.map(({ rows }) => rows.length));
  return Array.from({ length: rounds }, (_, round) =>
    turns.flatMap(({ rows }) => rows.slice(round, round + 1)),
  ).flat();
}

/**
 * A claim of tasks ends with the one whose input makes all of them together this long, in characters. So much takes 5
 * ms of the main thread's time on its way from the writer's thread to a worker; 16 MiB took 75 ms (measured).
 */
export const CLAIM_INPUT_MAX: number = 1024 * 1024;

/** True for a claim that ends with the tasks that it has. */
export function isClaimFull({ inputLength }: { readonly inputLength: number }): boolean {
  return inputLength >= CLAIM_INPUT_MAX;
}
