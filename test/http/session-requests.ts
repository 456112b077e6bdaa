import type { FieldsOf } from "../../src/api/operations.ts";
import type { System } from "../../src/api/operator.ts";
import { SESSIONS_MAX } from "../../src/domain/account/account.ts";
import { newSessionSecret, newSignInToken } from "../../src/domain/account/credentials.ts";
import type { Store } from "../../src/store/store.ts";
import { type TestDaemon, openAdminStore } from "../helpers/daemon.ts";
import type { RawRequest } from "../helpers/raw-http.ts";
import { sessionName } from "../helpers/session-name.ts";
import { USER_DATA } from "./account.ts";
import { type Answer, JSON_TYPE, ask } from "./answer.ts";

export const SESSION = "/v1/session";
export const LINK = `${SESSION}/link`;

/** The headers of every request of the dashboard. */
export const FROM_PAGE = ["Sec-Fetch-Site: same-origin", "X-Requested-With: postbackd"] as const;

/** The header line of a session's cookie at a daemon. */
export function cookieLine(url: string, secret: string): string {
  return `Cookie: ${sessionName(url)}=${secret}`;
}

/** A POST as the page makes it; `others` are further header lines. */
export function pagePost(
  target: string,
  body: unknown,
  others: readonly string[] = [],
): RawRequest {
  const headers = [...FROM_PAGE, JSON_TYPE, ...others];
  return { method: "POST", target, headers, body: JSON.stringify(body) };
}

/** A GET with a session, as the dashboard sends it; of the account's data unless another target is given. */
export function pageGet(
  { url }: Pick<TestDaemon, "url">,
  secret: string,
  { target = USER_DATA, others = [] }: { target?: string; others?: readonly string[] } = {},
): RawRequest {
  return { target, headers: [...FROM_PAGE, cookieLine(url, secret), ...others] };
}

/** A sign-in with a login and a key. */
export function keySignIn(
  { account: { login, key } }: Pick<TestDaemon, "account">,
  others: readonly string[] = [],
): RawRequest {
  return pagePost(SESSION, { login, key }, others);
}

/** Signs in with the account's key; returns the cookie's value. */
export async function signInByKey(daemon: Pick<TestDaemon, "url" | "account">): Promise<string> {
  return (await signedIn(daemon.url, keySignIn(daemon))).secret;
}

/** Signs in as the page does; returns the cookie's value. */
export async function signedIn(
  url: string,
  request: RawRequest,
): Promise<{ readonly answer: Answer; readonly secret: string }> {
  const answer = await ask(url, request);
  const secret = secretOf(answer);
  if (secret === null) throw new Error(answer.response.body.toString());
  return { answer, secret };
}

/** The value of the cookie that a response sets; null if it sets none. */
export function secretOf({ response }: Answer): string | null {
  const line = response.headers.find(([name]) => name === "set-cookie")?.[1] ?? "";
  return /^[^=]+=([A-Za-z0-9_-]{43});/.exec(line)?.[1] ?? null;
}

/** Runs a step on a store of its own, on a database that a daemon may serve. */
export async function atStore<T>(file: string, step: (store: Store) => Promise<T>): Promise<T> {
  const store = await openAdminStore(file);
  try {
    return await step(store);
  } finally {
    await store.close();
  }
}

/** Opens a session of the operator in a database file; returns the cookie's value. */
export async function createOperatorSession(file: string, createdAt = Date.now()): Promise<string> {
  const { secret, hash } = newSessionSecret();
  await atStore(file, (store) =>
    store.createSession({ hash, keyId: null, createdAt, sessionsMax: SESSIONS_MAX }),
  );
  return secret;
}

/** Makes a sign-in link in a database file; returns its token. */
export async function createLink(file: string, expiresAt = Date.now() + 60_000): Promise<string> {
  const { secret, hash } = newSignInToken();
  await atStore(file, (store) => store.createSignInLink({ hash, expiresAt }));
  return secret;
}

/** The path of the operator's operations. */
export const OPERATOR = "/v1/operator";

/** The fields of the operator's responses; each response has some of them. */
export interface OperatorFields
  extends
    FieldsOf<"GET /v1/operator/accounts">,
    FieldsOf<"POST /v1/operator/accounts">,
    FieldsOf<"POST /v1/operator/accounts/disable/:login">,
    FieldsOf<"GET /v1/operator/access_requests">,
    FieldsOf<"GET /v1/operator/runners">,
    FieldsOf<"GET /v1/operator/nodes">,
    FieldsOf<"GET /v1/operator/delivery_pauses">,
    FieldsOf<"POST /v1/operator/delivery_pauses">,
    Omit<FieldsOf<"POST /v1/operator/delivery_pauses/resume">, "login">,
    FieldsOf<"GET /v1/operator/audit">,
    Omit<System, "database"> {}

/** A response of the operator's operations. */
export interface OperatorAnswer extends Answer {
  readonly fields: OperatorFields;
}

/** The operator, signed in at a daemon with a link. */
export interface Operator {
  /** The line of the session's cookie. */
  readonly cookie: string;
  /** Sends as the dashboard does; `path` is below {@link OPERATOR}. */
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

/** A POST below {@link OPERATOR}. */
export function operatorPost(
  path: string,
  { body, credentials }: { readonly body?: unknown; readonly credentials: readonly string[] },
): RawRequest {
  const head = { method: "POST", target: OPERATOR + path };
  if (body === undefined) return { ...head, headers: [...FROM_PAGE, ...credentials] };
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return { ...head, headers: [...FROM_PAGE, JSON_TYPE, ...credentials], body: text };
}
