import type { Answers, Code } from "./api.ts";

/** The address of the daemon, and the credentials. */
export interface ClientSettings {
  /** Base URL of the daemon, without `/v1`: `https://tasks.example.com`. */
  readonly url: string | URL;
  /** A key of the account: `pbd_live_…`. */
  readonly key: string;
  /** Sends the requests; the runtime's own unless given. */
  readonly fetch?: typeof globalThis.fetch | undefined;
  /**
   * How often the client repeats a request that is safe to repeat; 6 unless given, which takes at most half a minute.
   * The wait is the daemon's `Retry-After`, else 250 ms, doubling to 10 s.
   */
  readonly retries?: number | undefined;
}

const RETRIES = 6;

/** The settings, checked. */
export interface Access {
  /** Without a slash at its end. */
  readonly base: string;
  /** Null for operations that need no key. */
  readonly authorization: string | null;
  readonly send: typeof globalThis.fetch;
  readonly retries: number;
}

/** Throws a TypeError that says how to fix it, and never shows the key. */
export function readSettings({ key, ...open }: ClientSettings): Access {
  return { ...readOpenSettings(open), authorization: `Bearer ${readKey(key)}` };
}

/** The same for operations that need no key. */
export function readOpenSettings({
  url,
  fetch,
  retries = RETRIES,
}: Omit<ClientSettings, "key">): Access {
  if (!Number.isInteger(retries) || retries < 0) {
    throw new TypeError("retries must be a whole number, 0 or more.");
  }
  return {
    base: readBase(url),
    authorization: null,
    // Looked up at each request, and called without an object, as browsers need it.
    send: fetch ?? ((input, init) => globalThis.fetch(input, init)),
    retries,
  };
}

function readBase(url: string | URL): string {
  const parsed = parseUrl(url);
  if (parsed === null || !/^https?:$/.test(parsed.protocol)) {
    throw new TypeError("url must be the daemon's URL, such as https://tasks.example.com.");
  }
  if (parsed.username + parsed.password + parsed.search + parsed.hash !== "") {
    throw new TypeError(
      "url must not have a user, password, query or fragment: pass the key as key.",
    );
  }
  return (parsed.origin + parsed.pathname).replace(/\/+$/, "");
}

function parseUrl(url: string | URL): URL | null {
  try {
    return new URL(url);
  } catch {
    // The caller says what is wrong, without what may be a secret in it.
    return null;
  }
}

function readKey(key: unknown): string {
  if (typeof key !== "string" || key === "") {
    throw new TypeError("No key was given: is its environment variable set?");
  }
  // It is the end of a file or not a key; as a header it would fail, or be another header.
  if (/[^!-~]/.test(key)) {
    throw new TypeError("The key has white space or other invalid characters: trim it.");
  }
  return key;
}

/** A fault, and where it was found: `pointer` is a JSON pointer (RFC 6901) into the request. */
export interface FieldError {
  readonly pointer: string;
  readonly detail: string;
}

/** A code of `/v1/appendix/status_codes`; a newer daemon may have more than this version of the package knows. */
export type ErrorCode = Code | (number & {});

export interface ErrorFacts {
  readonly code?: number | null;
  readonly status?: number | null;
  readonly requestId?: string | null;
  readonly errors?: readonly FieldError[];
  readonly retryAfterSeconds?: number | null;
  readonly idempotencyKey?: string | null;
  readonly task?: FailedTask | null;
  readonly cause?: unknown;
}

/** A task of any type as the API shows it. */
export type FailedTask = Answers["GET /v1/tasks/task_get/:id"]["tasks"][number];

/**
 * A request that was refused or not answered, or a task of `post` or `run` that was refused or did not complete. A call
 * that an AbortSignal aborts rejects with the signal's reason instead.
 */
export class PostbackdError extends Error {
  override readonly name = "PostbackdError" as const;
  /** `status_code` of the response or of the task; null if the daemon was not reached. */
  readonly code: ErrorCode | null;
  /** HTTP status of the response; null without a response. */
  readonly status: number | null;
  /** `X-Request-Id` of the answer, which the daemon's log has too. */
  readonly requestId: string | null;
  /** Which fields are wrong, and why. */
  readonly errors: readonly FieldError[];
  /** After how many seconds another try is worth it, where the daemon says so. */
  readonly retryAfterSeconds: number | null;
  /** Of `post`, `postMany` and `run`: the same call with this key goes on without doubling anything, for 24 hours. */
  readonly idempotencyKey: string | null;
  /** The task that was refused, failed or was cancelled. */
  readonly task: FailedTask | null;
  readonly #facts: ErrorFacts;

  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, facts.cause === undefined ? {} : { cause: facts.cause });
    this.#facts = facts;
    this.code = facts.code ?? null;
    this.status = facts.status ?? null;
    this.requestId = facts.requestId ?? null;
    this.errors = facts.errors ?? [];
    this.retryAfterSeconds = facts.retryAfterSeconds ?? null;
    this.idempotencyKey = facts.idempotencyKey ?? null;
    this.task = facts.task ?? null;
  }

  /** The same error about the call whose key this is. */
  withKey(idempotencyKey: string): PostbackdError {
    return new PostbackdError(this.message, { ...this.#facts, idempotencyKey });
  }
}

/** The result of a call with this key; an error of it names the key. */
export async function underKey<Result>(
  idempotencyKey: string,
  call: () => Promise<Result>,
): Promise<Result> {
  try {
    return await call();
  } catch (error) {
    throw error instanceof PostbackdError ? error.withKey(idempotencyKey) : error;
  }
}
