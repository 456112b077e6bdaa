import type { Changes, Store } from "../store.ts";
import type { SubmitOptions } from "./group-commit.ts";

/** The changes of a batch that other nodes are notified of. The node's own callers have them in their results. */
export type News = Partial<Changes>;

/** A task by its id or its number. */
export type TaskRef = string | number;

type WeightOf<Args> = SubmitOptions | ((args: Args) => SubmitOptions);

/** The properties of a write besides its statements: its weight, its audit entry, its locks and its notifications. */
export interface WriteRule<Args, Result> {
  /** Its weight in a batch and in the backlog. Default: one row, never refused. */
  readonly weight?: WeightOf<Args>;
  /** The same on PostgreSQL, if it differs. */
  readonly postgresWeight?: WeightOf<Args>;
  /** The write may carry an audit entry, which is recorded if this returns true. */
  readonly hasEffect?: (result: Result, args: Args) => boolean;
  /** The tasks to lock in PostgreSQL's queue: by one statement for all operations of the name, or by one for each. */
  readonly locks?: (args: Args) => readonly TaskRef[];
  readonly locksEach?: (args: Args) => readonly TaskRef[];
  /** The write skips rows that other transactions have locked. */
  readonly waitsForNone?: true;
  /** The notification to other nodes, besides the accounts. */
  readonly news?: (args: Args, result: Result) => News;
}

export type WriteRules = {
  readonly [Name in keyof Store]?: Store[Name] extends (args: infer Args) => Promise<infer Result>
    ? WriteRule<Args, Result>
    : never;
};

/** The most weight of a batch. */
export const BATCH_WEIGHT_MAX = 256;

/** A client's write: it may be refused, because a client can repeat it. */
export const CLIENT_WRITE: SubmitOptions = { weight: 1, mayShed: true };
// Delays every other write. It runs at a start, or after the machine's clock was set.
export const WHOLE_TABLES: SubmitOptions = { weight: BATCH_WEIGHT_MAX, mayShed: false };
// Counts the rows that the step reads and writes: half a batch.
export const STEP_WRITE: SubmitOptions = { weight: BATCH_WEIGHT_MAX / 2, mayShed: false };
// Waits for rows that it does not name, so it runs in a batch of its own: a shared batch would hold other rows meanwhile.
export const LOCKS_UNNAMED: SubmitOptions = { weight: BATCH_WEIGHT_MAX, mayShed: false };
// A step of the operator or the engine. The engine's own limits bound the number of steps.
export const ONE_ROW = rows(1);

export const idOf = ({ id }: { readonly id: string }): string => id;

/** The weight of a write of so many rows, which is never refused. */
export function rows(weight: number): SubmitOptions {
  return { weight, mayShed: false };
}
