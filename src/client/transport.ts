import type { Answers, Bodies, Operation, Queries } from "./api.ts";
import { type Access, type FieldError, PostbackdError } from "./settings.ts";

/** The options of every method, beside its own. */
export interface CallOptions {
  /** Aborts the call and its wait. */
  readonly signal?: AbortSignal | undefined;
}

/** The part of its path that an operation names. */
type ParamOf<Key extends Operation> = Key extends `${string}/:${infer Rest}`
  ? Rest extends `${infer Name}/${string}`
    ? Name
    : Rest
  : never;

/** A request, by what its operation takes. */
export type CallRequest<Key extends Operation> = Call & {
  readonly query?: Queries[Key];
} & (undefined extends Bodies[Key]
    ? { readonly body?: Bodies[Key] }
    : { readonly body: Bodies[Key] | JsonText }) &
  ([ParamOf<Key>] extends [never]
    ? { readonly params?: never }
    : { readonly params: Readonly<Record<ParamOf<Key>, string>> });

interface Call extends CallOptions {
  readonly headers?: Readonly<Record<string, string>>;
  /** Checks of the fields that the caller reads; the call rejects if one of them fails. */
  readonly shape?: Shape;
  /** A POST that does the same however often it comes; every GET and DELETE does. */
  readonly isRepeatable?: true;
}

/** A body that was written before. */
export class JsonText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** The same for any operation. */
interface AnyRequest extends Call {
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: object;
  readonly body?: unknown;
}

/** Sends requests to one daemon, with one key or without. */
export interface Transport {
  /** An operation's answer. Rejects with a {@link PostbackdError}, or with the reason of the signal. */
  call<const Key extends Operation>(
    operation: Key,
    request: CallRequest<Key>,
  ): Promise<Answers[Key]>;
  /** An answer that goes on; the caller reads it or cancels it. */
  open<const Key extends Operation>(operation: Key, request: CallRequest<Key>): Promise<Response>;
}

/** An answer may be held for half a minute (`Prefer: wait`), and a large one takes its time. */
const TRY_MS_MAX = 120_000;
const BACKOFF_MS = 250;
const BACKOFF_MS_MAX = 10_000;
/** When the daemon asks for a longer wait, the caller decides. */
const RETRY_AFTER_SECONDS_MAX = 60;

export function createTransport(access: Access): Transport {
  const { base, retries } = access;
  return {
    call: <Key extends Operation>(operation: Key, request: CallRequest<Key>) =>
      repeated({ retries, operation, ...request }, () =>
        withDeadline(TRY_MS_MAX, request.signal, async (signal) => {
          const response = await answerOf(access, operation, { ...request, signal });
          const answer = await readObject(base, response);
          const isRead = Object.entries(request.shape ?? {}).every(([name, isFine]) =>
            isFine(Reflect.get(answer, name)),
          );
          if (!isRead || !hasHead(operation, answer)) throw otherShape(response);
          // The daemon's own schemas say so.
          return answer as Answers[Key];
        }),
      ),
    open: (operation, request) =>
      repeated({ retries, operation, ...request }, () => answerOf(access, operation, request)),
  };
}

interface Tries extends Pick<Call, "isRepeatable" | "signal"> {
  readonly retries: number;
  readonly operation: Operation;
}

/** Tries until there is an answer, or no sense in another try. */
async function repeated<Result>(
  { retries, operation, isRepeatable, signal }: Tries,
  attempt: () => Promise<Result>,
): Promise<Result> {
  const isSafe = isRepeatable === true || !operation.startsWith("POST ");
  for (let failures = 0; ; failures++) {
    try {
      return await attempt();
    } catch (error) {
      signal?.throwIfAborted();
      if (!(error instanceof PostbackdError)) throw error;
      if (failures >= retries || !isWorthAnotherTry(error, isSafe)) throw error;
      await pause(waitMs(failures, error), signal);
    }
  }
}

function isWorthAnotherTry({ status, retryAfterSeconds }: PostbackdError, isSafe: boolean) {
  if ((retryAfterSeconds ?? 0) > RETRY_AFTER_SECONDS_MAX) return false;
  // A request above the limit did nothing; the effect of the other requests is unknown.
  if (status === 429) return true;
  return isSafe && (status === null || status === 502 || status === 503 || status === 504);
}

/** Shortened at random by up to a half, so that many clients do not come back in step. */
function waitMs(failures: number, { retryAfterSeconds }: PostbackdError): number {
  const backoffMs = Math.min(BACKOFF_MS * 2 ** failures, BACKOFF_MS_MAX);
  return Math.max(backoffMs * (1 - Math.random() / 2), (retryAfterSeconds ?? 0) * 1000);
}

