import { signal } from "@preact/signals";

import type { AnswerOf, BodyOf, OperationKey, QueryOf } from "../../api/operations.ts";
import { messageOf } from "../../domain/error.ts";
import { KeptAnswers } from "./kept-answers.ts";
import { actsFor } from "./route.ts";

/** A refusal of the API, or a request that did not reach it. */
export class ApiError extends Error {
  override readonly name = "ApiError" as const;
  /** The HTTP status; 0: the daemon did not answer. */
  readonly status: number;
  /** `status_code` of the response; 0 without one. */
  readonly code: number;
  /** Which field is wrong, and why. */
  readonly details: readonly string[];
  constructor(
    message: string,
    facts: { status: number; code?: number; details?: readonly string[] },
  ) {
    super(message);
    this.status = facts.status;
    this.code = facts.code ?? 0;
    this.details = facts.details ?? [];
  }
}

interface CommonOptions {
  readonly signal?: AbortSignal;
  /** The page sends the request without an action of the reader, so it does not extend the session. */
  readonly isAutomatic?: boolean;
  /** The account that the operator acts for; the one in the URL unless given. Null means none. */
  readonly account?: string | null;
  /** Names a post, so that repeating it does nothing twice. */
  readonly idempotencyKey?: string;
}

/** A body that is sent as it was written. */
export class JsonText {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

export type CallOptions<Key extends OperationKey> = CommonOptions & {
  readonly query?: QueryOf<Key>;
} & (undefined extends BodyOf<Key>
    ? { readonly body?: BodyOf<Key> }
    : { readonly body: BodyOf<Key> | JsonText }) &
  (ParamOf<Key> extends never
    ? { readonly params?: never }
    : { readonly params: Readonly<Record<ParamOf<Key>, string>> });

/** The part of its path that an operation names. */
type ParamOf<Key extends OperationKey> = Key extends `${string}/:${infer Name}`
  ? Name extends `${infer First}/${string}`
    ? First
    : Name
  : never;

interface AnyOptions extends CommonOptions {
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: object;
  readonly body?: unknown;
}

/** Grows when a request is refused because the session is over. */
export const signedOut = signal(0);

/** True at a daemon for development, which says so in each answer. */
export const isDev = signal(false);

export function headersFor(options: AnyOptions = {}): Headers {
  const { body, isAutomatic, account, idempotencyKey } = options;
  const headers = new Headers({ "X-Requested-With": "postbackd" });
  if (body !== undefined) headers.set("Content-Type", "application/json");
  if (isAutomatic === true) headers.set("X-Refresh", "automatic");
  if (idempotencyKey !== undefined) headers.set("Idempotency-Key", idempotencyKey);
  const login = account === undefined ? actsFor.value : account;
  if (login !== null) headers.set("X-Account", accountHeader(login));
  return headers;
}

// A header takes neither control characters nor characters beyond Latin-1, and loses white space at its ends. A login
// contains no such character. A value that has them came from the URL, and its escaped form is not an account's name
// either.
function accountHeader(login: string): string {
  return /^[!-~]+$/.test(login) ? login : encodeURIComponent(login);
}

/** Calls an operation and returns its answer. Throws an {@link ApiError}; passes an abort on as it is. */
export async function call<const Key extends OperationKey>(
  operation: Key,
  options: CallOptions<Key>,
): Promise<AnswerOf<Key>> {
  // The page comes from the daemon that answers: one table defines both.
  const answer: AnswerOf<Key> = JSON.parse(await callText(operation, options));
  return answer;
}

/** The text of an answer, as it came. */
export async function callText<const Key extends OperationKey>(
  operation: Key,
  options: CallOptions<Key>,
): Promise<string> {
  const asked = askedFor(operation, options);
  const response = await send(operation, options, kept.tagOf(asked));
  const text = await kept.textOf(asked, response);
  if (response.ok || response.status === 304) return text;
  // A refused sign-in does not end the session.
  if (response.status === 401 && !operation.startsWith("POST /v1/session")) {
    kept.forget();
    signedOut.value++;
  }
  throw toError(parse(text, response.status), response.status);
}

const kept = new KeptAnswers();

// The same for two readers who see different things: the account is part of it.
function askedFor(operation: OperationKey, options: AnyOptions): string {
  const [method = "", path = ""] = operation.split(" ");
  const account = options.account === undefined ? actsFor.value : options.account;
  return `${method} ${urlOf(path, options)} ${account ?? ""}`;
}

async function send(
  operation: OperationKey,
  options: AnyOptions,
  tag: string | null,
): Promise<Response> {
  const { body, signal: abort } = options;
  const [method = "", path = ""] = operation.split(" ");
  const headers = headersFor(options);
  // Without it the daemon gives no tags.
  if (method === "GET") headers.set("If-None-Match", tag ?? '""');
  try {
    const response = await fetch(urlOf(path, options), {
      method,
      headers,
      cache: "no-store",
      ...(body === undefined ? {} : { body: bodyText(body) }),
      ...(abort === undefined ? {} : { signal: abort }),
    });
    if (response.headers.get("X-Postbackd-Mode") === "dev") isDev.value = true;
    return response;
  } catch (error) {
    if (abort?.aborted === true) throw error;
    throw new ApiError("The daemon does not respond. It may be restarting.", { status: 0 });
  }
}

function bodyText(body: unknown): string {
  return body instanceof JsonText ? body.text : JSON.stringify(body);
}

function urlOf(path: string, { params = {}, query = {} }: AnyOptions): string {
  const filled = path.replaceAll(/:(\w+)/g, (_, name: string) =>
    encodeURIComponent(params[name] ?? ""),
  );
  const given = Object.entries(query).filter(([, value]) => value !== undefined);
  const search = new URLSearchParams(
    given.map(([name, value]) => [name, String(value)]),
  ).toString();
  return search === "" ? filled : `${filled}?${search}`;
}

function parse(text: string, status: number): object {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return value;
  } catch {
    // A proxy in between answers in another form: only the status is known.
  }
  return { status_message: `The response was not JSON (HTTP ${status}).` };
}

interface ErrorEnvelope {
  readonly status_code?: number;
  readonly status_message?: string;
  readonly errors?: readonly { readonly detail?: string }[];
}

function toError(envelope: ErrorEnvelope, status: number): ApiError {
  const details = (envelope.errors ?? []).flatMap(({ detail }) => detail ?? []);
  const message = envelope.status_message ?? `HTTP ${status}`;
  return new ApiError(message, { status, code: envelope.status_code ?? 0, details });
}

/** An error as a sentence for people. */
export function errorText(error: unknown): string {
  const isDetailed = error instanceof ApiError && error.details.length > 0;
  return isDetailed ? error.details.join(" ") : messageOf(error);
}

/** True for the error of an abort: the response is not needed any more. */
export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}
