import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { takesBody } from "../../src/http/operation.ts";
import { clusterTest } from "../helpers/cluster-test.ts";
import { headerLines, headerOf, openRaw, toBytes } from "../helpers/raw-http.ts";
import { toAnswer, type Answer } from "./answer.ts";
import { fetchDocument, Judge, placedOperations, type PlacedOperation } from "./api-document.ts";
import { BODY_KINDS, LIMIT_KINDS } from "./contract-body-rows.ts";
import { CLUSTER_KINDS, LIMITED, REQUEST_KINDS, type Kind, type Row } from "./contract-rows.ts";
import { LIMITED_BODIES, soundNames, startTested, toRequest } from "./operation-cases.ts";
import { assertQuiet, type Case, type Tested } from "./operation-cases.ts";
import { atStore } from "./session-requests.ts";

/** The contract of every operation as a table: what a request has, and what its response has. */

const judge = new Judge();

/** The operations of the document, and the kinds of responses that were held against it. */
interface Documented {
  readonly operations: ReadonlyMap<string, PlacedOperation>;
  readonly judged: Set<string>;
}

/** Runs the rows of each kind on one daemon as a test. */
async function assertKinds(t: TestContext, tested: Tested, kinds: readonly Kind[]): Promise<void> {
  const { document } = await fetchDocument(tested.daemon);
  const placed = placedOperations(document).map((each) => [each.operationId, each] as const);
  const documented = { operations: new Map(placed), judged: new Set<string>() };
  for (const { rule, rows } of kinds) {
    await t.test(rule, async () => {
      for (const each of tested.cases) {
        for (const row of await rows(each, tested))
          await assertRow(tested, documented, { each, row });
      }
      assertQuiet(tested);
    });
  }
}

async function assertRow(
  { send }: Tested,
  documented: Documented,
  { each, row }: { readonly each: Case; readonly row: Row },
): Promise<void> {
  const { parts } = row;
  const answer = await send(parts);
  const { response, code, body } = answer;
  const shown = `${String(parts.body).slice(0, 80)} ${[...parts.media, ...parts.others].join()}`;
  const where = `${each.name}: ${parts.method} ${parts.path}${parts.query} ${shown}`.slice(0, 400);
  if (row.expected !== undefined) {
    const expected = [row.expected].flat();
    const got = expected.every((value) => value > 999) ? code : response.status;
    assert.ok(expected.includes(Number(got)), `${got}, not ${expected.join(" or ")}: ${where}`);
  }
  for (const [name, value] of Object.entries(row.headers ?? {})) {
    assert.equal(headerOf(response, name), value, where);
  }
  const pointers = body.errors?.map(({ pointer }) => pointer) ?? [];
  if (row.pointers !== undefined) assert.deepEqual(pointers, row.pointers, where);
  if (row.pointer !== undefined) assert.ok(pointers.includes(row.pointer), where);
  if (row.field !== undefined) assert.equal(invalidField(answer), row.field, where);
  if (row.task !== undefined) assert.equal(body.tasks?.[0]?.status_code, row.task, where);
  assertHarmless(answer, where);
  if (row.sameAs !== undefined) assertSame(answer, await send(row.sameAs), where);
  if (row.isUndocumented === true || parts.method === "HEAD") return;
  await assertDocumented(each, documented, answer);
}

/** Holds the first response of each code and set of headers against the document. */
async function assertDocumented(
  { operation: { doc } }: Case,
  { operations, judged }: Documented,
  { response, code }: Answer,
): Promise<void> {
  const names = response.headers.map(([name]) => name);
  const kind = [doc.id, response.status, code, ...names].join();
  if (judged.has(kind)) return;
  judged.add(kind);
  const placed = operations.get(doc.id) ?? assert.fail(`${doc.id} is not in the document`);
  await judge.assertAnswerFits(placed, toFetched({ response }));
}

/** The field that an invalid body, or the first task of a post, is refused for. */
function invalidField({ body }: Answer): string | undefined {
  const [task = body] = body.tasks ?? [];
  const message = String((task as { readonly status_message?: string }).status_message);
  return /^Invalid Field: '(.*?)'\. /s.exec(message)?.[1];
}

/** A response repeats no secret, no long text and no half of a character, and takes over no id of the request. */
function assertHarmless({ response, code, requestId }: Answer, where: string): void {
  const text = response.body.toString();
  assert.doesNotMatch(text, /SECRET/, where);
  // Escaped half of a character breaks clients that read UTF-16 strictly.
  assert.doesNotMatch(text, /"(status_message|pointer)":"[^"]*\\u[dD][89a-fA-F]/, where);
  if (code !== 20000 && code !== null) assert.ok(text.length < 20_000, where);
  assert.notEqual(requestId, "a");
}

const SAME_HEADERS = "content-length content-type etag cache-control connection".split(" ");

function assertSame(one: Answer, other: Answer, where: string): void {
  assert.equal(one.response.status, other.response.status, where);
  for (const name of SAME_HEADERS) {
    const lines = headerLines(one.response, name);
    assert.deepEqual(lines, headerLines(other.response, name), `${name} ${where}`);
  }
  if (one.response.body.length > 0) assert.deepEqual(one.body, other.body, where);
}

function toFetched({ response }: Pick<Answer, "response">): Response {
  const headers = response.headers.map(([name, value]): [string, string] => [name, value]);
  const hasBody = response.status !== 304;
  return new Response(hasBody ? response.body.toString() : null, {
    status: response.status,
    headers,
  });
}

test("every operation keeps the contract", async (t) => {
  const tested = await startTested(t);
  const names = tested.cases.map(({ operation }) => operation.doc.id);
  assert.deepEqual(names.toSorted(), soundNames().toSorted());
  await assertKinds(t, tested, [...REQUEST_KINDS, ...BODY_KINDS]);
  await tested.assertUntouched();
  await t.test("a body that comes after the response is not read as a request", async () => {
    for (const each of tested.cases) await assertLateBody(t, tested, each);
  });
  const { file, account } = tested.daemon;
  const { login } = account;
  await atStore(file, (store) => store.changeLimits({ login, limits: { requestsPerMinute: 1 } }));
  await tested.daemon.ready();
  await assertKinds(t, tested, [LIMITED]);
});

test("every operation keeps the contract with small limits of bodies", async (t) => {
  await assertKinds(t, await startTested(t, { toml: LIMITED_BODIES }), LIMIT_KINDS);
});

clusterTest("every operation returns the same from each node", async (t) => {
  const tested = await startTested(t);
  await assertKinds(t, tested, CLUSTER_KINDS);
  await tested.assertUntouched();
});

/** Without credentials the response comes before the body. */
async function assertLateBody(
  t: TestContext,
  { daemon }: Tested,
  { operation, name, sound, status }: Case,
): Promise<void> {
  const isPublic = operation.access === "public";
  if (isPublic && takesBody(operation.takes)) return;
  const next = toBytes({ target: "/nothing" });
  for (const others of [[], ["Expect: 100-continue"]]) {
    const connection = await openRaw(t, daemon.url);
    const length = `Content-Length: ${next.length}`;
    const parts = { ...sound, credentials: [], others: [length, ...others], body: null };
    connection.send(toBytes(toRequest(parts)));
    const { response } = toAnswer(await connection.next());
    assert.equal(response.status, isPublic ? status : 401, name);
    connection.send(Buffer.concat([next, toBytes({ target: "/readyz" })]));
    assert.equal((await connection.next()).status, 200, name);
    connection.reset();
  }
}
