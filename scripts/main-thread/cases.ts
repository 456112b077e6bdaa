import type { BoundName } from "./bounds.ts";
import type { Ask } from "./caller.ts";
import { operatorCases } from "./operator-cases.ts";
import { postCases } from "./post-cases.ts";
import { readCases } from "./read-cases.ts";
import { runCases } from "./run-cases.ts";
import { workerCases } from "./worker-cases.ts";
import type { World } from "./world.ts";

/** What is measured: a request, made anew for each time where it can be done once. */
export interface Case {
  readonly ask: Ask | (() => Promise<Ask>);
  /** What it is answered; 200 unless told. */
  readonly status?: number;
  /** Settles when all is done that belongs to it. Asked for before the request is sent. */
  readonly done?: () => Promise<void>;
  /** What is done with the answer before the next time; it does not count. */
  readonly after?: (text: string) => Promise<void>;
  /** What else belongs to it takes a second, or so many that only the table shows it. */
  readonly pace?: "slow" | "very slow";
  /** In the place of an answer that does not end: reads as much as belongs to it. */
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
