import type { UserData } from "../api/account.ts";
import type { AnswerOf } from "../api/operations.ts";
import type { Timeline } from "../api/timeline.ts";
import type { ServiceAnswer, ServiceClient } from "../deliver/service-client.ts";
import { type Clock, withDeadline } from "../domain/clock/clock.ts";

/** Another try may succeed. The message fits on one line and names no key. */
export class DaemonUnreachable extends Error {
  override readonly name = "DaemonUnreachable" as const;
}

/** No try will succeed: the key or the address is wrong. The message is a sentence that says how to fix it. */
export class DaemonRefusal extends Error {
  override readonly name = "DaemonRefusal" as const;
}

export type AttemptPage = AnswerOf<"GET /v1/tasks/attempts">;

export interface AccountApiOptions {
  readonly client: Pick<ServiceClient, "get">;
  /** Base URL of the daemon. */
  readonly url: URL;
  readonly key: string;
  readonly clock: Clock;
  /** Ends every request immediately. */
  readonly stop: AbortSignal;
}

// A postback of the largest result that a daemon takes by default is 5 MiB; an operator may allow more.
const ANSWER_BYTES_MAX = 128 * 1024 ** 2;
const ANSWER_MS_MAX = 30_000;
const PAGE = 1000;

/** Reads with an account's key, and collects nothing. Throws a {@link DaemonUnreachable} or a {@link DaemonRefusal}. */
export class AccountApi {
  readonly #options: AccountApiOptions;
  readonly #base: string;

  constructor(options: AccountApiOptions) {
    this.#options = options;
    this.#base = options.url.href.replace(/\/$/, "");
  }

  async userData(): Promise<UserData> {
    return this.#json(await this.#found("/v1/appendix/user_data"));
  }

  /** The attempts from a cursor on; without one, those that are scheduled. */
  async attempts(cursor: string | null, limit: number = PAGE): Promise<AttemptPage> {
    const from = cursor === null ? "" : `&cursor=${cursor}`;
    return this.#json(await this.#found(`/v1/tasks/attempts?limit=${limit}${from}`));
  }

  /** Null for a task that has been erased. */
  async timeline(id: string): Promise<Timeline | null> {
    const body = await this.#ask(`/v1/tasks/timeline/${id}`);
    return body === null ? null : this.#json(body);
  }

  /** The envelope of a finished task, which is the body of its postback; null for one that has been erased. */
  taskBytes(id: string): Promise<Buffer | null> {
    return this.#ask(`/v1/tasks/task_get/${id}?collect=false`);
  }

  async #found(path: string): Promise<Buffer> {
    const body = await this.#ask(path);
    if (body !== null) return body;
    throw new DaemonRefusal(
      `${this.#options.url.origin} does not know ${path.replace(/\?.*/, "")}: ` +
        "check --url, and that the daemon is of this version or newer",
    );
  }

  /** The body of a 200; null for 404 and 410. */
  async #ask(path: string): Promise<Buffer | null> {
    const { client, key, clock, stop } = this.#options;
    const headers = {
      authorization: `Bearer ${key}`,
      accept: "application/json",
      "user-agent": "postbackd-listen/1",
    };
    const answer = await withDeadline(ANSWER_MS_MAX, { clock, signal: stop }, (signal) =>
      client.get(new URL(this.#base + path), { headers, bytesMax: ANSWER_BYTES_MAX, signal }),
    );
    if (answer.kind !== "answered") throw new DaemonUnreachable(silenceOf(answer));
    if (answer.status === 200) return answer.body;
    const code = codeIn(answer.body);
    if (code !== null && (answer.status === 404 || answer.status === 410)) return null;
    throw faultOf(answer.status, code);
  }

  #json<Answer>(body: Buffer): Answer {
    const value = parsed(body);
    if (value?.["status_code"] !== 20000) {
      throw new DaemonUnreachable("HTTP 200, and not what postbackd answers");
    }
    // Its shape is the daemon's own, which the code has shown it to be.
    return value as Answer;
  }
}

function silenceOf(answer: Exclude<ServiceAnswer, { kind: "answered" }>): string {
  if (answer.kind === "too_long") return "the answer is too long";
  return answer.kind === "aborted" ? "no answer in time" : answer.error;
}

// A proxy may answer in the daemon's place for a moment: only the daemon's own codes are final.
function faultOf(status: number, code: number | null): Error {
  const isFinal = code !== null && status >= 400 && status < 500 && status !== 429;
  if (!isFinal) return new DaemonUnreachable(code === null ? `HTTP ${status}` : String(code));
  const hint = HINTS.get(code) ?? "look the code up in /v1/appendix/status_codes of the daemon";
  return new DaemonRefusal(`the daemon refuses this key or request (${code}): ${hint}`);
}

const HINTS: ReadonlyMap<number, string> = new Map([
  [40000, "the place to go on from is not of this daemon any more; start listen again"],
  [40100, "this key does not exist; copy it completely from the place where it was shown"],
  [40101, "the key was revoked; make another one and give that"],
  [40102, "the account is disabled; ask the operator"],
  [40300, "give an https URL"],
]);

function codeIn(body: Buffer): number | null {
  const code = parsed(body)?.["status_code"];
  return typeof code === "number" ? code : null;
}

function parsed(body: Buffer): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(body.toString("utf8"));
    return typeof value === "object" && value !== null ? { ...value } : null;
  } catch {
    // Not the daemon's.
    return null;
  }
}
