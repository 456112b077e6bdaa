/**
 * The API's requests and answers, by method and path, as far as an account's holder may use it. The package's types of
 * this file are written from the same schemas, with their descriptions (scripts/package-types.ts).
 */
import type { AnswerOf, BodyOf, OperationKey, QueryOf } from "../api/operations.ts";

export type { StatusCode as Code } from "../domain/status.ts";

/** The operations of the operator, to workers and to the browser's sessions. */
type Others = `${string} /${"v1/operator" | "v1/worker" | "v1/session" | "metrics"}${string}`;

/** An operation, as `METHOD /path`. */
export type Operation = Exclude<OperationKey, Others>;

/** The body of each operation's 200. */
export type Answers = { readonly [Key in Operation]: AnswerOf<Key> };

/** The parameters of each operation's query. */
export type Queries = { readonly [Key in Operation]: QueryOf<Key> };

/** The body that each operation takes; undefined where it may, or must, have none. */
export type Bodies = { readonly [Key in Operation]: BodyOf<Key> };
