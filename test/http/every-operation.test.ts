import assert from "node:assert/strict";
import { test } from "node:test";

import type { JsonSchema } from "../../src/api/schema.ts";
import { takesBody } from "../../src/http/operation.ts";
import { clusterTest } from "../helpers/cluster-test.ts";
import { headerLines, headerOf, openRaw, toBytes, toChunks } from "../helpers/raw-http.ts";
import { JSON_TYPE, toAnswer } from "./answer.ts";
import {
  assertQuiet,
  BODY_LIMIT,
  isOperators,
  LIMITED_BODIES,
  soundNames,
  startTested,
  toRequest,
  type Case,
  type Parts,
} from "./operation-cases.ts";

/** Bad requests to every operation there is; what concerns their bodies is in every-body.test.ts. */

const CHUNKED = "Transfer-Encoding: chunked";

clusterTest("every operation has a sound request here, and answers it", async (t) => {
  const tested = await startTested(t);
  const names = tested.cases.map(({ operation }) => operation.doc.id);
  assert.deepEqual(names.toSorted(), soundNames().toSorted());
  for (const { name, sound, status } of tested.cases) {
    assert.equal((await tested.send(sound)).response.status, status, name);
  }
  assertQuiet(tested);
});

test("every other method of every path is 405 with the methods it has, with credentials and without", async (t) => {
  const tested = await startTested(t);
  const methods = "GET HEAD POST PUT PATCH DELETE OPTIONS TRACE PROPFIND QUERY".split(" ");
  for (const cases of Map.groupBy(tested.cases, ({ operation }) => operation.path).values()) {
    const has = cases.flatMap(({ operation: { method } }) =>
      method === "GET" ? ["GET", "HEAD"] : [method],
    );
    for (const method of methods.filter((each) => !has.includes(each))) {
      for (const { name, sound } of cases) {
        for (const credentials of [[], sound.credentials, ["Authorization: nonsense"]]) {
          const { response } = await tested.send({ ...sound, method, credentials });
          assert.equal(response.status, 405, `${method}, not ${name}`);
          assert.equal(headerOf(response, "allow"), has.join(", "));
        }
      }
    }
  }
  assertQuiet(tested);
});

const SAME_FOR_HEAD = "content-length content-type etag cache-control connection".split(" ");

test("HEAD answers as GET does, without a body", async (t) => {
  const tested = await startTested(t);
  for (const { operation, name, sound } of tested.cases) {
    if (operation.method !== "GET") continue;
    for (const parts of [sound, { ...sound, credentials: [] }, { ...sound, query: "?nonsense" }]) {
      const get = await tested.send(parts);
      const head = await tested.send({ ...parts, method: "HEAD" });
      assert.equal(head.response.status, get.response.status, name);
      for (const header of SAME_FOR_HEAD) {
        assert.deepEqual(
          headerLines(head.response, header),
          headerLines(get.response, header),
          name,
        );
      }
    }
  }
  assertQuiet(tested);
});

test("every spelling of a path that is not the path is 404, and what means the same is the same", async (t) => {
  const tested = await startTested(t);
  for (const { operation, name, sound, status } of tested.cases) {
    const { path } = sound;
    const last = path.lastIndexOf("/");
    const [folder, file] = [path.slice(0, last), path.slice(last + 1)];
    const others = [
      [`/${path}`, path.toUpperCase(), `${folder}//${file}`, `${folder}/%2f${file}`, `${path}/x/y`],
      [`${path}//`, `${path}%20`, `${path}%00`, `${path}%2f`, `${path};a=b`, `${path}.json`],
      [`${folder}/%25${file.charCodeAt(0).toString(16)}${file.slice(1)}`, `${path}%253f`],
      [`${path}%3fx`, `${path}%23`, `/x${path}`, `${folder}/%252e/${file}`, `${path}%0d%0aX:y`],
      [
        `${folder}/.../${file}`,
        `/__proto__${path}`,
        `${path}%c3%a9`,
        `${folder || "/x"}\\${file}`,
        `${path}\\`,
      ],
    ].flat();
    // Beside an operation with a named part another name is that part, of a method that may not be there.
    const isNamed = tested.cases.some(({ operation: { path: named } }) =>
      new RegExp(`^${named.replaceAll(/:\w+/g, "[^/]+")}$`).test(`${folder}/x`),
    );
    const isOwn = operation.path.includes(":");
    for (const other of others) {
      const { response } = await tested.send({ ...sound, path: other });
      const isMissing = response.status === 404 || (isNamed && !isOwn && response.status === 405);
      assert.ok(isMissing, `${name}: ${other} is ${response.status}`);
    }
    for (const other of [`${path}%`, `${path}%zz`, `${path}%ff`, `${folder}/%c3/${file}`]) {
      const { code, body } = await tested.send({ ...sound, path: other });
      assert.equal(code, 40000, `${name}: ${other}`);
      assert.match(body.errors?.[0]?.detail ?? "", /escape in the path/);
    }
    const escaped = `${folder}/%${file.charCodeAt(0).toString(16)}${file.slice(1)}`;
    const same = [`${folder}/./${file}`, `${folder}/x/../${file}`, `${folder}/x/%2E%2e/${file}`];
    for (const other of [
      ...same,
      `/..${path}`,
      escaped,
      `${path}/`,
      `http://evil.example${path}`,
    ]) {
      const { response } = await tested.send({ ...sound, path: other });
      assert.equal(response.status, status, `${operation.method} ${other}`);
    }
  }
  assertQuiet(tested);
});