/** The response to one request, which is a 200. */
async function answerOf(
  { base, authorization, send }: Access,
  operation: Operation,
  request: AnyRequest,
): Promise<Response> {
  const { body, headers, signal } = request;
  const [method = "", path = ""] = operation.split(" ");
  const type = body === undefined ? {} : { "Content-Type": "application/json" };
  const credentials = authorization === null ? {} : { Authorization: authorization };
  const init: RequestInit = {
    method,
    headers: { ...credentials, ...type, ...headers },
    // Not followed: the key is for this daemon alone. Some workers do not know "error".
    redirect: "manual",
  };
  // In a page the browser would add its cookie, and after a 401 ask the reader for a password and hang until then.
  // Some workers do not know it either, and refuse it.
  if ("credentials" in Request.prototype) init.credentials = "omit";
  if (body !== undefined) init.body = body instanceof JsonText ? body.text : JSON.stringify(body);
  if (signal !== undefined) init.signal = signal;
  let response: Response;
  try {
    response = await send(base + targetOf(path, request), init);
  } catch (cause) {
    throw unreachable(base, cause);
  }
  if (response.ok) return response;
  throw await refusalOf(base, response);
}

function targetOf(path: string, { params = {}, query = {} }: AnyRequest): string {
  const filled = path.replaceAll(/:(\w+)/g, (_, name: string) =>
    encodeURIComponent(params[name] ?? ""),
  );
  const given = Object.entries(query).filter(([, value]) => value !== undefined);
  const texts = given.map(([name, value]): [string, string] => [name, String(value)]);
  const search = new URLSearchParams(texts);
  return given.length === 0 ? filled : `${filled}?${search.toString()}`;
}

function unreachable(base: string, cause: unknown): PostbackdError {
  const message = `The daemon at ${base} does not respond (${reasonOf(cause)}): is it running, and is the url correct?`;
  return new PostbackdError(message, { cause });
}

interface Thrown {
  readonly message?: unknown;
  readonly code?: unknown;
  readonly cause?: unknown;
}

/** Node says only "fetch failed", and why in the cause. Both may be errors of another realm. */
function reasonOf(error: unknown): string {
  const { message = error, cause }: Thrown = Object(error);
  // Of several addresses that were tried it has no message.
  const { message: why, code }: Thrown = Object(cause);
  return String(why || (code ?? message));
}

async function refusalOf(base: string, response: Response): Promise<PostbackdError> {
  const { status, type } = response;
  if (type === "opaqueredirect" || (status >= 300 && status < 400)) {
    const message = `The daemon at ${base} redirects (HTTP ${status}): pass the url that the redirect leads to. The client does not follow redirects, because it would send the key there.`;
    return new PostbackdError(message, factsOf(response));
  }
  const { code, message, errors } = readRefusal(await readObject(base, response));
  const [first] = errors;
  const isNews = first !== undefined && !message.includes(first.detail);
  const text = (message || `HTTP ${status}`) + (isNews ? ` ${first.detail}` : "");
  return new PostbackdError(text, { ...factsOf(response), code, errors });
}

/** The words of a refused request's answer: a proxy's JSON says something else. */
function readRefusal(answer: object) {
  const { status_code: code, status_message: message, errors }: Refusal = answer;
  return {
    code: typeof code === "number" ? code : null,
    message: typeof message === "string" ? message : "",
    errors: Array.isArray(errors) ? errors.filter(isFieldError) : [],
  };
}

function isFieldError(value: unknown): value is FieldError {
  const { pointer, detail }: { readonly [Name in keyof FieldError]?: unknown } = Object(value);
  return typeof pointer === "string" && typeof detail === "string";
}

interface Refusal {
  readonly status_code?: unknown;
  readonly status_message?: unknown;
  readonly errors?: unknown;
}

// A proxy or another program may respond with JSON of its own.
function hasHead(operation: Operation, answer: object): boolean {
  const isBare = !/ \/(v1|dev)\//.test(operation);
  return isBare || ("status_code" in answer && typeof answer.status_code === "number");
}

async function readObject(base: string, response: Response): Promise<object> {
  const text = await textOf(base, response);
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return value;
  } catch {
    // A proxy in between answers in another form, or the URL is another program's.
  }
  throw otherShape(response);
}

