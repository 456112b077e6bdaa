import assert from "node:assert/strict";

import type { TestDaemon } from "../helpers/daemon.ts";
import type { RawRequest } from "../helpers/raw-http.ts";
import { ask, bearer, JSON_TYPE, type Answer } from "./answer.ts";
import { cookieLine, createOperatorSession, FROM_PAGE } from "./session-requests.ts";

/** Who asks: the header lines that say so. */
export type Asker = readonly string[];

/** A task as a search shows it; only what tests look at. */
export interface FoundTask {
  readonly id: string;
  readonly login: string;
  readonly state: string;
  readonly tag: string | null;
  readonly ready: boolean;
  readonly deliveries: readonly {
    readonly host: string;
    readonly state: string;
    readonly attempts: number;
    readonly last: { readonly outcome: string; readonly http_status: number | null } | null;
  }[];
}

export interface SearchPage {
  readonly tasks: readonly FoundTask[];
  readonly next_cursor: string | null;
  readonly examined_until: string | null;
}

export interface Order {
  readonly id: string;
  readonly filter: Readonly<Record<string, unknown>>;
  readonly per_second: number;
  readonly redelivered: number;
  readonly ended_at: string | null;
  readonly is_cancelled: boolean;
}

/** The account of a daemon, by its key. */
export function byKey(daemon: Pick<TestDaemon, "account">): Asker {
  return [bearer(daemon)];
}

/** The operator, by a session. */
export async function byOperator({ url, file }: TestDaemon, now?: number): Promise<Asker> {
  return [cookieLine(url, await createOperatorSession(file, now)), ...FROM_PAGE];
}

/** A request and its answer's body, which is the operation's own; the test holds it to the shape. */
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

/** What a refused request is told. */
export function detailOf({ body }: Answer): string {
  return body.errors?.[0]?.detail ?? "";
}