/** A query with a parameter that no rule knows, or that is spelled so that it is none. */
const UNKNOWN_QUERIES = [
  ["?nonsense=1", "?nonsense", "?=", "?=x", "?LIMIT=1", "?limit%20=1", "?__proto__=1", "??limit=1"],
  ["?constructor=x", "?limit[]=1", "?access_token=x", "?%00=1", `?${"x".repeat(5000)}=1`],
].flat();

// No escapes, and escapes of no UTF-8: alone, too long, a surrogate, cut off.
const BROKEN_ESCAPES = ["%", "%2", "%zz", "%u0041", "%ff", "%c0%af", "%ed%a0%80", "%e2%82", "%80"];

test("a query parameter that is unknown, given twice or not well encoded is 40000", async (t) => {
  const tested = await startTested(t);
  for (const { name, sound, values, status } of tested.cases) {
    const known = Object.entries(values).map(
      ([each, value]) => `${each}=${encodeURIComponent(value)}`,
    );
    const bad = [
      ...UNKNOWN_QUERIES,
      ...known.flatMap((each) => [`?${each}&${each}`, `?${each}&x=1`, `?${each}&${each}x`]),
      ...BROKEN_ESCAPES.flatMap((each) => [`?${each}=1`, `?tag=${each}`, `?tag=a${each}&limit=1`]),
    ];
    for (const query of bad) {
      assert.equal((await tested.send({ ...sound, query })).code, 40000, `${name} ${query}`);
    }
    for (const query of ["?", "?&", `?${known.join("&")}`, ...known.map((each) => `?${each}`)]) {
      const { response } = await tested.send({ ...sound, query });
      assert.equal(response.status, status, `${name} ${query}`);
    }
  }
  assertQuiet(tested);
});

/** Texts that break a parameter's rule, read off its schema. */
function brokenValues({ type, enum: words, minimum, maximum, ...rest }: JsonSchema): string[] {
  if (Array.isArray(words))
    return ["", "x", "__proto__", `${words[0]} `, `${words[0]},${words[0]}`];
  if (type === "boolean") return ["", "TRUE", "1", "yes", "true ", "null"];
  if (type === "integer") {
    const beyond = [Number(minimum) - 1, Number(maximum) + 1, "9".repeat(400)].map(String);
    return [...beyond, "", "x", "1.0", "1e0", "0x1", "+1", " 1", "1 ", "١", "NaN", "null", "[]"];
  }
  if (rest["format"] === "date-time") {
    return ["", "x", "1700000000", "2026-02-30T00:00:00Z", "2026-01-01", "2026-01-01T25:00:00Z"];
  }
  const { pattern, maxLength } = rest;
  const isPattern = typeof pattern === "string";
  if (isPattern && !new RegExp(pattern).test("")) {
    const isBroken = (value: string): boolean => !new RegExp(pattern).test(value);
    // A login may be an x, and a cursor looks like one.
    return ["!", "", "x", "=", "\0", "é", "x".repeat(5000)].filter(isBroken);
  }
  assert(typeof maxLength === "number");
  const tooLong = ["x", "😀"].map((point) => point.repeat(maxLength + 1));
  return isPattern ? [...tooLong, "\0", "a\nb", "\u009f"] : tooLong;
}

