import type { WorkChanges } from "../../domain/stats/work-counts.ts";
import type { SizedRow } from "../common/list.ts";
import type { Store } from "../store.ts";
import type { Statement, Values } from "./statement.ts";

/**
 * A read or write of the store as a generator: it yields statements and receives their results. SQLite runs it
 * synchronously, PostgreSQL asynchronously. A write runs inside the transaction of its batch.
 */
export type UseCase<Result> = Generator<Request, Result, unknown>;

/** The value that a use case yields: one statement, or use cases that PostgreSQL may run concurrently. */
export type Request = Call | readonly UseCase<unknown>[];

export interface Call {
  readonly kind: "all" | "within" | "get" | "run" | "send";
  readonly statement: Statement;
  readonly values: Values;
}

export function isCall(request: Request): request is Call {
  return !Array.isArray(request);
}

/** The results of a statement that a database does not need. */
export const NO_RESULTS = { all: [], within: [], get: undefined, run: 0, send: undefined } as const;
export type NoResult = (typeof NO_RESULTS)[Call["kind"]];

/** The batch in which writes run. */
export interface Batch {
  readonly changes: WorkChanges & {
    /** The accounts whose tasks and deliveries changed, for listeners. A change of a count adds its account itself. */
    readonly changed: Set<number>;
  };
  /** A number for a new row; null on SQLite, which numbers rows itself. */
  nextSeq(): number | null;
  /** The stripe of the sums on PostgreSQL. */
  readonly stripe: number | null;
}

/** Use cases by the names of the store's methods, with their arguments and results. */
export type StoreUseCases = {
  readonly [Name in keyof Store]?: Store[Name] extends (
    ...args: infer Args
  ) => Promise<infer Result>
    ? (...args: Args) => UseCase<Result>
    : never;
};

/** Returns the rows. */
export function* all<Row>(statement: Statement, values: Values = {}): UseCase<readonly Row[]> {
  // The statement's text determines its rows.
  return (yield { kind: "all", statement, values }) as readonly Row[];
}

/**
 * Returns the first rows, as many as one step may erase. SQLite computes no row after them, because the size of a task is
 * a sum over its attempts.
 */
export function* within<Row extends Pick<SizedRow, "bytes">>(
  statement: Statement,
  values: Values = {},
): UseCase<readonly Row[]> {
  return (yield { kind: "within", statement, values }) as readonly Row[];
}

/** Returns the first row; undefined if it does not exist. */
export function* get<Row>(statement: Statement, values: Values = {}): UseCase<Row | undefined> {
  return (yield { kind: "get", statement, values }) as Row | undefined;
}

/** Returns how many rows the statement wrote. */
export function* run(statement: Statement, values: Values = {}): UseCase<number> {
  return (yield { kind: "run", statement, values }) as number;
}

/** Runs a statement of a write without its result: on PostgreSQL it is sent with the next ones. */
export function* send(statement: Statement, values: Values = {}): UseCase<void> {
  yield { kind: "send", statement, values };
}

/** Runs use cases concurrently on PostgreSQL, one after the other on SQLite. */
export function* together<Results extends readonly unknown[]>(
  ...useCases: { readonly [Index in keyof Results]: UseCase<Results[Index]> }
): UseCase<Results> {
  return (yield useCases) as Results;
}
