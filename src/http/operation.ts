import type { Inputs, InputValues, Nothing, OperationInputs } from "../api/input.ts";
import { type FieldsOf, INPUTS, type InputsOf, type OperationKey } from "../api/operations.ts";
import type { JsonSchema } from "../api/schema.ts";
import type { AccountLimits } from "../domain/account/quota.ts";
import type { RequestStatusCode, ResponseHeaders, StatusError } from "../domain/status.ts";
import type { AuditEntry, WorkerHolder } from "../store/store.ts";

/**
 * The callers of an operation:
 * - `public`: any caller;
 * - `account`: a holder of an account's key or session, and the operator in the name of an account (`X-Account`);
 * - `viewer`: the same, and the operator without naming an account, who then sees all of them;
 * - `operator`: a holder of the operator's session;
 * - `scraper`: the same, and a holder of the metrics' token;
 * - `worker`: a holder of a worker's token;
 * - `developer`: any caller except pages of other sites. For daemons whose every client controls them.
 * - `network`: every client that reaches the listener, except web pages. For metrics at an address of their own.
 */
export type Access =
  | "public"
  | "account"
  | "viewer"
  | "operator"
  | "scraper"
  | "worker"
  | "developer"
  | "network";

export interface AccountRef {
  readonly accountId: number;
  readonly login: string;
  readonly limits: AccountLimits;
}

/** How a request came to this daemon. */
export interface Arrival {
  /** For certain: over this server's own TLS, or because a trusted proxy says so. */
  readonly isHttps: boolean;
  /** Names the daemon's sessions: its port, or what the daemons have in common that share them. */
  readonly sessionScope: string;
}

export function takesBody({ body, json }: OperationInputs): boolean {
  return body !== undefined || json !== undefined;
}

/** True where the operation parses the body itself: any JSON within the limits, or a list that may take long. */
export function isParsedByOperation({ json, holds }: OperationInputs): boolean {
  return json !== undefined || holds === "leases" || holds === "results";
}

/** The call of an operation: everything that it learns about the request. */
export interface Call {
  /** The decoded parts of the path that the operation's path names. */
  readonly params: Readonly<Record<string, string>>;
  readonly now: number;
  /** HEAD: answered like GET, without a body and without effect. */
  readonly isHead: boolean;
  /** Every value of a header, by its name in lower case. */
  readonly headers: (name: string) => readonly string[];
  /** The client's address, from behind the trusted proxies, by which limits count: of IPv6 the /64, or so many bits. */
  readonly clientKey: (prefixBits?: 48 | 64) => string;
  readonly arrival: () => Arrival;
  /** Aborted when the client disconnects. */
  readonly gone: () => AbortSignal;
  readonly room: CallRoom;
  /** To be called before an answer that was held: throws the refusal that the same credentials would get by now. */
  readonly admitAgain: () => Promise<void>;
  /** The entry of the audit about what the caller does with this request. */
  readonly audit: (
    action: AuditEntry["action"],
    subject: string | null,
    details?: AuditEntry["details"],
  ) => AuditEntry;
}

/** The room that a request occupies; see `RequestRoom`. */
export interface CallRoom {
  /**
   * To be awaited before anything large is read for an answer that has waited, or is no GET's: throws 42900 or 50300.
   */
  forAnswer(): Promise<void>;
  /** The refusal of a request that wants to wait: 42900. Null when it may wait. */
  waitRefusal(): StatusError | null;
  /** Holds a waiting place while this waits. Throws {@link CallRoom.waitRefusal}. */
  whileWaiting<T>(begin: () => Promise<T>): Promise<T>;
}

/** A person who looks on, for as long as the answer takes. */
export interface Viewer {
  /** The account that is shown; null for all accounts. */
  readonly scope: AccountRef | null;
  /** The operator may look at one account's things too. */
  readonly isOperator: boolean;
  /** The key or session of the request, by a name that is not secret: streams are counted by it. */
  readonly credential: string;
}

/** The caller as an operation learns of it, by its access; others learn nothing. */
interface CallerOf {
  readonly account: { readonly holder: AccountRef };
  readonly viewer: Viewer;
  readonly worker: { readonly worker: WorkerHolder };
}

export type Caller = CallerOf[keyof CallerOf] | Nothing;

/** The call of an operation with this access that takes this. */
type CallOf<Who extends Access, Taken> = Call &
  QueryGiven<Taken> &
  (Who extends keyof CallerOf ? CallerOf[Who] : unknown) &
  BodyGiven<Taken>;

type QueryGiven<Taken> = Taken extends { readonly query: infer Query extends Inputs }
  ? { readonly query: InputValues<Query> }
  : unknown;

/** A body as operations are given it: its bytes, its fields, or nothing where they take none. */
export type GivenBody = BytesGiven | { readonly body: InputValues<Inputs> } | Nothing;

interface BytesGiven {
  readonly bodyBytes: Uint8Array;
}

/** A body that is handed to the operation as it came. */
type ParsedByOperation = { readonly json: unknown } | { readonly holds: "leases" | "results" };

type BodyGiven<Taken> = Taken extends ParsedByOperation
  ? BytesGiven
  : Taken extends { readonly body: infer Fields extends Inputs }
    ? { readonly body: InputValues<Fields> }
    : unknown;

type AnyCall = Call & { readonly query: InputValues<Inputs> };