test("a query parameter whose value breaks its rule is 40000, and is never clamped", async (t) => {
  const tested = await startTested(t);
  for (const { operation, name, sound } of tested.cases) {
    for (const [parameter, { schema }] of Object.entries(operation.takes.query ?? {})) {
      for (const value of brokenValues(schema)) {
        const query = `?${parameter}=${encodeURIComponent(value)}`;
        const { code } = await tested.send({ ...sound, query });
        assert.equal(code, 40000, `${name} ${query.slice(0, 100)}`);
      }
    }
  }
  assertQuiet(tested);
});

test("credentials that are none are 40100 on every operation that needs some, and ignored on public ones", async (t) => {
  const tested = await startTested(t);
  const { login, key } = tested.daemon.account;
  const basic = Buffer.from(`${login}:${key}`).toString("base64");
  const good = `Authorization: Bearer ${key}`;
  const worker = `Authorization: Bearer ${tested.token}`;
  const bad = [
    [
      ["Authorization:"],
      ["Authorization: Bearer"],
      [`Authorization: ${key}`],
      [`X-Api-Key: ${key}`],
    ],
    [[`Authorization: Bearer ${key} `.concat("x")], [`Authorization: Basic ${basic}!`]],
    [[`Authorization: Basic ${Buffer.from(`x:${key}`).toString("base64")}`], [good, good]],
    [[good, "Authorization: Bearer x"], ["authorization: x", good], [`Cookie: key=${key}`]],
    [[`Authorization: Bearer ${key.slice(0, -1)}`], ["Authorization: Bearer pbd_work_x"]],
  ].flat();
  for (const { operation, name, sound, status } of tested.cases) {
    const isPublic = operation.access === "public";
    const isWorkers = operation.access === "worker";
    const others = isWorkers ? [[good], [`Authorization: Basic ${basic}`]] : [[worker]];
    for (const credentials of [[], ...bad, ...others]) {
      const { response, code } = await tested.send({ ...sound, credentials });
      assert.equal(response.status, isPublic ? status : 401, `${name} ${credentials.join()}`);
      if (isPublic) continue;
      assert.equal(code, 40100);
      assert.equal(headerLines(response, "www-authenticate").length, isWorkers ? 1 : 2);
    }
    const accepted = isWorkers
      ? [`AUTHORIZATION: bEARER ${tested.token}`]
      : [`Authorization: basic ${basic}`, `AUTHORIZATION: bEARER ${key}`];
    for (const line of accepted) {
      const { response } = await tested.send({ ...sound, credentials: [line] });
      // A key signs nobody in as the operator.
      assert.equal(response.status, isOperators(operation.access) ? 403 : status, name);
    }
  }
  assertQuiet(tested);
});

const HOSTS = [
  ["a:99999", "1.2.3.999", "[::::]", "[", "a..b", "-", "a b", "a/b", "a@b", "u:p@a", "%zz", "\xff"],
  ["evil.example", "127.0.0.1:1", "<x>", "__proto__", "", "a".repeat(300), "a,b", "localhost:x"],
].flat();

test("no Host header changes what a key or nobody is answered, and none or two of them are 40000", async (t) => {
  const tested = await startTested(t);
  for (const { operation, name, sound, status } of tested.cases) {
    // Browsers are held to a list of names: session-attack.test.ts.
    const isBrowsers = isOperators(operation.access) || operation.isSignIn === true;
    for (const host of isBrowsers ? [] : HOSTS) {
      const { response } = await tested.send({ ...sound, host: [`Host: ${host}`] });
      assert.equal(response.status, status, `${name} at ${host}`);
    }
    for (const host of [[], ["Host: a", "Host: a"], ["Host: a", "host: b"]]) {
      const { code } = await tested.send({ ...sound, host, credentials: [] });
      assert.equal(code, 40000, `${name} at ${host.join()}`);
    }
  }
  assertQuiet(tested);
});

