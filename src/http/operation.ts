import type { FieldsOf, OperationKey } from "../api/answers.ts";
import type { Inputs, InputValues, OperationInputs } from "../api/input.ts";
import { INPUTS, type InputsOf } from "../api/inputs.ts";
import type { JsonSchema } from "../api/schema.ts";
import type { AccountLimits } from "../domain/account/quota.ts";
import type { RequestStatusCode, ResponseHeaders, StatusError } from "../domain/status.ts";
import type { WorkerHolder } from "../store/store.ts";

/**
 * Who may call:
 * - `public`: everybody;
 * - `account`: who holds a key of an account or a session of it, and the operator in the name of one (`X-Account`);
 * - `viewer`: the same, and the operator without naming an account, who then sees all of them;
 * - `operator`: who holds a session of the operator;
 * - `worker`: who holds a worker's token.
 */
export type Access = "public" | "account" | "viewer" | "operator" | "worker";

/** The account that a request acts for. */
export interface AccountRef {
  readonly accountId: number;
  readonly login: string;
  readonly limits: AccountLimits;
}

/** How a request came to this daemon. */
export interface Arrival {
  /** For certain: over TLS of its own, or a trusted proxy says so. */
  readonly isHttps: boolean;
  /** Of this machine. */
  readonly port: number;
}

/** What body an operation takes. */
export type BodyRule =
  | { readonly kind: "none" }
  /** Any JSON within the limits, which the operation parses itself. */
  | { readonly kind: "json"; readonly schema: JsonSchema }
  | FieldsRule;

/** An object of these fields, of none of which a number is given back but in results. */
interface FieldsRule extends Pick<OperationInputs, "holds"> {
  readonly kind: "fields";
  readonly fields: Inputs;
  /** No body is the same as `{}`. */
  readonly isOptional: boolean;
}

/** True where the operation parses the body itself. */
export function isParsedByOperation(rule: BodyRule): boolean {
  if (rule.kind !== "fields") return rule.kind === "json";
  return rule.holds === "leases" || rule.holds === "results";
}

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
  /** Over what it came, and to which port. */
  readonly arrival: () => Arrival;
  /** Aborted when the client hangs up. */
  readonly gone: () => AbortSignal;
  readonly room: CallRoom;
  /** To be asked before an answer that was held: throws what the same credentials are refused with by now. */
  readonly admitAgain: () => Promise<void>;
}

/** The room that a request takes up; see request-room.ts. */
export interface CallRoom {
  /** To be awaited before what may be large is read for an answer that has waited, or is no GET's: 42900 or 50300. */
  forAnswer(): Promise<void>;
  /** What a request that wants to wait is to be refused with: 42900. Null where it may. */
  waitRefusal(): StatusError | null;
  /** Takes a place among those that wait while this does. Throws {@link CallRoom.waitRefusal}. */
  whileWaiting<T>(begin: () => Promise<T>): Promise<T>;
}

/** Who looks on, for as long as the answer takes. */
export interface Viewer {
  /** Whose things are shown; null: those of all accounts. */
  readonly scope: AccountRef | null;
  /** The operator may look at one account's things too. */
  readonly isOperator: boolean;
  /** The key or the session that was shown, by a name that is no secret: what streams are counted by. */
  readonly credential: string;
}

/** What an operation is told of who calls it, by its access; those with another are told nothing. */
interface CallerOf {
  readonly account: { readonly holder: AccountRef };
  readonly viewer: Viewer;
  readonly worker: { readonly worker: WorkerHolder };
}

type Nothing = Readonly<Record<string, never>>;

/** What some operation is told of who calls it. */
export type Caller = CallerOf[keyof CallerOf] | Nothing;

/** What an operation with this access that takes this is told. */
type CallOf<Who extends Access, Taken> = Call &
  QueryGiven<Taken> &
  (Who extends keyof CallerOf ? CallerOf[Who] : unknown) &
  BodyGiven<Taken>;

type QueryGiven<Taken> = Taken extends { readonly query: infer Query extends Inputs }
  ? { readonly query: InputValues<Query> }
  : unknown;

/** What operations are given of a body: its bytes, its fields, or nothing where they take none. */
export type GivenBody = BytesGiven | { readonly body: InputValues<Inputs> } | Nothing;

interface BytesGiven {
  readonly bodyBytes: Uint8Array;
}

/** What is handed to the operation as it came. */
type ParsedByOperation = { readonly json: unknown } | { readonly holds: "leases" | "results" };

type BodyGiven<Taken> = Taken extends ParsedByOperation
  ? BytesGiven
  : Taken extends { readonly body: infer Fields extends Inputs }
    ? { readonly body: InputValues<Fields> }
    : unknown;

/** What any operation is told. */
type AnyCall = Call & { readonly query: InputValues<Inputs> };

