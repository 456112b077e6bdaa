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
      if (done instanceof Promise) await done;
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 1) throw new AggregateError(errors, `${errors.length} steps failed`);
  if (errors.length === 1) throw errors[0];
}