// Shapes that two servers in a row may read as different numbers of requests.
const AMBIGUOUS: readonly (readonly [readonly string[], string])[] = [
  [["Content-Length: 5", CHUNKED], "0\r\n\r\nxx"],
  [[CHUNKED, "Content-Length: 2"], "2\r\n{}\r\n0\r\n\r\n"],
  [["Content-Length: 2", "Content-Length: 3"], "{}x"],
  [["Content-Length: 2, 2"], "{}"],
  [["Content-Length: +2"], "{}"],
  [["Content-Length: -2"], "{}"],
  [["Content-Length: 0x2"], "{}"],
  [["Content-Length: 18446744073709551618"], "{}"],
  [["Content-Length : 2"], "{}"],
  [["Transfer-Encoding: xchunked"], "0\r\n\r\n"],
  [["Transfer-Encoding: chunked, identity"], "0\r\n\r\n"],
  [[CHUNKED, CHUNKED], "2\r\n{}\r\n0\r\n\r\n"],
  [["Transfer-Encoding: \x0bchunked"], "2\r\n{}\r\n0\r\n\r\n"],
  [["X-Fold: a", " b", "Content-Length: 2"], "{}"],
  [["X-A: b\nContent-Length: 2"], "{}"],
  [["X-A: b\rContent-Length: 2"], "{}"],
  [["X-A: b\x00c"], "{}"],
  [["nonsense"], "{}"],
];

// These break in the middle of the body, when an operation that takes none may have answered.
const BROKEN_CHUNKS = [
  ["zz\r\n{}\r\n0\r\n\r\n", "+2\r\n{}\r\n0\r\n\r\n", "0x2\r\n{}\r\n0\r\n\r\n"],
  ["10000000000000002\r\n{}\r\n0\r\n\r\n", "2\r\n{}x\r\n0\r\n\r\n", "2\n{}\r\n0\r\n\r\n"],
].flat();

test("a request that can be read in two ways is answered once by every operation, and its connection closed", async (t) => {
  const tested = await startTested(t);
  for (const { operation, name, sound, status } of tested.cases) {
    const mayAnswer = !takesBody(operation.takes);
    const broken = BROKEN_CHUNKS.map((body) => [[CHUNKED], body, mayAnswer] as const);
    const ambiguous = AMBIGUOUS.map((each) => [...each, false] as const);
    for (const [others, body, isAnswered] of [...ambiguous, ...broken]) {
      const connection = await openRaw(t, tested.daemon.url);
      const head = toRequest({ ...sound, media: [...sound.media, ...others], body: null });
      const all = [toBytes(head), Buffer.from(body, "latin1"), toBytes({ target: "/readyz" })];
      connection.send(Buffer.concat(all));
      const { response, code } = toAnswer(await connection.next(), head);
      const isServed = isAnswered && response.status === status;
      assert.ok(code === 40000 || isServed, `${name} ${others.join()} ${body}`);
      const rest = (await connection.closed()).toString();
      // What stands behind a request that was answered already may be refused, but never served.
      if (code === 40000) assert.equal(rest, "", name);
      else assert.doesNotMatch(rest, /HTTP\/1\.1 200/, name);
    }
  }
  assertQuiet(tested);
});

test("a body that an operation does not take changes nothing, whatever it is and however it comes", async (t) => {
  const tested = await startTested(t);
  const media = [
    [],
    [JSON_TYPE],
    ["Content-Type: text/plain"],
    [JSON_TYPE, "Content-Encoding: gzip"],
  ];
  const bodies = ["", "{}", "\xff\xfe", "[".repeat(100_000), "x".repeat(400_000)];
  for (const { operation, name, sound, status } of tested.cases) {
    if (takesBody(operation.takes)) continue;
    for (const [i, body] of bodies.entries()) {
      const lines = media[i % media.length] ?? [];
      const declared = { ...sound, media: lines, body };
      const chunked = { ...sound, media: [...lines, CHUNKED], body: toChunks(body, 60_000) };
      const head = operation.method === "GET" ? [{ ...declared, method: "HEAD" }] : [];
      for (const parts of [declared, chunked, ...head]) {
        for (const others of [[], ["Expect: 100-continue"], ["Expect: x"]]) {
          const { response } = await tested.send({ ...parts, others });
          assert.equal(response.status, status, `${name} with ${body.slice(0, 9)}`);
        }
      }
    }
  }
  assertQuiet(tested);
});

