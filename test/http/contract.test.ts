import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";

import { takesBody } from "../../src/http/operation.ts";
import { clusterTest } from "../helpers/cluster-test.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { headerLines, headerOf, openRaw, toBytes } from "../helpers/raw-http.ts";
import { assertSentences } from "../helpers/sentences.ts";
import { type Answer, toAnswer } from "./answer.ts";
import {
  Judge,
  type PlacedOperation,
  type Schema,
  fetchDocument,
  placedOperations,
} from "./api-document.ts";
import { BODY_KINDS, LIMIT_KINDS } from "./contract-body-rows.ts";
import { CLUSTER_KINDS, type Kind, LIMITED, REQUEST_KINDS, type Row } from "./contract-rows.ts";
import {
  type Case,
  LIMITED_BODIES,
  type Tested,
  assertQuiet,
  soundNames,
  startTested,
  toRequest,
} from "./operation-cases.ts";
import { atStore } from "./session-requests.ts";

/** The contract of every operation as a table: what a request has, and what its response has. */

const judge = new Judge();

/** The operations of the document, and the kinds of responses that were held against it. */
interface Documented {
  readonly operations: ReadonlyMap<string, PlacedOperation>;
  readonly judged: Set<string>;
  /** The sentences of rows with a cause. */
  readonly sentences: Sentences;
}

/** Runs the rows of each kind on one daemon as a test. */
async function assertKinds(
  t: TestContext,
  tested: Tested,
  kinds: readonly Kind[],
): Promise<Sentences> {
  const { document } = await fetchDocument(tested.daemon);
  const placed = placedOperations(document).map((each) => [each.operationId, each] as const);
  const documented = {
    operations: new Map(placed),
    judged: new Set<string>(),
    sentences: new Map(),
  };
  for (const kind of kinds) {
    await t.test(kind.rule, async () => {
      const shared = new Set<string>();
      for (const [i, each] of tested.cases.entries()) {
        const rows = await kind.rows(each, tested);
        const code = rows.length === 0 ? undefined : kind.sharedBy?.(each);
        const one = rows[i % rows.length];
        const kept = code !== undefined && shared.has(code) && one !== undefined ? [one] : rows;
        if (code !== undefined) shared.add(code);
        for (const row of kept) await assertRow(tested, documented, { each, row });
      }
      assertQuiet(tested);
    });
  }
  return documented.sentences;
}