/** An answer to a client; `text` is JSON unless it has a `contentType`, or empty for 304 and beside `bytes` or a `stream`. */
export interface WholeAnswer {
  readonly status: number;
  readonly text: string;
  /** Sent instead of the text and never copied: for large content, or content of many answers. */
  readonly bytes?: Uint8Array;
  readonly headers?: ResponseHeaders;
  readonly contentType?: string;
  /** Sent instead of the text. */
  readonly stream?: AnswerStream;
}

/** The own fields of a response by its schema; the envelope goes around them. */
export interface FieldsAnswer<Fields> {
  readonly fields: Fields;
  readonly headers?: ResponseHeaders;
}

/** An answer that goes on until it is closed, or until its client hangs up. */
export interface AnswerStream {
  readonly contentType: string;
  /** Called once, and never for a HEAD; may throw a StatusError. Cancelled when the client disconnects. */
  open(): ReadableStream<Uint8Array>;
}

export interface HeaderDoc {
  readonly description: string;
  /** Any text unless given. */
  readonly schema?: JsonSchema;
}

export interface AnswerHeaderDoc extends HeaderDoc {
  /** True when every 200 has it; otherwise it may be missing. */
  readonly isAlways?: boolean;
}

export interface ParamDoc {
  readonly description: string;
  readonly schema: JsonSchema;
  readonly example: string;
}

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
    | "Health"
    | "Development";
  readonly summary: string;
  readonly description: string;
  readonly params?: Readonly<Record<string, ParamDoc>>;
  /** Request headers that it reads; if its answers have an ETag, `If-None-Match` is implied. */
  readonly headers?: Readonly<Record<string, HeaderDoc>>;
  /** The media type of a 200; JSON unless given. */
  readonly answerType?: string;
  /** Headers of a 200. With an `ETag` among them, the response to `If-None-Match` may be 304. */
  readonly answerHeaders?: Readonly<Record<string, AnswerHeaderDoc>>;
  /** Named bodies of a 200. */
  readonly answerExamples?: Readonly<Record<string, unknown>>;
  /** Codes of refused requests beyond those that follow from the rules. */
  readonly codes?: readonly RequestStatusCode[];
  /** Responses that are neither a 200 nor an error of the status table, by their HTTP status. */
  readonly otherAnswers?: Readonly<
    Record<number, { readonly description: string; readonly schema: JsonSchema }>
  >;
  /** Named bodies that work. */
  readonly examples?: Readonly<Record<string, unknown>>;
  /** Requests that the daemon sends in return, as OpenAPI has them. */
  readonly callbacks?: JsonSchema;
}

/** The callers of an operation, and what is special about it. */
interface Declaration<Who extends Access> {
  readonly access: Who;
  /** It is there while the dashboard is served only; what is for operators is so without saying. */
  readonly isDashboard?: true;
  /** Machines call it to know whether the daemon is well: it is answered even when there is room for nothing else. */
  readonly isHealthCheck?: true;
  /**
   * It is about the session itself: a browser without a cookie is refused here for the same reasons as one with a
   * cookie elsewhere.
   */
  readonly isSignIn?: true;
  /** How many tasks its body may have, for a body of tasks. */
  readonly tasksMax?: number;
}

/** One method of one path: who may call it, what it takes, and what it does. */
export interface Operation extends Declaration<Access> {
  readonly method: string;
  /** As h3 routes it; `:name` stands for a part of the path. */
  readonly path: string;
  readonly takes: OperationInputs;
  readonly doc: OperationDoc;
  handle(call: AnyCall): MaybePromise<WholeAnswer | FieldsAnswer<AnyFields>>;
}

type MaybePromise<Value> = Value | Promise<Value>;

export type AnyFields = FieldsOf<OperationKey>;

/** True for operations that require HTTPS if HTTPS is served: all except health checks and the document. */
export function isForHttpsAlone({ access, path }: Pick<Operation, "access" | "path">): boolean {
  return access !== "public" || path.startsWith("/v1/");
}

/** True for answers to credentials: they hold data of accounts, so no cache may keep them. */
export function isKeptByNobody({
  access,
  isSignIn,
}: Pick<Operation, "access" | "isSignIn">): boolean {
  return access !== "public" || isSignIn === true;
}

/** An operation without what it takes: the api ring has that, and its answer, by its method and path. */
interface Defined<Who extends Access, Key extends OperationKey>
  extends Declaration<Who>, Omit<OperationDoc, "group"> {
  /** By its access unless given. */
  readonly group?: OperationDoc["group"];
  handle(call: CallOf<Who, InputsOf<Key>>): MaybePromise<WholeAnswer | FieldsAnswer<FieldsOf<Key>>>;
}

const GROUP_OF: Readonly<Record<Access, OperationDoc["group"]>> = {
  public: "Reference",
  account: "Tasks",
  viewer: "Dashboard",
  operator: "Operator",
  scraper: "Operator",
  worker: "Workers",
  developer: "Development",
  network: "Operator",
};

/** Takes an operation in with what the api ring says that it takes and answers. */
export function defineOperation<const Who extends Access, const Key extends OperationKey>(
  key: Key,
  defined: Defined<Who, Key>,
): Operation {
  const table: Readonly<Record<string, OperationInputs>> = INPUTS;
  const [method, path] = key.split(" ");
  const { access, isDashboard, isHealthCheck, isSignIn, tasksMax, handle, ...own } = defined;
  const doc: OperationDoc = { group: GROUP_OF[access], ...own };
  const declared = { access, isDashboard, isHealthCheck, isSignIn, tasksMax, handle };
  // app.ts makes each call by these very inputs, so the call has what `handle` was promised.
  return { ...declared, method, path, doc, takes: table[key] ?? {} } as unknown as Operation;
}
