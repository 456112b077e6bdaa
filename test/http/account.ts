import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import type { AnswerOf, FieldsOf } from "../../src/api/operations.ts";
import type { Store } from "../../src/store/store.ts";
import { type TestDaemon, startTestDaemon } from "../helpers/daemon.ts";
import { type FakeClock, createFakeClock } from "../helpers/fake-clock.ts";
import type { RawRequest } from "../helpers/raw-http.ts";
import { type Answer, JSON_TYPE, ask, bearer } from "./answer.ts";

export type UserData = AnswerOf<"GET /v1/appendix/user_data">;
export type ShownKey = UserData["keys"][number];
export type ShownNewKey = FieldsOf<"POST /v1/appendix/keys">["key"];

type Called = Pick<TestDaemon, "url" | "account">;

export const KEYS = "/v1/appendix/keys";
export const USER_DATA = "/v1/appendix/user_data";

/** A POST of keys with the account's key; no body where none is given. */
export function keyPost(daemon: Pick<Called, "account">, body?: string): RawRequest {
  const post = { method: "POST", target: KEYS };
  if (body === undefined) return { ...post, headers: [bearer(daemon)] };
  return { ...post, headers: [bearer(daemon), JSON_TYPE], body };
}

/** A DELETE of a key with the account's key. */
export function keyDelete(daemon: Pick<Called, "account">, keyId: string): RawRequest {
  return { method: "DELETE", target: `${KEYS}/${keyId}`, headers: [bearer(daemon)] };
}

/** The fields of an answer that are an operation's own; the shape is the contract's, which the test holds it to. */
export function fieldsOf<Fields>({ response }: Pick<Answer, "response">): Fields {
  return JSON.parse(response.body.toString()) as Fields;
}

/** Makes a key and expects that it was made. */
export async function makeKey(daemon: Called, label?: string): Promise<ShownNewKey> {
  const answer = await ask(daemon.url, keyPost(daemon, JSON.stringify({ label })));
  if (answer.code !== 20000) throw new Error(answer.response.body.toString());
  return fieldsOf<{ key: ShownNewKey }>(answer).key;
}

/** The account as its key shows it. */
export async function userDataOf(daemon: Called): Promise<UserData> {
  return fieldsOf(await ask(daemon.url, { target: USER_DATA, headers: [bearer(daemon)] }));
}

/** Revokes every key of an account, as the operator does. */
export async function revokeKeysOf(
  store: Store,
  login: string,
  revokedAt = Date.now(),
): Promise<void> {
  for (const { keyId } of (await store.listKeys(login)) ?? []) {
    await store.revokeKey({ keyId, accountId: null, revokedAt });
  }
}

export const NOW = Date.parse("2030-01-31T09:00:00.000Z");

/** A daemon whose virtual clock starts at {@link NOW}. */
export async function startAt9(
  t: TestContext,
  toml = "",
): Promise<{ readonly clock: FakeClock; readonly daemon: TestDaemon }> {
  const clock = createFakeClock({ now: NOW });
  return { clock, daemon: await startTestDaemon(t, { clock, toml }) };
}

/** Posts one task, refused or not, and returns its id. */
export async function postOne(daemon: TestDaemon, task: object): Promise<string> {
  const { tasks } = await daemon.post([task]);
  return tasks[0]?.id ?? assert.fail();
}
