import assert from "node:assert/strict";
import { createHmac, timingSafeEqual } from "node:crypto";

/**
 * A client and a receiver as somebody writes them who has read the contract and nothing else. So nothing of
 * `src` is imported here: what the product computes is computed again, by other code.
 */

/** A task as answers show it. */
export interface Task {
  readonly id: string;
  readonly status_code: number;
  readonly status_message: string;
  readonly state: string;
  readonly type: string | null;
  readonly created_at: string;
  readonly started_at: string | null;
  readonly completed_at: string | null;
  readonly expires_at: string | null;
  readonly runs: number;
  readonly progress: unknown;
  readonly data: Readonly<Record<string, unknown>>;
  readonly result: unknown;
  readonly error: { readonly message: string; readonly detail: unknown } | null;
}

export interface KeyShown {
  readonly key_id: string;
  readonly key?: string;
  readonly prefix: string;
  readonly last_four: string;
  readonly label: string | null;
  readonly created_at: string;
  readonly last_used_at?: string | null;
  readonly revoked_at?: string | null;
}

/** Any answer's body; which fields are there depends on the operation. */
export interface Body {
  readonly status_code: number;
  readonly status_message: string;
  readonly errors: readonly { readonly pointer: string; readonly detail: string }[];
  readonly tasks_count: number;
  readonly tasks_error: number;
  readonly tasks: readonly Task[];
  readonly next_cursor: string | null;
  readonly key: KeyShown;
  readonly keys: readonly KeyShown[];
  readonly login: string;
  readonly webhook_secret: string;
  readonly webhook_secret_next: string | null;
  readonly request_id: string;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  /** The body to the byte. */
  readonly bytes: Buffer;
  readonly text: string;
  readonly body: Body;
}

export interface Request {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** A text goes out as it is, anything else as JSON. */
  readonly body?: unknown;
}

/** A client of one service; without credentials until it is given some. */
export class Client {
  readonly #url: string;
  readonly #authorization: string | null;

  constructor(url: string, authorization: string | null = null) {
    this.#url = url;
    this.#authorization = authorization;
  }

  /** The same service with this `Authorization` header; null: without one. */
  as(authorization: string | null): Client {
    return new Client(this.#url, authorization);
  }

  async send(path: string, { method, headers = {}, body }: Request = {}): Promise<Answer> {
    const text = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
    const response = await fetch(this.#url + path, {
      method: method ?? (text === undefined ? "GET" : "POST"),
      headers: {
        ...(this.#authorization === null ? {} : { authorization: this.#authorization }),
        ...(text === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      ...(text === undefined ? {} : { body: text }),
      redirect: "manual",
    });
    const bytes = Buffer.from(await response.arrayBuffer());
    return { status: response.status, headers: response.headers, bytes, ...readJson(bytes) };
  }

  /** task_post; expects HTTP 200. */
  async post(tasks: unknown, headers: Readonly<Record<string, string>> = {}): Promise<Answer> {
    const answer = await this.send("/v1/tasks/task_post", { body: tasks, headers });
    assert.equal(answer.status, 200, answer.text);
    return answer;
  }

  /** task_get; the task is collected unless the query says otherwise. */
  get(id: string, query = ""): Promise<Answer> {
    return this.send(`/v1/tasks/task_get/${id}${query}`);
  }

  /** The task's answer once it has finished, without collecting it. */
  async finished(id: string): Promise<Answer> {
    const headers = { prefer: "wait=30" };
    const answer = await this.send(`/v1/tasks/task_get/${id}?collect=false`, { headers });
    assert.ok(!["queued", "running"].includes(only(answer).state), "it finishes within 30 s");
    return answer;
  }

  /** Posts one task and waits for its end, without collecting it. */
  async run(task: object): Promise<Answer> {
    const posted = only(await this.post([task]));
    assert.equal(posted.status_code, 20100, posted.status_message);
    return this.finished(posted.id);
  }

  /** Ids in tasks_ready. */
  async ready(query = ""): Promise<readonly string[]> {
    return idsOf(await this.send(`/v1/tasks/tasks_ready${query}`));
  }

  /** HTTP status and code, which belong together. */
  async verdict(path = "/v1/appendix/user_data"): Promise<readonly [number, number]> {
    const { status, body } = await this.send(path);
    return [status, body.status_code];
  }
}

function readJson(bytes: Buffer): Pick<Answer, "text" | "body"> {
  // A strict decoder: what is not UTF-8 fails the test.
  const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  // Each test compares the fields it reads.
  return { text, body: (text === "" ? {} : JSON.parse(text)) as Body };
}

export function basic(login: string, key: string): string {
  return `Basic ${Buffer.from(`${login}:${key}`).toString("base64")}`;
}

export function bearer(key: string): string {
  return `Bearer ${key}`;
}

/** The one task of an answer. */
export function only({ body, text }: Answer): Task {
  const [task] = body.tasks;
  assert.ok(task !== undefined && body.tasks.length === 1, text);
  return task;
}

export function idsOf({ body }: Pick<Answer, "body">): readonly string[] {
  return body.tasks.map(({ id }) => id);
}

/** The checksum at the end of a key: CRC-32 of the 34 characters before it, in six base62 digits. */
export function keyChecksum(random: string): string {
  let crc = 0xffffffff;
  for (const byte of Buffer.from(random)) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  let rest = (crc ^ 0xffffffff) >>> 0;
  let digits = "";
  for (let place = 0; place < 6; place += 1) {
    digits = BASE62.charAt(rest % 62) + digits;
    rest = Math.floor(rest / 62);
  }
  return digits;
}

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** Whether an `X-Signature` is by this secret: over the raw body of a postback, the full URL of a pingback. */
export function isSignedBy(
  secret: string,
  message: string | Buffer,
  signature: string | undefined,
): boolean {
  const wanted = Buffer.from(
    `sha256=${createHmac("sha256", secret).update(message).digest("hex")}`,
  );
  const given = Buffer.from(signature ?? "");
  return wanted.length === given.length && timingSafeEqual(wanted, given);
}

/** What of a request Standard Webhooks signs. */
export interface StandardMessage {
  readonly headers: Readonly<Record<string, string>>;
  /** Empty for a pingback. */
  readonly rawBody: Buffer;
}

/** Which of the secrets `webhook-signature` has a valid signature of, by their places in the list. */
export function standardSigners(
  secrets: readonly string[],
  { headers, rawBody }: StandardMessage,
): readonly number[] {
  const given = (headers["webhook-signature"] ?? "").split(" ");
  const head = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.`;
  const signed = Buffer.concat([Buffer.from(head), rawBody]);
  return secrets.flatMap((secret, place) => {
    const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
    const wanted = `v1,${createHmac("sha256", key).update(signed).digest("base64")}`;
    return given.includes(wanted) ? [place] : [];
  });
}

export const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
export const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
export const KEY = /^pbd_live_[0-9A-Za-z]{40}$/;
export const KEY_ID = /^key_[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$/;
export const SECRET = /^whsec_[A-Za-z0-9+/]{43}=$/;
