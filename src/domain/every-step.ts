/**
 * Does each step in its order, also after one that threw: for letting go of things, where none must keep the next from
 * it. The first ones are done before this returns, up to one that has to be waited for. Rejects with what was thrown, or
 * with an AggregateError where several threw.
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
