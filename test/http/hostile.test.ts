import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import Database from "better-sqlite3";
import fc from "fast-check";

import { hostileUrl } from "../domain/webhook-url-cases.ts";
import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { farStart } from "../helpers/far-start.ts";
import { openRaw, toBytes, toChunks } from "../helpers/raw-http.ts";
import type { RawConnection, RawRequest } from "../helpers/raw-http.ts";
import { ask, askOn, bearer, complaints, JSON_TYPE, posting } from "./answer.ts";
import { TASK_POST, taskGet, TASKS_READY, type Answer } from "./answer.ts";
import { naughtyStrings, urlTexts } from "./corpora.ts";
import { publicTargetFault } from "./public-target.ts";

// A fixed seed makes failures repeatable.
const SEED = 20_260_718;
// Queries of URLs are not logged.
const QUERY_SECRET = "hook-query-s3cret";
// Webhooks of a task that does not start are judged and stored, but not sent.
const FAR = farStart();

/** A daemon that allows public targets only. */
function startStrict(t: TestContext): Promise<TestDaemon> {
  return startTestDaemon(t, { toml: "[webhooks]\nallow = []\n" });
}

/** Asserts that nothing failed, no secret was logged and no webhook was sent. */
async function assertQuiet(daemon: TestDaemon): Promise<void> {
  const log = daemon.logLines.join("");
  for (const secret of [daemon.account.key, daemon.account.secret, QUERY_SECRET]) {
    assert.ok(!log.includes(secret));
  }
  assert.deepEqual(complaints(daemon), []);
  assert.equal((await ask(daemon.url, {})).response.status, 200);
  const { attempts } = readRows(daemon, "SELECT count(*) AS attempts FROM attempts")[0] ?? {};
  assert.equal(attempts, 0);
}

function readRows({ file }: TestDaemon, sql: string): readonly Readonly<Record<string, unknown>>[] {
  const database = new Database(file, { readonly: true });
  try {
    return database.prepare<[], Record<string, unknown>>(sql).all();
  } finally {
    database.close();
  }
}

/** Sends requests on one connection, and on another if the server closes it. */
function createAsker(t: TestContext, daemon: TestDaemon) {
  let connection: RawConnection | null = null;
  return async (request: RawRequest): Promise<Answer> => {
    connection ??= await openRaw(t, daemon.url);
    const answer = await askOn(connection, request);
    assert.ok(answer.response.status < 500, JSON.stringify(answer.body));
    const isKept = answer.response.headers.some(([, value]) => value === "keep-alive");
    if (!isKept) connection = null;
    return answer;
  };
}

/** Posts tasks, a hundred at a time; returns their status codes. */
async function postAll(
  ask: (request: RawRequest) => Promise<Answer>,
  daemon: TestDaemon,
  tasks: readonly object[],
) {
  const codes: (number | undefined)[] = [];
  for (let at = 0; at < tasks.length; at += 100) {
    const part = tasks.slice(at, at + 100);
    const { code, body } = await ask(posting(daemon, JSON.stringify(part)));
    assert.equal(code, 20000);
    assert.equal(body.tasks?.length, part.length);
    codes.push(...(body.tasks ?? []).map((task) => task.status_code));
  }
  return codes;
}

function webhookTasks(url: string, tag: string | null = null): readonly object[] {
  const task = { tag, start_at: FAR };
  return [
    { ...task, postback_url: url },
    { ...task, pingback_url: url },
  ];
}

/** Every accepted target is stored and is public by a second implementation of the rules. */
function assertTargetsPublic(daemon: TestDaemon, codes: readonly (number | undefined)[]): void {
  const rows = readRows(daemon, "SELECT url, host FROM deliveries");
  assert.equal(rows.length, codes.filter((code) => code === 20100).length);
  for (const { url } of rows) {
    assert(typeof url === "string");
    assert.equal(publicTargetFault(url), null, url);
    assert.equal(URL.parse(url)?.href, url);
  }
}

