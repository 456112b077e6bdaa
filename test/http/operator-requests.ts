import type { FieldsOf } from "../../src/api/operations.ts";
import type { System } from "../../src/api/operator.ts";
import type { TestDaemon } from "../helpers/daemon.ts";
import type { RawRequest } from "../helpers/raw-http.ts";
import { ask, JSON_TYPE, type Answer } from "./answer.ts";
import { cookieLine, createLink, FROM_PAGE, LINK, pagePost, signedIn } from "./session-requests.ts";

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
