import type { Store } from "../store.ts";

/**
 * The writes of the store as they run inside the transaction of a batch: each takes the arguments of all its operations
 * in the batch, and answers a value for each, in their order.
 */
export type SetSteps = {
  readonly [Name in keyof Store]?: Store[Name] extends (...args: infer Args) => Promise<infer Value>
    ? (list: readonly Args[0][]) => Promise<readonly Value[]>
    : never;
};

/** The arguments of a method of the store. */
export type ArgsOf<Name extends keyof Store> = Store[Name] extends (args: infer Args) => unknown
  ? Args
  : never;

/** The value that a method of the store promises. */
export type ValueOf<Name extends keyof Store> = Store[Name] extends (
  ...args: never
) => Promise<infer Value>
  ? Value
  : never;

/** Runs an operation after the other: for writes of which few come together. */
export function each<Args, Value>(
  write: (args: Args) => Promise<Value>,
): (list: readonly Args[]) => Promise<readonly Value[]> {
  return async (list) => {
    const values: Value[] = [];
    for (const args of list) values.push(await write(args));
    return values;
  };
}

/**
 * Runs operations as sets in which no two name the same thing: those that name a thing again come in a later set, and
 * so find it as the earlier ones have left it.
 */
export async function inWaves<Args, Value>(
  list: readonly Args[],
  nameOf: (args: Args) => number | string,
  write: (wave: readonly Args[]) => Promise<readonly Value[]>,
): Promise<readonly Value[]> {
  const waves: { readonly args: Args; readonly index: number }[][] = [];
  const named = new Map<number | string, number>();
  for (const [index, args] of list.entries()) {
    const name = nameOf(args);
    const wave = named.get(name) ?? 0;
    named.set(name, wave + 1);
    (waves[wave] ??= []).push({ args, index });
  }
  const values: Value[] = [];
  for (const wave of waves) {
    const answers = await write(wave.map(({ args }) => args));
    for (const [i, value] of answers.entries()) values[wave[i]?.index ?? i] = value;
  }
  return values;
}