test("200 random and mutated bodies get a response of the contract, never 5xx", async (t) => {
  const daemon = await startStrict(t);
  const send = createAsker(t, daemon);
  const json = fc.json({ maxDepth: 4 });
  const name = fc.constantFrom(
    ..."type tag priority start_at marketplace input x __proto__".split(" "),
  );
  const task = fc.dictionary(fc.oneof(name, fc.string()), fc.jsonValue({ maxDepth: 3 }), {
    maxKeys: 5,
  });
  const sound =
    '[{"type":"echo","tag":"t\\u00e9","priority":5,"input":{"a":[1.50,-0,"x"]}},{"input":null}]';
  const mutated = fc
    .array(fc.tuple(fc.nat(sound.length - 1), fc.nat(255)), { minLength: 1, maxLength: 4 })
    .map((changes) => {
      const bytes = Buffer.from(sound);
      for (const [at, byte] of changes) bytes[at] = byte;
      return bytes;
    });
  const body = fc.oneof(
    fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
    fc.string({ unit: "binary", maxLength: 200 }).map((text) => Buffer.from(text)),
    json.map((text) => Buffer.from(text)),
    fc.array(task, { maxLength: 8 }).map((tasks) => Buffer.from(JSON.stringify(tasks))),
    fc.tuple(json, fc.nat(200)).map(([text, length]) => Buffer.from(text.slice(0, length))),
    mutated,
  );
  const how = fc.constantFrom("declared", "chunked");
  const answersAny = fc.asyncProperty(body, how, async (bytes, coding) => {
    const headers = [bearer(daemon), JSON_TYPE];
    if (coding === "chunked") headers.push("Transfer-Encoding: chunked");
    const sent = coding === "chunked" ? toChunks(bytes, 7) : bytes;
    const { code } = await send({ method: "POST", target: TASK_POST, headers, body: sent });
    assert.ok([20000, 40006, 40502, 40503].includes(code ?? 0), String(code));
  });
  await fc.assert(answersAny, { seed: SEED, numRuns: 200 });
  await assertQuiet(daemon);
});

test("150 requests with random methods, targets and headers get a response of the contract", async (t) => {
  const daemon = await startStrict(t);
  const token = fc.stringMatching(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,20}$/);
  const known = fc.constantFrom(
    ..."Authorization Content-Type Content-Encoding Host Expect Connection Accept Upgrade TE".split(
      " ",
    ),
    ..."Trailer X-Forwarded-Host X-Forwarded-Proto Forwarded Cookie Range If-Match Via".split(" "),
    ..."X-HTTP-Method-Override Proxy-Authorization __proto__".split(" "),
  );
  const framing = /^(content-length|transfer-encoding)$/i;
  const value = fc.oneof(
    fc.string({ maxLength: 60 }),
    fc.stringMatching(/^[\t\x20-\x7e\x80-\xff]{0,60}$/),
    fc.constantFrom(
      ..."close upgrade websocket 100-continue a:99999 [::::] * gzip identity 1.2.3.4.5".split(" "),
      ...["", "application/json", "Basic Og==", bearer(daemon).slice(15)],
    ),
  );
  const line = fc
    .tuple(fc.oneof({ arbitrary: known, weight: 3 }, { arbitrary: token, weight: 1 }), value)
    .filter(([name]) => !framing.test(name))
    .map(([name, text]) => `${name}: ${text.replaceAll(/[^\t\x20-\x7e\x80-\xff]/g, "")}`);
  const paths = [TASK_POST, TASKS_READY, "/livez", "/readyz", "/v1/tasks/task_get/", "/"];
  const path = fc.constantFrom(...paths);
  const tail = fc.stringMatching(/^[\x21\x24-\x7e]{0,40}$/);
  const target = fc.oneof(
    fc.tuple(path, tail).map((parts) => parts.join("")),
    fc.tuple(path, tail).map((parts) => parts.join("?")),
    tail.map((text) => `/${text}`),
    fc
      .tuple(fc.constantFrom("http://", "https://", "foo://"), tail)
      .map((parts) => parts.join("a")),
    fc.webPath().map((text) => `/${text.replaceAll(/[^\x21-\x7e]/g, "")}`),
  );
  const method = fc.constantFrom(
    ..."GET GET POST POST PUT DELETE OPTIONS TRACE PATCH PROPFIND".split(" "),
  );
  const answersAny = fc.asyncProperty(
    fc.record({ method, target, headers: fc.array(line, { maxLength: 8 }) }),
    fc.option(fc.string({ unit: "binary", maxLength: 30 }), { nil: undefined }),
    async (head, body) => {
      const request = { ...head, ...(body === undefined ? {} : { body }) };
      const { response } = await ask(daemon.url, request);
      assert.ok(response.status < 500);
    },
  );
  await fc.assert(answersAny, { seed: SEED, numRuns: 150 });
  await assertQuiet(daemon);
});