/** The error about a response that is not one of postbackd. */
export function otherShape(response: Response): PostbackdError {
  const message = `HTTP ${response.status} without a response of postbackd: does a proxy or another program serve this url?`;
  return new PostbackdError(message, factsOf(response));
}

/** The body; an incomplete one is not a response. */
async function textOf(base: string, response: Response): Promise<string> {
  try {
    return await response.text();
  } catch (cause) {
    throw unreachable(base, cause);
  }
}

function factsOf({ status, headers }: Response) {
  const seconds = headers.get("retry-after") ?? "";
  return {
    status,
    requestId: headers.get("x-request-id"),
    retryAfterSeconds: /^\d{1,9}$/.test(seconds) ? Number(seconds) : null,
  };
}

// Kept since the load, as in domain/clock/timers.ts, which has names of Node.
const { setTimeout, clearTimeout } = globalThis;

/** Milliseconds since the epoch. */
export const dateNow: () => number = globalThis.Date.now;

/** Resolves after so many milliseconds; rejects with the signal's reason as soon as that is aborted. */
export function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, ms);
    if (signal?.aborted === true) abort();
    else signal?.addEventListener("abort", abort, { once: true });
  });
}

/** Does something that is broken off after so many milliseconds, or when the signal is aborted. */
export async function withDeadline<Result>(
  ms: number,
  signal: AbortSignal | undefined,
  action: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  signal?.throwIfAborted();
  const controller = new AbortController();
  const abort = (): void => controller.abort(signal?.reason);
  const late = new DOMException(
    `The daemon did not respond within ${ms / 1000} s.`,
    "TimeoutError",
  );
  const timer = setTimeout(() => controller.abort(late), ms);
  signal?.addEventListener("abort", abort, { once: true });
  try {
    return await action(controller.signal);
  } finally {
    clearTimeout(timer);
    // A signal may outlive thousands of requests.
    signal?.removeEventListener("abort", abort);
  }
}

/** Checks of the fields that the client reads of a response, by their names. */
export type Shape = Readonly<Record<string, (value: unknown) => boolean>>;

export function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null;
}

export function isText(value: unknown): boolean {
  return typeof value === "string";
}

export function isNumber(value: unknown): boolean {
  return typeof value === "number";
}

export function isCursor(value: unknown): boolean {
  return value === null || isText(value);
}

/** The check of a list whose items pass. */
export function listOf(isItem: (value: unknown) => boolean, length?: number): Shape[string] {
  return (value) =>
    Array.isArray(value) &&
    value.every(isItem) &&
    (length === undefined || value.length === length);
}

/** True for a task with the fields that the client itself reads. */
export function isTask(value: unknown): boolean {
  const { id, state, status_message: message, error }: ReadTask = Object(value);
  return isText(id) && isText(state) && isText(message) && isObject(error ?? {});
}

interface ReadTask {
  readonly id?: unknown;
  readonly state?: unknown;
  readonly status_message?: unknown;
  readonly error?: unknown;
}

export const ONE_TASK: Shape = { tasks: listOf(isTask, 1) };
export const PAGE_OF_TASKS: Shape = { tasks: listOf(isObject), next_cursor: isCursor };

export const DELIVERIES: Shape = { deliveries: listOf(isObject) };

const GOES_ROUND =
  "The list does not end: a page repeats the cursor of an earlier one. Does a cache or proxy change the responses?";

/** A page of a list, and where the list goes on. */
interface Page {
  readonly next_cursor: string | null;
}

/** All items of a list, whose pages are asked for as they are needed. */
export async function* itemsOf<Of extends Page, Item>(
  ask: (cursor: string | undefined) => Promise<Of>,
  itemsIn: (page: Of) => readonly Item[],
): AsyncGenerator<Item, void, undefined> {
  let cursor: string | null | undefined;
  let earlier: string | null | undefined;
  for (let pages = 1; cursor !== null; pages++) {
    const page = await ask(cursor);
    yield* itemsIn(page);
    cursor = page.next_cursor;
    if (cursor !== null && cursor === earlier) throw new PostbackdError(GOES_ROUND);
    // Kept after 1, 2, 4, 8, … pages, so a circle of any length is found.
    if ((pages & (pages - 1)) === 0) earlier = cursor;
  }
}

/** The fields of an answer that are the operation's own. */
export type OwnFields<Answer> = Omit<Answer, "status_code" | "status_message">;

/** An answer without the head that every answer has. */
export function ownFields<Answer extends { readonly status_code: number }>(
  answer: Answer & { readonly status_message: string },
): OwnFields<Answer> {
  const { status_code: _code, status_message: _message, ...own } = answer;
  return own;
}
