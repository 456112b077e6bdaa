import type { Answers, Code } from "./api.ts";

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

/** A task as the API shows it, whatever its type. */
export type FailedTask = Answers["GET /v1/tasks/task_get/:id"]["tasks"][number];

/**
 * A request that was refused or not answered, or a task of `post` or `run` that was refused or did not complete. What
 * an AbortSignal breaks off rejects with the signal's reason instead.
 */
export class PostbackdError extends Error {
  override readonly name = "PostbackdError" as const;
  /** `status_code` of the answer or of the task; null where there is none: the daemon was not reached. */
  readonly code: ErrorCode | null;
  /** HTTP status of the answer; null where there is none. */
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
