import type { TestContext } from "node:test";

type CleanUp = () => Promise<void> | void;

const cleanUps = new WeakMap<TestContext, CleanUp[]>();

/**
 * Undoes something after the test, the last thing made first: `t.after` goes the other way, and would remove a folder
 * before the daemon in it has stopped.
 */
export function afterwards(t: TestContext, cleanUp: CleanUp): void {
  const known = cleanUps.get(t);
  if (known !== undefined) {
    known.push(cleanUp);
    return;
  }
  const all = [cleanUp];
  cleanUps.set(t, all);
  t.after(async () => {
    for (const each of all.toReversed()) await each();
  });
}
