import assert from "node:assert/strict";

import type { FieldsOf } from "../../src/api/operations.ts";
import type { TestDaemon } from "../helpers/daemon.ts";
import type { RawRequest } from "../helpers/raw-http.ts";
import { ask, bearer, JSON_TYPE } from "./answer.ts";
import { cookieLine, createOperatorSession, FROM_PAGE } from "./session-requests.ts";

/** The header lines of a caller's credentials. */
export type Asker = readonly string[];

type SearchPage = FieldsOf<"GET /v1/tasks/search">;

/** The account of a daemon, by its key. */
export function byKey(daemon: Pick<TestDaemon, "account">): Asker {
  return [bearer(daemon)];
}

/** The operator, by a session. */
export async function byOperator({ url, file }: TestDaemon, now?: number): Promise<Asker> {
  return [cookieLine(url, await createOperatorSession(file, now)), ...FROM_PAGE];
}

/** The body of a response that must be 20000. */
export async function asked<Body>(
  { url }: Pick<TestDaemon, "url">,
  request: RawRequest,
): Promise<Body> {
  const answer = await ask(url, request);
  assert.equal(answer.code, 20000, answer.response.body.toString());
  return JSON.parse(answer.response.body.toString()) as Body;
}

/** A page of a search. */
export function search(
  daemon: Pick<TestDaemon, "url">,
  who: Asker,
  query: Readonly<Record<string, string>>,
): Promise<SearchPage> {
  const target = `/v1/tasks/search?${new URLSearchParams(query).toString()}`;
  return asked(daemon, { target, headers: who });
}

/** A POST of JSON. */
export function postJson(target: string, who: Asker, body: unknown): RawRequest {
  return { method: "POST", target, headers: [...who, JSON_TYPE], body: JSON.stringify(body) };
}
