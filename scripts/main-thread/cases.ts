import type { BoundName } from "./bounds.ts";
import type { Ask } from "./caller.ts";
import { operatorCases } from "./operator-cases.ts";
import { postCases } from "./post-cases.ts";
import { readCases } from "./read-cases.ts";
import { runCases } from "./run-cases.ts";
import { workerCases } from "./worker-cases.ts";
import type { World } from "./world.ts";

/** A measured request; it is made anew for each time where it can be sent only once. */
export interface Case {
  readonly ask: Ask | (() => Promise<Ask>);
  /** The expected status; 200 unless given. */
  readonly status?: number;
  /** Settles when all its work is done. Called before the request is sent. */
  readonly done?: () => Promise<void>;
  /** Work on the answer before the next time; it does not count. */
  readonly after?: (text: string) => Promise<void>;
  /** Its other work takes a second, or so many seconds that only the table shows it. */
  readonly pace?: "slow" | "very slow";
  /** For an endless answer: reads as much as belongs to it. */
  readonly isStream?: true;
}

/** A case for each row of the table. */
export async function prepareCases(world: World): Promise<Readonly<Record<BoundName, Case>>> {
  return {
    ...(await readCases(world)),
    ...(await postCases(world)),
    ...(await workerCases(world)),
    ...(await operatorCases(world)),
    ...runCases(world),
  };
}
