/** Something that was measured with others, and what came of it in each round. */
export interface Measured<Leg, Result> {
  readonly leg: Leg;
  readonly results: readonly Result[];
}

/**
 * Measures each of several things in turn, round by round: what else the machine does hits neighbours in time alike.
 * Rounds before the first are not counted: code is compiled while they last.
 */
export async function inTurn<Leg, Result>(
  legs: readonly Leg[],
  options: {
    readonly rounds: number;
    readonly uncounted: number;
    readonly measure: (leg: Leg) => Promise<Result>;
    /** Called with every counted result as soon as it is there. */
    readonly onResult?: (leg: Leg, result: Result) => void;
  },
): Promise<readonly Measured<Leg, Result>[]> {
  const measured = legs.map((leg) => ({ leg, results: new Array<Result>() }));
  for (let round = -options.uncounted; round < options.rounds; round++) {
    for (const { leg, results } of measured) {
      const result = await options.measure(leg);
      if (round < 0) continue;
      results.push(result);
      options.onResult?.(leg, result);
    }
  }
  return measured;
}
