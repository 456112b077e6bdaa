import type { LeaseEnd, LeaseEnds, Store, TaskPost } from "../store.ts";
import type { SubmitOptions } from "./group-commit.ts";

/** The weights of writes in a batch and in the backlog: about the number of rows that they write. */

/** The most weight of a batch. */
export const BATCH_WEIGHT_MAX = 256;

/** A client's write: it can come again. */
export const CLIENT_WRITE: SubmitOptions = { weight: 1, mayShed: true };
// It holds up every other write, and happens at a start or when the machine's clock was set.
export const WHOLE_TABLES: SubmitOptions = { weight: BATCH_WEIGHT_MAX, mayShed: false };
// It counts the rows that it writes and those that it reads before: as much as half a batch.
export const STEP_WRITE: SubmitOptions = { weight: BATCH_WEIGHT_MAX / 2, mayShed: false };

// It waits for rows that nobody named before: in a batch with others it would wait while it holds theirs.
const LOCKS_UNNAMED: SubmitOptions = { weight: BATCH_WEIGHT_MAX, mayShed: false };

/** A write of so many rows that is never refused. */
export function rows(weight: number): SubmitOptions {
  return { weight, mayShed: false };
}

// A page of text weighs as much as a row, so that the limits of batch and backlog bound their bytes too.
function weightOf(task: { readonly dataText: string; readonly inputText: string | null }): number {
  return 1 + pagesOf(task.dataText, task.inputText ?? "");
}

/** How much a post weighs. */
export function weightOfPost({ accepted, refused, idempotency }: TaskPost): SubmitOptions {
  let weight = idempotency === null ? 0 : 1 + pagesOf(idempotency.answerText);
  for (const task of accepted) weight += weightOf(task);
  for (const task of refused) weight += weightOf(task);
  return { weight, mayShed: true };
}

/** How much the ends of leases weigh. */
export function weightOfEnds({ ends }: LeaseEnds): SubmitOptions {
  return rows(ends.reduce((sum, end) => sum + weightOfEnd(end), 0));
}

function weightOfEnd({ sequel }: LeaseEnd): number {
  return (
    1 + (sequel.kind === "finish" ? pagesOf(sequel.resultText ?? "", sequel.errorText ?? "") : 0)
  );
}

function pagesOf(...texts: readonly string[]): number {
  return Math.floor(texts.reduce((sum, text) => sum + text.length, 0) / 4096);
}

type WeightOf = {
  readonly [Name in keyof Store]?: Store[Name] extends (args: infer Args) => unknown
    ? SubmitOptions | ((args: Args) => SubmitOptions)
    : never;
};

// A step of the operator, or of the engine, whose own limits bound the number of its steps.
const ONE_ROW = rows(1);

// A claim asks for as many as there are places, and mostly brings a few. Weighed as if it brought them all, each had a
// commit of its own: with 1,000 types posts of 100 tasks filled the backlog with claims (measured: 944 of 960 refused).
const PLACES_PER_ROW = 8;

/** How much a claim weighs that may bring so many. */
function claimOf(places: number): SubmitOptions {
  return rows(Math.ceil(places / PLACES_PER_ROW));
}

/** The weights of the writes that are more than one row, or that a client asks for. */
const WEIGHTS = {
  insertAccessRequest: CLIENT_WRITE,
  denyAccessRequests: LOCKS_UNNAMED,
  touchKeys: (uses) => rows(uses.length),
  insertTasks: weightOfPost,
  collectTask: CLIENT_WRITE,
  cancelTask: CLIENT_WRITE,
  cancelTasks: ({ ids }) => ({ weight: ids.length, mayShed: true }),
  claimTasks: ({ max }) => claimOf(max),
  releaseDelayed: ({ max }) => rows(max),
  expireQueued: LOCKS_UNNAMED,
  requeueTasks: (which) => ("of" in which ? LOCKS_UNNAMED : ONE_ROW),
  eraseAccountPart: LOCKS_UNNAMED,
  // Workers hold what they claimed: refusing them would cost more than letting them in.
  claimLeases: ({ max }) => claimOf(max),
  extendLeases: ({ leases }) => rows(leases.length),
  endLeases: weightOfEnds,
  resumeLeases: WHOLE_TABLES,
  touchWorkers: (uses) => rows(uses.length),
  claimAttempts: ({ lanes }) =>
    claimOf(lanes.reduce((sum, lane) => sum + lane.fresh + lane.retries, 0)),
  redeliver: { weight: 2, mayShed: true },
  stepRedeliveryOrder: STEP_WRITE,
  createSession: CLIENT_WRITE,
  touchSessions: (uses) => rows(uses.length),
  sampleQueues: STEP_WRITE,
  foldTraffic: STEP_WRITE,
  resumeClock: WHOLE_TABLES,
  shiftTimes: WHOLE_TABLES,
  hastenAttempts: WHOLE_TABLES,
  eraseExpired: ({ max }) => rows(max),
  eraseStale: ({ max }) => rows(2 * max),
} satisfies WeightOf;

/** How an operation counts in batch and backlog. */
export function submitOptionsOf(name: string, args: unknown): SubmitOptions {
  // The table is keyed by the names of writes, each with a function of that write's own arguments.
  const weights: Readonly<Record<string, SubmitOptions | ((args: never) => SubmitOptions)>> =
    WEIGHTS;
  const weight = weights[name] ?? ONE_ROW;
  return typeof weight === "function" ? weight(args as never) : weight;
}
