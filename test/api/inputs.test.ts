import assert from "node:assert/strict";
import { test } from "node:test";

import { type BodyOf, INPUTS, type OperationKey, type QueryOf } from "../../src/api/operations.ts";
import { StatusError } from "../../src/domain/status.ts";
import { parseFields, parseQuery } from "../../src/http/inputs.ts";

// The types and the parser of a request come from one declaration. The compiler checks the types.

const SINCE = "2026-01-31T09:00:00.000Z";
const ORDER = INPUTS["POST /v1/redeliveries"].body;

/** A body as it arrives, without undefined fields. */
function sent(body: object): unknown {
  return JSON.parse(JSON.stringify(body));
}

/** A query as it arrives. */
function written(query: object): URLSearchParams {
  return new URLSearchParams(
    Object.entries(query).map(([name, value]): [string, string] => [name, String(value)]),
  );
}

test("a body with a missing, wrong or unknown field does not compile and is refused", () => {
  // @ts-expect-error `since` must be given.
  const missing: BodyOf<"POST /v1/redeliveries"> = { host: "hooks.example.com" };
  // @ts-expect-error A number is not written as text.
  const wrong: BodyOf<"POST /v1/redeliveries"> = { since: SINCE, per_second: "20" };
  // @ts-expect-error An unknown state.
  const word: BodyOf<"POST /v1/redeliveries"> = { since: SINCE, states: ["lost"] };
  // @ts-expect-error An unknown field.
  const unknown: BodyOf<"POST /v1/redeliveries"> = { since: SINCE, hosts: "hooks.example.com" };

  for (const body of [missing, wrong, word, unknown]) {
    assert.throws(() => parseFields(sent(body), ORDER), StatusError);
  }
});

test("an optional field may be absent, undefined or null", () => {
  const bodies: readonly BodyOf<"POST /v1/redeliveries">[] = [
    { since: SINCE },
    { since: SINCE, host: undefined, per_second: undefined },
    { since: SINCE, host: null, per_second: null },
  ];

  for (const body of bodies) {
    const { since, host, per_second: perSecond } = parseFields(sent(body), ORDER);
    assert.deepEqual(
      { since, host, perSecond },
      { since: Date.parse(SINCE), host: null, perSecond: 20 },
    );
  }
});

test("an optional body may be absent", () => {
  const label: BodyOf<"POST /v1/appendix/keys"> = undefined;
  const none: BodyOf<"GET /v1/tasks"> = undefined;
  // @ts-expect-error An empty filter is written as `{}`.
  const filter: BodyOf<"POST /v1/tasks/cancel"> = undefined;

  assert.deepEqual([label, none, filter], [undefined, undefined, undefined]);
  assert("isBodyOptional" in INPUTS["POST /v1/appendix/keys"]);
  assert(!("isBodyOptional" in INPUTS["POST /v1/tasks/cancel"]));
});

test("a body or query of an operation without one does not compile", () => {
  // @ts-expect-error It takes no body.
  const body: BodyOf<"GET /v1/stats/overview"> = {};
  // @ts-expect-error It takes no query.
  const query: QueryOf<"GET /v1/stats/overview"> = { limit: 1 };
  // @ts-expect-error It takes no fields.
  const fields: BodyOf<"POST /v1/tasks/task_cancel/:id"> = { reason: "late" };

  assert.throws(() => parseQuery(written(query), {}), StatusError);
  assert.throws(
    () => parseFields(fields, INPUTS["POST /v1/tasks/task_cancel/:id"].body),
    StatusError,
  );
  assert(!("GET /v1/stats/overview" in INPUTS), JSON.stringify(body));
});

test("a query has the values of its rules and no other parameter", () => {
  const requests = INPUTS["GET /v1/operator/access_requests"].query;
  // @ts-expect-error An unknown word.
  const word: QueryOf<"GET /v1/operator/access_requests"> = { which: "denied" };
  // @ts-expect-error An unknown parameter.
  const unknown: QueryOf<"GET /v1/operator/access_requests"> = { wich: "all" };
  const fine: QueryOf<"GET /v1/tasks/search"> = { limit: 20, q: "state:queued" };

  for (const query of [word, unknown]) {
    assert.throws(() => parseQuery(written(query), requests), StatusError);
  }
  const { limit, q } = parseQuery(written(fine), INPUTS["GET /v1/tasks/search"].query);
  assert.deepEqual({ limit, q }, fine);
});

type Members<Of> = Of extends object ? Of[keyof Of] : never;

// The input of a task and the result of a run are any JSON.
type TypedKey = Exclude<
  OperationKey,
  "POST /v1/tasks/task_post" | "PUT /dev/results" | "POST /dev/tasks/:id/finish"
>;
type AnyWritten = {
  [Key in TypedKey]: Members<BodyOf<Key>> | Members<QueryOf<Key>>;
}[TypedKey];

test("every field and parameter has a known type", () => {
  const isTyped: unknown extends AnyWritten ? false : true = true;

  assert.equal(isTyped, true);
});