test("a body that is promised and comes after the answer is not taken for a request", async (t) => {
  const tested = await startTested(t);
  const next = toBytes({ target: "/nothing" });
  for (const { operation, name, sound } of tested.cases) {
    // Without credentials, or without a body that it takes, an operation answers at once.
    const isPublic = operation.access === "public";
    if (isPublic && takesBody(operation.takes)) continue;
    for (const others of [[], ["Expect: 100-continue"]]) {
      const connection = await openRaw(t, tested.daemon.url);
      const length = `Content-Length: ${next.length}`;
      const parts = { ...sound, credentials: [], others: [length, ...others], body: null };
      connection.send(toBytes(toRequest(parts)));
      const { response } = toAnswer(await connection.next());
      assert.equal(response.status, isPublic ? 200 : 401, name);
      connection.send(Buffer.concat([next, toBytes({ target: "/readyz" })]));
      assert.equal((await connection.next()).status, 200, name);
      connection.reset();
    }
  }
  assertQuiet(tested);
});

/** Headers that count once, with what says how an operation takes two of them. */
const TWICE: readonly (readonly [readonly string[], (parts: Case) => boolean])[] = [
  [["Idempotency-Key: a", "Idempotency-Key: a"], takesNoPromise],
  [["Idempotency-Key: a", "idempotency-key: b"], takesNoPromise],
  [["Content-Type: application/json", "content-type: application/json"], takesNoBody],
  [["Content-Type: text/plain", "Content-Type: application/json"], takesNoBody],
  [["Prefer: wait=1", "Prefer: wait=0"], () => true],
  [["Prefer: respond-async", "Prefer: return=minimal"], () => true],
  [['If-None-Match: "a"', 'If-None-Match: W/"b", "c"'], () => true],
  [["Accept: text/html", "Accept: */*;q=0"], () => true],
  [["Range: bytes=0-1", "Range: bytes=5-"], () => true],
  [["If-Match: x", 'If-Match: "y"', "If-Unmodified-Since: never"], () => true],
  [["X-Request-Id: a", "X-Request-Id: b"], () => true],
  [["X-HTTP-Method-Override: PUT", "X-HTTP-Method-Override: GET"], () => true],
];

function takesNoBody({ operation }: Case): boolean {
  return !takesBody(operation.takes);
}

function takesNoPromise({ operation }: Case): boolean {
  return operation.doc.headers?.["Idempotency-Key"] === undefined;
}

test("of a header that counts once two are refused by who reads it, and passed over by everybody else", async (t) => {
  const tested = await startTested(t);
  for (const each of tested.cases) {
    for (const [others, isServed] of TWICE) {
      const isTyped = others.some((line) => /^content-type/i.test(line));
      const media = isTyped ? [] : each.sound.media;
      const { response, code } = await tested.send({ ...each.sound, media, others });
      if (isServed(each))
        assert.equal(response.status, each.status, `${each.name} ${others.join()}`);
      else assert.equal(code, isTyped ? 41500 : 40000, `${each.name} ${others.join()}`);
      assert.doesNotMatch(headerOf(response, "x-request-id") ?? "", /^[ab]$/);
    }
  }
  assertQuiet(tested);
});

clusterTest(
  "an entity tag in either of two headers, or the star, is 304 wherever there is one",
  async (t) => {
    const tested = await startTested(t);
    const tagged: string[] = [];
    for (const { operation, name, sound } of tested.cases) {
      const tag = headerOf((await tested.send(sound)).response, "etag");
      if (tag === null) continue;
      tagged.push(operation.doc.id);
      const shapes = [[tag], [`"x", W/${tag}`], ['"x"', tag], [tag, '"x"'], ["*"]];
      for (const shape of shapes) {
        const others = shape.map((each) => `If-None-Match: ${each}`);
        for (const method of ["GET", "HEAD"]) {
          const { response } = await tested.send({ ...sound, method, others });
          assert.equal(response.status, 304, `${name} ${others.join()}`);
        }
      }
      for (const other of [tag.slice(1, -1), `"x${tag.slice(1)}`, `${tag}x`, "", '""']) {
        const { response } = await tested.send({ ...sound, others: [`If-None-Match: ${other}`] });
        assert.equal(response.status, 200, `${name} ${other}`);
      }
    }
    assert.ok(
      ["listMarketplaces", "getStatus", "listStatusCodes"].every((id) => tagged.includes(id)),
    );
    assertQuiet(tested);
  },
);