/** What a client is answered; `text` is JSON, or empty for 304 and beside `bytes` or a `stream`. */
export interface Answer {
  readonly status: number;
  readonly text: string;
  /** Sent instead of the text and never copied: for what is large, or the same in many answers. */
  readonly bytes?: Uint8Array;
  readonly headers?: ResponseHeaders;
  /** What is sent instead of the text. */
  readonly stream?: AnswerStream;
}

/** The own fields of an answer by its schema; the envelope goes around them. */
export interface FieldsAnswer<Fields> {
  readonly fields: Fields;
  readonly headers?: ResponseHeaders;
}

/** An answer that goes on until it is closed, or until its client hangs up. */
export interface AnswerStream {
  readonly contentType: string;
  /** Called once, and never for a HEAD; may throw a StatusError. Cancelled when the client hangs up. */
  open(): ReadableStream<Uint8Array>;
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
  readonly group:
    | "Tasks"
    | "Account"
    | "Reference"
    | "Access"
    | "Workers"
    | "Dashboard"
    | "Operator"
    | "Health";
  readonly summary: string;
  readonly description: string;
  /** The named parts of the path. */
  readonly params?: Readonly<Record<string, ParamDoc>>;
  /** Request headers that it reads; where its answers have an ETag, `If-None-Match` goes without saying. */
  readonly headers?: Readonly<Record<string, HeaderDoc>>;
  /** What the body of a 200 is; JSON unless it says more. */
  readonly answerType?: string;
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

/** One method of one path: who may call it, what it does, and what is said of it. */
interface Declaration<Who extends Access, Verb extends Method, Path extends string> {
  readonly method: Verb;
  /** As h3 routes it; `:name` stands for a part of the path. */
  readonly path: Path;
  readonly access: Who;
  /** It is there while the dashboard is served only; what is for operators is so without saying. */
  readonly isDashboard?: true;
  /** Machines ask it to know whether the daemon is well: it is answered when there is room for nothing else. */
  readonly isHealthCheck?: true;
  /** It is about the session itself, so all that browsers are refused with a cookie they are refused here without one. */
  readonly isSignIn?: true;
  readonly doc: OperationDoc;
}

/** An operation, and what it takes. */
export interface Operation extends Declaration<Access, Method, string> {
  readonly query: Inputs;
  readonly body: BodyRule;
  handle(call: AnyCall): MaybePromise<Answer | FieldsAnswer<AnyFields>>;
}

type Method = "GET" | "POST" | "DELETE";
type MaybePromise<Value> = Value | Promise<Value>;

/** The paths of the operations with this method. */
type PathOf<Verb extends Method> = OperationKey extends infer Key
  ? Key extends `${Verb} ${infer Path}`
    ? Path
    : never
  : never;

/** The own fields of some operation's answer. */
export type AnyFields = FieldsOf<OperationKey>;

/** True for what is answered to credentials: it holds data of accounts, so no cache may keep it. */
export function isKeptByNobody({
  access,
  isSignIn,
}: Pick<Operation, "access" | "isSignIn">): boolean {
  return access !== "public" || isSignIn === true;
}

type KeyAt<Verb extends Method, Path extends string> = Extract<`${Verb} ${Path}`, OperationKey>;

/** An operation without what it takes: the api ring has that, and its answer, by its method and path. */
interface Defined<Who extends Access, Verb extends Method, Path extends string> extends Declaration<
  Who,
  Verb,
  Path
> {
  /** How many tasks its body may hold, where that is a number of tasks. */
  readonly tasksMax?: number;
  handle(
    call: CallOf<Who, InputsOf<KeyAt<Verb, Path>>>,
  ): MaybePromise<Answer | FieldsAnswer<FieldsOf<KeyAt<Verb, Path>>>>;
}

/** Takes an operation in with what the api ring says that it takes and answers. */
export function defineOperation<
  const Who extends Access,
  const Verb extends Method,
  const Path extends PathOf<Verb>,
>({ tasksMax = 0, ...defined }: Defined<Who, Verb, Path>): Operation {
  const table: Readonly<Record<string, OperationInputs>> = INPUTS;
  const taken = table[`${defined.method} ${defined.path}`] ?? {};
  const operation = { ...defined, query: taken.query ?? {}, body: bodyRule(taken, tasksMax) };
  // app.ts makes each call by these very rules, so the call has what `handle` was promised.
  return operation as unknown as Operation;
}

function bodyRule(
  { body, isBodyOptional, holds, json }: OperationInputs,
  tasksMax: number,
): BodyRule {
  if (json !== undefined) return { kind: "json", schema: json(tasksMax) };
  if (body === undefined) return { kind: "none" };
  const rule = { kind: "fields", fields: body, isOptional: isBodyOptional === true } as const;
  return holds === undefined ? rule : { ...rule, holds };
}
