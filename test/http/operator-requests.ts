import type { SuspendedWork } from "../../src/domain/account/account.ts";
import type { TestDaemon } from "../helpers/daemon.ts";
import type { RawRequest } from "../helpers/raw-http.ts";
import { ask, JSON_TYPE, type Answer } from "./answer.ts";
import { cookieLine, createLink, FROM_PAGE, LINK, pagePost, signedIn } from "./session-requests.ts";

/** Where the operator's operations are. */
export const OPERATOR = "/v1/operator";

export interface ShownAccount {
  readonly login: string;
  readonly created_at: string;
  readonly disabled_at: string | null;
  readonly keys_active: number;
  readonly is_rotating: boolean;
  readonly held: SuspendedWork | null;
  readonly tasks: Readonly<Record<string, number>>;
  readonly limits: Readonly<Record<string, number>>;
  readonly usage: Readonly<Record<string, number>>;
  readonly day: Readonly<Record<string, number | null>>;
}

export interface ShownRequest {
  readonly id: string;
  readonly email: string;
  readonly name: string | null;
  readonly company: string | null;
  readonly message: string | null;
  readonly created_at: string;
  readonly decision: string | null;
  readonly decided_at: string | null;
}

export interface ShownType {
  readonly name: string;
  readonly kind: string;
  readonly runs: string | null;
  readonly timeout_ms: number;
  readonly running: number;
  readonly waiting: number;
  readonly waiting_is_more: boolean;
  readonly oldest_waiting_ms: number | null;
  readonly workers_waiting: number | null;
  readonly has_worker: boolean | null;
}

export interface ShownWorker {
  readonly name: string;
  readonly last_seen_at: string | null;
  readonly revoked_at: string | null;
  readonly leases: number;
}

export interface ShownNode {
  readonly id: string;
  readonly name: string;
  readonly version: string;
  readonly url: string | null;
  readonly answers: boolean;
  readonly joined_at: string;
  readonly last_seen_at: string;
  readonly ended_at: string | null;
  readonly roles: readonly string[];
  readonly running: readonly { readonly type: string; readonly runs: number }[] | null;
  readonly sending: number | null;
}

export interface ShownPause {
  readonly login: string | null;
  readonly host: string | null;
  readonly since: string;
  readonly reason: string | null;
  readonly paused_by: string;
  readonly waiting: number | null;
}

export interface ShownAuditEntry {
  readonly at: string;
  readonly actor: {
    readonly kind: string;
    readonly name: string | null;
    readonly address: string | null;
  };
  readonly action: string;
  readonly subject: string | null;
  readonly details: Readonly<Record<string, unknown>> | null;
}

export interface ShownLogLine {
  readonly time: string;
  readonly level: string;
  readonly message: string;
  readonly facts: string;
}

export interface ShownCondition {
  readonly name: string;
  readonly subject: string | null;
  readonly since: string;
  readonly text: string;
  readonly remedy: string;
}

export interface ShownSetting {
  readonly key: string;
  readonly value: string | null;
  readonly source: string;
  readonly is_default: boolean;
}

/** What the operations answer: each some of it. */
export interface OperatorFields {
  readonly accounts: readonly ShownAccount[];
  readonly account: Pick<ShownAccount, "login" | "disabled_at" | "is_rotating" | "held">;
  readonly next_cursor: string | null;
  readonly login: string;
  readonly key: string;
  readonly webhook_secret: string;
  readonly requests: readonly ShownRequest[];
  readonly more: boolean;
  readonly types: readonly ShownType[];
  readonly workers: readonly ShownWorker[];
  readonly nodes: readonly ShownNode[];
  readonly database: unknown;
  readonly pauses: readonly ShownPause[];
  readonly pause: ShownPause;
  readonly host: string | null;
  readonly waiting: number;
  readonly pauses_left: number;
  readonly entries: readonly ShownAuditEntry[];
  readonly conditions: readonly ShownCondition[];
  readonly settings: readonly ShownSetting[];
  readonly restart_needs: readonly string[];
  readonly log: readonly ShownLogLine[];
}

/** An answer of the operator's operations. */
export interface OperatorAnswer extends Answer {
  readonly fields: OperatorFields;
}

/** The operator, signed in at a daemon with a link. */
export interface Operator {
  /** The line of the session's cookie. */
  readonly cookie: string;
  /** Asks as the page does; `path` below {@link OPERATOR}. */
  get(path: string): Promise<OperatorAnswer>;
  post(path: string, body?: unknown): Promise<OperatorAnswer>;
}

/** Signs the operator in. `now` is the daemon's time. */
export async function signInOperator(
  { url, file }: Pick<TestDaemon, "url" | "file">,
  now = Date.now(),
): Promise<Operator> {
  const token = await createLink(file, now + 60_000);
  const { secret } = await signedIn(url, pagePost(LINK, { token }));
  const cookie = cookieLine(url, secret);
  const send = async (request: RawRequest): Promise<OperatorAnswer> => {
    const answer = await ask(url, request);
    // The shape is the API's; a test that reads a field that is not there fails by itself.
    return { ...answer, fields: answer.body as unknown as OperatorFields };
  };
  return {
    cookie,
    get: (path) => send({ target: OPERATOR + path, headers: [...FROM_PAGE, cookie] }),
    post: (path, body) => send(operatorPost(path, { body, credentials: [cookie] })),
  };
}

/** A POST below {@link OPERATOR}; without a body where none is given. */
export function operatorPost(
  path: string,
  { body, credentials }: { readonly body?: unknown; readonly credentials: readonly string[] },
): RawRequest {
  const head = { method: "POST", target: OPERATOR + path };
  if (body === undefined) return { ...head, headers: [...FROM_PAGE, ...credentials] };
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return { ...head, headers: [...FROM_PAGE, JSON_TYPE, ...credentials], body: text };
}