const FORWARDED: readonly (readonly string[])[] = [
  ["X-Forwarded-Proto: http"],
  ["X-Forwarded-Proto: https, http", "Forwarded: proto=http;for=1.2.3.4"],
  ["X-Forwarded-For: 10.0.0.1", "X-Real-IP: 10.0.0.1", "X-Forwarded-Host: evil.example"],
  ["X-Forwarded-Prefix: /x", "X-Forwarded-Port: 1", "X-Original-URL: /nothing"],
];

const PROXIED = 'trusted_proxies = ["10.0.0.0/8"]\n[limits]\n';

test("what a peer that is no trusted proxy forwards changes no answer and no limit", async (t) => {
  const open = await startTested(t, {
    toml: `${PROXIED}failed_authentications_per_minute = 0\naccess_requests_per_hour = 0\n`,
  });
  for (const { name, sound, status } of open.cases) {
    for (const others of FORWARDED) {
      const { response } = await open.send({ ...sound, others });
      assert.equal(response.status, status, `${name} ${others.join()}`);
    }
  }
  const limited = await startTested(t, {
    toml: `${PROXIED}failed_authentications_per_minute = 3\naccess_requests_per_hour = 3\n`,
  });
  for (const doc of ["getUserData", "requestAccess"]) {
    const sound = limited.cases.find(({ operation }) => operation.doc.id === doc)?.sound;
    assert.ok(sound !== undefined);
    const codes: (number | null)[] = [];
    for (let i = 0; i < 5; i++) {
      const others = [`X-Forwarded-For: 203.0.113.${i}`, `Forwarded: for=203.0.113.${i}`];
      codes.push((await limited.send({ ...sound, credentials: [], others })).code);
    }
    assert.deepEqual(codes.slice(3), [42900, 42900], doc);
    assert.ok(!codes.slice(0, 3).includes(42900), doc);
  }
  assertQuiet(open);
});

/** One thing wrong with a request, and the code for it. */
interface Fault {
  readonly code: number;
  readonly spoil: (parts: Parts) => Parts;
}

const PADDING = " ".repeat(BODY_LIMIT);

/** What can be wrong with a request, in the order in which the contract looks (§1). */
function faultsOf({ operation }: Case): readonly Fault[] {
  const { access, takes } = operation;
  const faults: (Fault | false)[] = [
    { code: 40400, spoil: (parts) => ({ ...parts, path: `${parts.path}/nothing/at/all` }) },
    { code: 40500, spoil: (parts) => ({ ...parts, method: "PATCH" }) },
    { code: 40000, spoil: (parts) => ({ ...parts, host: ["Host: a", "Host: b"] }) },
    access !== "public" && {
      code: 40100,
      spoil: (parts) => ({ ...parts, credentials: ["Authorization: Bearer x"] }),
    },
    { code: 40000, spoil: (parts) => ({ ...parts, query: "?nonsense=1" }) },
    takesBody(takes) && {
      code: 41500,
      spoil: (parts) => ({ ...parts, media: ["Content-Type: text/plain"] }),
    },
    takesBody(takes) && {
      code: 41300,
      spoil: (parts) => ({ ...parts, body: `${String(parts.body)}${PADDING}` }),
    },
    takesBody(takes) && { code: 40503, spoil: (parts) => ({ ...parts, body: "[" }) },
    takes.body !== undefined && {
      code: 40501,
      spoil: (parts) => ({ ...parts, body: '{"nonsense":1}' }),
    },
  ];
  return faults.filter((each) => each !== false);
}

test("of any two faults the one that the contract looks for first is named, for every operation", async (t) => {
  const tested = await startTested(t, { toml: LIMITED_BODIES });
  for (const each of tested.cases) {
    const faults = faultsOf(each);
    for (const [i, first] of faults.entries()) {
      for (const second of faults.slice(i)) {
        // The later one first: what is too large is padded whatever it says.
        const parts = first.spoil(second.spoil(each.sound));
        const { code } = await tested.send(parts);
        assert.equal(code, first.code, `${each.name}: ${first.code} and ${second.code}`);
      }
    }
    const worst = faults.reduceRight((parts, { spoil }) => spoil(parts), each.sound);
    assert.equal((await tested.send(worst)).code, 40400, each.name);
  }
  assertQuiet(tested);
});