test("100 random byte sequences get a response of the contract or none", async (t) => {
  const daemon = await startStrict(t);
  const pieces = fc.constantFrom(
    ...["GET ", "POST ", "/livez", TASK_POST, " HTTP/1.1", " HTTP/1.0", "\r\n", "\r\n\r\n", "\n"],
    ...["\r", "Host: a", "Content-Length: 2", "Content-Length: 1000", "Transfer-Encoding: chunked"],
    ...["{}", bearer(daemon), JSON_TYPE, "0\r\n\r\n", "2\r\n{}\r\n", "\0", ":", " ", "\t", "*"],
    ...["Connection: close", "ffffffffffffffff\r\n", "Transfer-Encoding: x", "Upgrade: h2c"],
    "Expect: 100-continue",
  );
  const noise = fc
    .uint8Array({ maxLength: 40 })
    .map((bytes) => Buffer.from(bytes).toString("latin1"));
  const wellBegun = toBytes(posting(daemon, "[]")).toString("latin1");
  const bytes = fc
    .tuple(
      fc.constantFrom("", "", wellBegun.slice(0, 40), wellBegun),
      fc.array(fc.oneof({ arbitrary: pieces, weight: 5 }, { arbitrary: noise, weight: 1 }), {
        maxLength: 12,
      }),
    )
    .map(([begun, parts]) => begun + parts.join(""));
  const endsAny = fc.asyncProperty(bytes, async (text) => {
    const connection = await openRaw(t, daemon.url);
    connection.send(text);
    connection.end();
    const said = (await connection.closed()).toString("latin1");
    assert.match(said, /^(HTTP\/1\.1 [1-4]\d\d |$)/);
    assert.doesNotMatch(said, /^HTTP\/1\.1 5/m);
    if (/\bHTTP\/1\.1 4\d\d /.test(said)) assert.match(said, /"status_code":4\d{4}/);
  });
  await fc.assert(endsAny, { seed: SEED, numRuns: 100 });
  await assertQuiet(daemon);
});

test("600 random URLs as postback and pingback store only public targets", async (t) => {
  const daemon = await startStrict(t);
  const urls = fc.sample(hostileUrl(), { seed: SEED, numRuns: 600 });
  const tags = fc.sample(fc.string({ unit: "grapheme", maxLength: 20 }), {
    seed: SEED,
    numRuns: 600,
  });
  const tasks = urls.flatMap((url, i) => webhookTasks(url, tags[i]));
  const codes = await postAll(createAsker(t, daemon), daemon, tasks);

  assert.ok(codes.filter((code) => code === 20100).length > 60);
  assert.ok(codes.filter((code) => code === 40501).length > 300);
  assertTargetsPublic(daemon, codes);
  await assertQuiet(daemon);
});

test("the URLs of other parsers' tests store only public targets", async (t) => {
  const daemon = await startStrict(t);
  const texts = [...urlTexts(), ...naughtyStrings()];
  const tasks = texts.flatMap((text) => [
    ...webhookTasks(text),
    ...webhookTasks(`http://${text}`).slice(1),
    ...webhookTasks(`https://h.example/?${QUERY_SECRET}=${text}`).slice(1),
    ...webhookTasks(`http://$tag.example/${text}`, text.toWellFormed().slice(0, 100)).slice(1),
  ]);
  const codes = await postAll(createAsker(t, daemon), daemon, tasks);

  assert.ok(codes.filter((code) => code === 20100).length > 1000);
  assertTargetsPublic(daemon, codes);
  await assertQuiet(daemon);
});

test("naughty strings in fields, paths, queries and headers get a response of the contract", async (t) => {
  const daemon = await startStrict(t);
  const send = createAsker(t, daemon);
  const texts = naughtyStrings();
  const tasks = texts.flatMap((text) => [
    { input: text, tag: text, start_at: FAR },
    { type: text },
    { marketplace: text },
    { start_at: text, priority: text },
    { [text]: text },
    { input: { [text]: [text] }, start_at: FAR },
  ]);
  const codes = await postAll(send, daemon, tasks);
  assert.deepEqual(new Set(codes), new Set([20100, 40501, 40506]));
  for (const [i, text] of texts.entries()) {
    const escaped = encodeURIComponent(text.toWellFormed());
    const headers = [bearer(daemon)];
    const raw = text.replaceAll(/[^\x21\x24-\x7e]/g, "");
    const header = Buffer.from(text.replaceAll(/[\r\n\0]/g, "")).toString("latin1");
    const targets =
      i % 2 === 0
        ? [taskGet(escaped), `${TASKS_READY}?tag=${escaped}`, `/${raw}`]
        : [`${TASKS_READY}?cursor=${escaped}`, `${TASKS_READY}?${escaped}=1`, `/livez?${raw}`];
    for (const target of targets) {
      await send({ target, headers });
    }
    if (i % 4 === 0) await ask(daemon.url, { headers: [`X-Naughty: ${header}`] });
  }
  await assertQuiet(daemon);
});
