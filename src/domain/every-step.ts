/**
 * Does each step in its order, even after one that threw: for closing things, where none may keep the next from
 * closing. The first steps run before this returns, up to one that has to be waited for. Rejects with the error, or
 * with an AggregateError when several steps threw.
 */
export async function everyStep(steps: readonly (() => unknown)[]): Promise<void> {
  const errors: unknown[] = [];
  for (const step of steps) {
    try {
      const done = step();
      if (isPromise(done)) await done;
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 1) throw new AggregateError(errors, `${errors.length} steps failed`);
  if (errors.length === 1) throw errors[0];
}

/** True for a promise of any realm or class. */
export function isPromise(value: unknown): value is Promise<unknown> {
  if (typeof value !== "object" || value === null) return false;
  return "then" in value && typeof value.then === "function";
}