async function assertRow(
  { send }: Tested,
  documented: Documented,
  { each, row }: { readonly each: Case; readonly row: Row },
): Promise<void> {
  const { parts } = row;
  const answer = await send(parts);
  const { response, code, body } = answer;
  if (row.cause !== undefined) {
    noteSentences(documented.sentences, `${each.name} ${row.cause}`, answer);
  }
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
  const sentences = await assertKinds(t, tested, [...REQUEST_KINDS, ...BODY_KINDS]);
  await addOtherSentences(tested, sentences);
  await t.test("each detail of a refused request is as in sentences.txt", (t) => {
    assertSentences(t, import.meta.dirname, sentences.values());
  });
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

/** Every object with named members in a schema. */
function objectsIn(value: unknown): readonly object[] {
  if (typeof value !== "object" || value === null) return [];
  const own = "properties" in value && "type" in value ? [value] : [];
  return [...own, ...Object.values(value).flatMap(objectsIn)];
}

const isClosed = (schema: object): boolean =>
  "additionalProperties" in schema && schema.additionalProperties === false;

test("responses are open to later members, and bodies are closed", async (t) => {
  const { document } = await fetchDocument(await startTestDaemon(t));
  const operations = placedOperations(document);
  const answers = objectsIn(operations.map(({ responses }) => responses));
  const bodies = objectsIn(operations.map(({ requestBody }) => requestBody));

  assert(answers.length > 100 && bodies.length > 10);
  assert.deepEqual(answers.filter(isClosed), []);
  assert.deepEqual(
    bodies.filter((schema) => !isClosed(schema)),
    [],
  );
});

test("the data of an accepted task has the documented fields and types", async (t) => {
  const daemon = await startTestDaemon(t);
  const { document } = await fetchDocument(daemon);
  const shape = document.components.schemas["TaskData"];
  assert(shape !== undefined);
  const task = {
    ...{ type: "echo", tag: "order-17", priority: 9, input: [1.5] },
    start_at: "2026-01-31T10:00:00+01:00",
    postback_url: "https://example.com/done",
    pingback_url: "https://example.com/done?id=$id",
  };
  const named = Object.keys(Object(shape["properties"]));
  assert.deepEqual(new Set(named), new Set([...Object.keys(task), "marketplace"]));

  const judge = new Judge();
  for (const posted of [{}, { tag: null, priority: null }, task]) {
    const [accepted] = (await daemon.post(posted)).tasks;
    assert.equal(accepted?.status_code, 20100, JSON.stringify(accepted));
    judge.assertFits(shape, accepted.data);
  }
});

/** The schemas of a member of a task, in each part of a union that names its members. */
function membersOf(schema: Schema, name: string): readonly Schema[] {
  const { anyOf, properties } = schema as { anyOf?: readonly Schema[]; properties?: object };
  if (anyOf !== undefined) return anyOf.flatMap((each) => membersOf(each, name));
  const members = Object.entries(properties ?? {}) as [string, Schema][];
  return members.flatMap(([each, member]) => (each === name ? [member] : []));
}

test("the tag of a task is text in every response with the data of tasks", async (t) => {
  const { document } = await fetchDocument(await startTestDaemon(t));
  const found: string[] = [];
  for (const { operationId, responses } of placedOperations(document)) {
    const answer = responses["200"]?.content?.["application/json"]?.schema;
    if (answer === undefined) continue;
    const items = membersOf(answer, "tasks").flatMap(({ items = {} }) => [items as Schema]);
    const data = [...items, ...membersOf(answer, "task")].flatMap((each) =>
      membersOf(each, "data"),
    );
    if (data.length === 0) continue;
    const tags = data.flatMap((each) => membersOf(each, "tag"));
    assert.deepEqual(new Set(tags.map(({ type }) => type)), new Set(["string"]), operationId);
    found.push(operationId);
  }

  const tasks = "cancelTask getTask getTimeline listReadyTasks listTasks postTasks";
  assert.equal(found.toSorted().join(" "), tasks);
});

/** Requests that no rule of the table makes, by the id of their operation. */
const QUERIES: readonly (readonly [id: string, query: string])[] = [
  ["searchTasks", "q=state:done"],
  ["searchTasks", "q=colour:red"],
  ["searchTasks", 'q=tag:"a'],
  ["searchTasks", "q=a b"],
  ["getTimeline", "time_zone=Europe/Atlantis"],
  ["getSeries", "from=2026-01-31T08:00:00Z&to=2026-01-31T07:00:00Z"],
  ["getSeries", "from=2020-01-01T00:00:00Z"],
  ["getSeries", "to=0000-01-01T00:00:00Z"],
  ["listHosts", "since=2020-01-01T00:00:00Z"],
];

const BODIES: readonly (readonly [id: string, body: string])[] = [
  ["postTasks", "[1]"],
  ["postTasks", `[${"1,".repeat(100)}1]`],
  ["createKey", '{"lable":"ci"}'],
  ["cancelTasks", '{"cursor":"x"}'],
  ["claimTasks", '{"types":["print","scan"]}'],
  ["heartbeatLeases", '{"leases":[],"progress":{"progress":2}}'],
];

/** The sentences of a response that an error explains: its details, and the messages of its tasks. */
function sentencesOf({ body }: Answer): readonly string[] {
  const errors = (body.errors ?? []).map(({ pointer, detail }) => {
    return `${pointer} ${detail}`.trim().replace(/line \d+, column \d+/, "line N, column N");
  });
  const refused = (body.tasks ?? []).filter((task) => task.status_code >= 40000);
  return [...errors, ...refused.map((task) => task.status_message)];
}

/** Each sentence once with its first cause; quoted names are ignored. */
type Sentences = Map<string, readonly [cause: string, sentence: string]>;

function noteSentences(sentences: Sentences, cause: string, answer: Answer): void {
  const first = cause.length > 70 ? `${cause.slice(0, 70)}…` : cause;
  for (const sentence of sentencesOf(answer)) {
    const key = sentence.replaceAll(/'[^']*'/g, "''");
    if (!sentences.has(key)) sentences.set(key, [JSON.stringify(first).slice(1, -1), sentence]);
  }
}

/** Adds the sentences that no row of the table has. */
async function addOtherSentences({ cases, send }: Tested, sentences: Sentences): Promise<void> {
  const caseOf = (id: string): Case => {
    return cases.find(({ operation }) => operation.doc.id === id) ?? assert.fail(id);
  };
  for (const { name, sound, status } of cases) {
    if (status >= 400) noteSentences(sentences, name, await send(sound));
  }
  for (const [id, query] of QUERIES) {
    const { name, sound } = caseOf(id);
    const parts = { ...sound, query: `?${encodeURI(query)}` };
    noteSentences(sentences, `${name} ${query}`, await send(parts));
  }
  for (const [id, body] of BODIES) {
    const { name, sound } = caseOf(id);
    noteSentences(sentences, `${name} ${body}`, await send({ ...sound, body }));
  }
}
