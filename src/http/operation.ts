import type { KeyHolder } from "../domain/credentials.ts";
import type { RequestStatusCode, ResponseHeaders } from "../domain/status.ts";
import type { WorkerHolder } from "../store/store.ts";
import type { FieldRules, FieldValues } from "./fields.ts";
import type { JsonSchema } from "./json-schema.ts";
import type { QueryRules, QueryValues } from "./query.ts";

/** Who may call: everybody, who holds a key of an account, or who holds a worker's token. */
export type Access = "public" | "account" | "worker";

/** What body an operation takes. */
export type BodyRule =
  | { readonly kind: "none" }
  /** Any JSON within the limits, for an operation with a parser of its own. */
  | { readonly kind: "json"; readonly schema: JsonSchema }
  /** An object of these fields. Where it is optional no body is the same as `{}`. */
  | {
      readonly kind: "fields";
      readonly fields: FieldRules;
      readonly isOptional: boolean;
      /** It holds results of tasks, so more may be in it: see body.ts. */
      readonly hasResults?: true;
    };

/** For operations that take no body. */
export const NO_BODY = { kind: "none" } as const satisfies BodyRule;

/** What every operation is told about the request that calls it. */
export interface Call {
  /** The parts of the path that the operation's path names, decoded. */
  readonly params: Readonly<Record<string, string>>;
  /** The time at which the request is judged. */
  readonly now: number;
  /** HEAD: answered like GET, without a body and without effect. */
  readonly isHead: boolean;
  /** Every value of a header, by its name in lower case. */
  readonly headers: (name: string) => readonly string[];
  /** The client's address, from behind the trusted proxies; what limits count by. */
  readonly clientKey: () => string;
  /** Aborted when the client hangs up. */
  readonly gone: () => AbortSignal;
}

/** What an operation with this access and these rules is told. */
export type CallOf<Who extends Access, Query extends QueryRules, Body extends BodyRule> = Call & {
  readonly query: QueryValues<Query>;
} & (Who extends "account" ? { readonly holder: KeyHolder } : unknown) &
  (Who extends "worker" ? { readonly worker: WorkerHolder } : unknown) &
  BodyOf<Body>;

type BodyOf<Body extends BodyRule> = Body extends { kind: "json" }
  ? { readonly body: unknown; readonly bodyBytes: Uint8Array }
  : Body extends { kind: "fields"; fields: infer Fields extends FieldRules }
    ? { readonly body: FieldValues<Fields> }
    : unknown;

/** What a client is answered; `text` is JSON, or empty for 304. */
export interface Answer {
  readonly status: number;
  readonly text: string;
  readonly headers?: ResponseHeaders;
}

/** What the document says of a header. */
export interface HeaderDoc {
  readonly description: string;
  /** Any text unless it says more. */
  readonly schema?: JsonSchema;
}

/** What the document says of a header of an answer. */
export interface AnswerHeaderDoc extends HeaderDoc {
  /** It is there with every 200; without this it may be missing. */
  readonly isAlways?: boolean;
}

/** What the document says of a named part of a path. */
export interface ParamDoc {
  readonly description: string;
  readonly schema: JsonSchema;
  readonly example: string;
}

/** What the API's document says of an operation, beyond its path and rules. */
export interface OperationDoc {
  /** Unique; a verb and a noun in camel case. */
  readonly id: string;
  readonly group: "Tasks" | "Account" | "Reference" | "Access" | "Workers" | "Health";
  readonly summary: string;
  readonly description: string;
  /** The named parts of the path. */
  readonly params?: Readonly<Record<string, ParamDoc>>;
  /** Request headers that it reads; where its answers have an ETag, `If-None-Match` goes without saying. */
  readonly headers?: Readonly<Record<string, HeaderDoc>>;
  /** The body of a 200. */
  readonly answer: JsonSchema;
  /** Headers of a 200. With an `ETag` among them, `If-None-Match` may be answered with 304. */
  readonly answerHeaders?: Readonly<Record<string, AnswerHeaderDoc>>;
  /** Bodies of a 200, by a name each. */
  readonly answerExamples?: Readonly<Record<string, unknown>>;
  /** Codes of refused requests beyond those that follow from the rules. */
  readonly codes: readonly RequestStatusCode[];
  /** Answers that are neither a 200 nor an error of the status table, by their HTTP status. */
  readonly otherAnswers?: Readonly<
    Record<number, { readonly description: string; readonly schema: JsonSchema }>
  >;
  /** Bodies that work, by a name each. */
  readonly examples?: Readonly<Record<string, unknown>>;
  /** Requests that the daemon sends in return, as OpenAPI has them. */
  readonly callbacks?: JsonSchema;
}

/** One method of one path: who may call it, what it takes, what it does, and what is said of it. */
export interface Operation<
  Who extends Access = Access,
  Query extends QueryRules = QueryRules,
  Body extends BodyRule = BodyRule,
> {
  readonly method: "GET" | "POST" | "DELETE";
  /** As h3 routes it; `:name` stands for a part of the path. */
  readonly path: string;
  readonly access: Who;
  readonly query: Query;
  readonly body: Body;
  readonly doc: OperationDoc;
  // A method, not a property: the table holds operations whose calls are told more than any other's.
  handle(call: CallOf<Who, Query, Body>): Promise<Answer> | Answer;
}

/** Takes an operation in with the types that its rules give its call. */
export function defineOperation<
  const Who extends Access,
  const Query extends QueryRules,
  const Body extends BodyRule,
>(operation: Operation<Who, Query, Body>): Operation {
  // app.ts makes each call by these very rules, so the call has what `handle` was promised.
  return operation as unknown as Operation;
}
