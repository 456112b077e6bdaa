import assert from "node:assert/strict";

import type { JsonSchema } from "../../src/api/schema.ts";
import { takesBody } from "../../src/http/operation.ts";
import { headerOf, toChunks } from "../helpers/raw-http.ts";
import { bearer, JSON_TYPE } from "./answer.ts";
import { isOperators, type Case, type Parts, type Tested } from "./operation-cases.ts";

/** A request and the response to it. */
export interface Row {
  readonly parts: Parts;
  /** An HTTP status or a status code of five digits; of several, any. Omitted if `sameAs` says it. */
  readonly expected?: number | readonly number[];
  /** Header values of the response; null if the header must be absent. */
  readonly headers?: Readonly<Record<string, string | null>>;
  /** The pointers of the errors, in their order. */
  readonly pointers?: readonly string[];
  /** One of the pointers of the errors. */
  readonly pointer?: string;
  /** The field that the message of an invalid body or task names. */
  readonly field?: string;
  /** The status code of the first task of the response. */
  readonly task?: number;
  /** Names the sentences of the response in sentences.txt. */
  readonly cause?: string;
  /** Another request with the same response. */
  readonly sameAs?: Parts;
  /** True if the response belongs to no operation, so that no document describes it. */
  readonly isUndocumented?: true;
}

/** Rows of one rule for each operation. */
export interface Kind {
  readonly rule: string;
  /**
   * Operations for which this returns the same text share the code that the rule judges. The first one has all rows,
   * each other operation one row, in turn. Omitted if the operation's own code decides.
   */
  readonly sharedBy?: (each: Case) => string;
  readonly rows: (each: Case, tested: Tested) => readonly Row[] | Promise<readonly Row[]>;
}

export const CHUNKED = "Transfer-Encoding: chunked";

function good({ sound, values, status }: Case): readonly Row[] {
  const known = queryOf(values);
  const queries = ["", "?", "?&", `?${known.join("&")}`, ...known.map((each) => `?${each}`)];
  const rows = queries.map((query) => ({ parts: { ...sound, query }, expected: status }));
  const expecting = { ...sound, others: ["Expect: 100-continue"] };
  return [...rows, { parts: expecting, expected: status }];
}

function queryOf(values: Readonly<Record<string, string>>): readonly string[] {
  return Object.entries(values).map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
}

const METHODS = "GET HEAD POST PUT PATCH DELETE OPTIONS TRACE PROPFIND QUERY".split(" ");

function otherMethod({ operation, sound }: Case, { cases }: Tested): readonly Row[] {
  const siblings = cases.filter((each) => each.operation.path === operation.path);
  const has = siblings.flatMap(({ operation: { method } }) =>
    method === "GET" ? ["GET", "HEAD"] : [method],
  );
  const headers = { allow: has.join(", ") };
  return METHODS.filter((method) => !has.includes(method)).flatMap((method) =>
    [[], sound.credentials].map((credentials) => {
      const parts = { ...sound, method, credentials };
      return { parts, expected: 405, headers, isUndocumented: true };
    }),
  );
}

function head({ operation, sound }: Case): readonly Row[] {
  if (operation.method !== "GET") return [];
  const shapes = [sound, { ...sound, credentials: [] }, { ...sound, query: "?nonsense" }];
  return shapes.map((sameAs) => ({ parts: { ...sameAs, method: "HEAD" }, sameAs }));
}

function otherPath(each: Case, { cases }: Tested): readonly Row[] {
  const { operation, sound, status } = each;
  const { path } = sound;
  const last = path.lastIndexOf("/");
  const [folder, file] = [path.slice(0, last), path.slice(last + 1)];
  const escaped = (prefix: string): string =>
    `${folder}/${prefix}${file.charCodeAt(0).toString(16)}${file.slice(1)}`;
  const missing = [
    [`/${path}`, path.toUpperCase(), `${folder}//${file}`, `${path}/x/y`, `${path}//`],
    [`${path}%20`, `${path}%00`, `${path}%2f`, `${path};a=b`, `${path}.json`, escaped("%25")],
    [`/x${path}`, `${folder}/%252e/${file}`, `/__proto__${path}`, `${path}%c3%a9`, `${path}\\`],
  ].flat();
  // Next to a path with a named part, any name is that part: its method may be missing.
  const isNamed = cases.some(({ operation: { path: named } }) =>
    new RegExp(`^${named.replaceAll(/:\w+/g, "[^/]+")}$`).test(`${folder}/x`),
  );
  const expected = isNamed && !operation.path.includes(":") ? [404, 405] : 404;
  const malformed = [`${path}%`, `${path}%zz`, `${path}%ff`, `${folder}/%c3/${file}`];
  const same = [`${folder}/./${file}`, `${folder}/x/%2E%2e/${file}`, `/..${path}`, `${path}/`];
  const equal = [...same, escaped("%"), `http://evil.example${path}`];
  const to = (other: string): Parts => ({ ...sound, path: other });
  return [
    ...missing.map((other) => ({ parts: to(other), expected, isUndocumented: true as const })),
    ...malformed.map((other) => {
      const isUndocumented = true as const;
      return { parts: to(other), cause: "malformed path", expected: 40000, isUndocumented };
    }),
    ...equal.map((other) => ({ parts: to(other), expected: status })),
  ];
}

// Unknown names, and names that are only spelled like a known one.
const UNKNOWN_QUERIES = [
  ["nonsense=1", "nonsense", "=", "=x", "LIMIT=1", "limit%20=1", "__proto__=1", "?limit=1"],
  ["constructor=x", "limit[]=1", "access_token=SECRET", "%00=1", `${"x".repeat(5000)}=SECRET`],
].flat();

// Not hexadecimal, or not UTF-8: a lone byte, too long, a surrogate, cut off.
const BROKEN_ESCAPES = ["%", "%2", "%zz", "%u0041", "%ff", "%c0%af", "%ed%a0%80", "%e2%82", "%80"];

function unknownQuery({ sound, values }: Case): readonly Row[] {
  const known = queryOf(values);
  const bad = [
    ...UNKNOWN_QUERIES,
    ...known.flatMap((each) => [`${each}&${each}`, `${each}&x=1`, `${each}&${each}x`]),
    ...BROKEN_ESCAPES.map((each, i) => (i % 2 === 0 ? `${each}=1` : `tag=a${each}&limit=1`)),
  ];
  return bad.map((query) => {
    return { parts: { ...sound, query: `?${query}` }, cause: `?${query}`, expected: 40000 };
  });
}

/** Texts that a query parameter with this schema refuses. */
export function brokenValues(schema: JsonSchema): readonly string[] {
  const { type, enum: words, minimum, maximum, format, pattern, maxLength } = schema;
  if (Array.isArray(words))
    return ["", "x", "__proto__", `${words[0]} `, `${words[0]},${words[0]}`];
  if (type === "boolean") return ["", "TRUE", "1", "yes", "true ", "null"];
  if (type === "integer") {
    const beyond = [Number(minimum) - 1, Number(maximum) + 1, "9".repeat(400)].map(String);
    return [...beyond, "", "x", "1.0", "1e0", "0x1", "+1", " 1", "1 ", "１", "NaN", "null", "[]"];
  }
  if (format === "date-time") {
    const times = [
      "2026-02-30T00:00:00Z",
      "2026-01-01",
      "2026-01-01T25:00:00Z",
      "2026-01-01T24:00:00Z",
    ];
    return [
      "",
      "x",
      "1700000000",
      "now",
      "12030-01-31T09:00:00Z",
      "2030-01-31T09:00:00 02:00",
      ...times,
    ];
  }
  const isPattern = typeof pattern === "string";
  if (isPattern && !new RegExp(pattern).test("")) {
    const isBroken = (value: string): boolean => !new RegExp(pattern).test(value);
    // An x is a valid login and looks like a cursor.
    return ["!", "", "x", "=", "\0", "é", "x".repeat(5000)].filter(isBroken);
  }
  const tooLong = ["x", "😀"].map((point) => point.repeat(Number(maxLength) + 1));
  return isPattern ? [...tooLong, "\0", "a\nb", "\u009f"] : tooLong;
}

function badValue({ operation, sound }: Case): readonly Row[] {
  return Object.entries(operation.takes.query ?? {}).flatMap(([name, { schema }]) =>
    brokenValues(schema).map((value) => {
      const query = `?${name}=${encodeURIComponent(value)}`;
      return { parts: { ...sound, query }, cause: query, expected: 40000, pointers: [""] };
    }),
  );
}

function credentials({ operation, sound, status }: Case, { callers }: Tested): readonly Row[] {
  const { others, account, token } = callers;
  const basic = Buffer.from(`${account.login}:${account.key}`).toString("base64");
  const key = bearer(callers);
  const worker = `Authorization: Bearer ${token}`;
  const { access } = operation;
  const isPublic = access === "public";
  const isWorkers = access === "worker";
  const refused: readonly (readonly [number, readonly string[]])[] = [
    [40100, []],
    [40100, ["Authorization:"]],
    [40100, ["Authorization: Bearer nonsense"]],
    [40100, [key, key]],
    [40100, [worker, worker]],
    [40100, [isWorkers ? key : worker]],
    [40100, [`Cookie: key=${account.key}`]],
  ];
  const revoked = isWorkers ? others.revokedToken : others.revoked.key;
  const known: typeof refused = [
    [40101, [`Authorization: Bearer ${revoked}`]],
    ...(isWorkers ? [] : [[40102, [bearer({ account: others.disabled })]] as const]),
  ];
  const rowsOf = ([code, lines]: (typeof refused)[number]): Row => {
    const parts = { ...sound, credentials: lines };
    return { parts, expected: isPublic ? status : code };
  };
  const accepted = isWorkers
    ? [`AUTHORIZATION: bEARER ${token}`]
    : [`Authorization: basic ${basic}`, `AUTHORIZATION: bEARER ${account.key}`];
  return [
    ...[...refused, ...known].map(rowsOf),
    // A key is not enough for operations of the operator.
    ...accepted.map((line) => {
      const parts = { ...sound, credentials: [line] };
      return { parts, expected: isOperators(access) ? 40301 : status };
    }),
  ];
}

function otherAccount({ unknown }: Case): readonly Row[] {
  if (unknown === null) return [];
  const { sound, code, foreign } = unknown;
  const same = foreign === null ? [] : [{ parts: foreign, expected: code, sameAs: sound }];
  return [{ parts: sound, expected: code }, ...same];
}

function malformedId({ unknown }: Case): readonly Row[] {
  if (unknown === null) return [];
  const { sound, code, malformed } = unknown;
  return malformed.map((parts) => ({ parts, expected: code, sameAs: sound }));
}

/** Headers that may stand once; the code for two of them, where the operation reads them. */
const TWICE: readonly (readonly [lines: readonly string[], code: (each: Case) => number | null])[] =
  [
    [["Idempotency-Key: a", "Idempotency-Key: a"], keyCode],
    [["Idempotency-Key: a", "idempotency-key: b"], keyCode],
    [["Content-Type: application/json", "content-type: application/json"], mediaCode],
    [["Content-Type: text/plain", "Content-Type: application/json"], mediaCode],
  ];

/** Headers that change no response. */
const IGNORED: readonly (readonly string[])[] = [
  ["Prefer: wait=1", "Prefer: wait=0"],
  ['If-None-Match: "a"', 'If-None-Match: W/"b", "c"'],
  ["Accept: text/html", "Accept: */*;q=0"],
  ["Range: bytes=0-1", "If-Match: x", 'If-Match: "y"', "If-Unmodified-Since: never"],
  ["X-Request-Id: a", "X-HTTP-Method-Override: PUT", "X-HTTP-Method-Override: GET"],
  // No trusted proxy sends them.
  ["X-Forwarded-Proto: http", "X-Forwarded-Host: evil.example", "X-Original-URL: /nothing"],
  ["X-Forwarded-For: 10.0.0.1", "X-Real-IP: 10.0.0.1", "Forwarded: proto=http;for=1.2.3.4"],
];

function mediaCode({ operation }: Case): number | null {
  return takesBody(operation.takes) ? 41500 : null;
}

function keyCode({ operation }: Case): number | null {
  return operation.doc.headers?.["Idempotency-Key"] === undefined ? null : 40000;
}

function headers(each: Case): readonly Row[] {
  const { sound, status } = each;
  const twice = TWICE.map(([others, code]) => {
    const isTyped = others.some((line) => /^content-type/i.test(line));
    const parts = { ...sound, media: isTyped ? [] : sound.media, others };
    return { parts, expected: code(each) ?? status };
  });
  return [
    ...twice,
    ...IGNORED.map((others) => {
      // Lists of the dashboard have a tag if a request brings one.
      return { parts: { ...sound, others }, expected: status, isUndocumented: true as const };
    }),
  ];
}

function unusedBody({ operation, sound, status }: Case): readonly Row[] {
  if (takesBody(operation.takes)) return [];
  const bodies: readonly (readonly [string, readonly string[]])[] = [
    ["", []],
    ["{}", [JSON_TYPE]],
    ["\xff\xfe", ["Content-Type: text/plain"]],
    ["[".repeat(1000), [JSON_TYPE, "Content-Encoding: gzip"]],
    ["GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n".padEnd(70_000, "x"), []],
  ];
  return bodies.flatMap(([body, media]) => {
    const declared = { ...sound, media, body };
    const chunked = { ...sound, media: [...media, CHUNKED], body: toChunks(body, 20_000) };
    const asHead = operation.method === "GET" ? [{ ...declared, method: "HEAD" }] : [];
    return [declared, chunked, ...asHead].flatMap((parts) =>
      [[], ["Expect: 100-continue"]].map((others) => {
        return { parts: { ...parts, others }, expected: status };
      }),
    );
  });
}

async function conditional(
  { operation: { doc }, sound }: Case,
  { send }: Tested,
): Promise<readonly Row[]> {
  const tag = headerOf((await send(sound)).response, "etag");
  assert.equal(tag !== null, "ETag" in (doc.answerHeaders ?? {}), doc.id);
  if (tag === null) return [];
  const rowOf = (lines: readonly string[], expected: number): Row => {
    const others = lines.map((each) => `If-None-Match: ${each}`);
    return { parts: { ...sound, others }, expected, headers: { etag: tag } };
  };
  const known = [
    [tag],
    [`W/${tag}`],
    [`"x", W/${tag}`],
    [`"x",W/"y",${tag} ,"z"`],
    ['"x"', tag],
    ["*"],
  ];
  const matching = known.map((lines) => rowOf(lines, 304));
  const inside = tag.slice(1, -1);
  const others = [
    [inside, `"x${inside}"`, `${tag}x`, "", '""', '"x"', ",", "W/", '"*"', "**"],
    [`w/${tag}`, `'${inside}'`, `"${inside}`, `"${tag}"`],
  ].flat();
  return [
    ...matching,
    ...matching.map((row) => ({ ...row, parts: { ...row.parts, method: "HEAD" } })),
    ...others.map((each) => rowOf([each], 200)),
  ];
}

function uncached({ operation, sound }: Case): readonly Row[] {
  if (operation.access === "public" && operation.isSignIn !== true) return [];
  const refused = { ...sound, credentials: ["Authorization: Bearer nonsense"] };
  return [sound, refused, { ...sound, query: "?nonsense=1" }].map((parts) => {
    return { parts, headers: { "cache-control": "no-store" } };
  });
}

function limited({ operation: { access }, sound, status }: Case): readonly Row[] {
  const isCounted = access === "account" || access === "viewer";
  const policy = { "ratelimit-policy": '"requests";q=1;w=60' };
  return isCounted
    ? [{ parts: sound, expected: 42900, headers: policy }]
    : [{ parts: sound, expected: status, headers: { "ratelimit-policy": null } }];
}

/** The name of the named part of the path. */
function namedPart({ operation: { path } }: Case): string {
  return /:(\w+)/.exec(path)?.[1] ?? "";
}

function hasParameters({ values }: Case): string {
  return String(Object.keys(values).length > 0);
}

/** Kinds that can differ between the nodes of a cluster. */
export const CLUSTER_KINDS: readonly Kind[] = [
  { rule: "a good request succeeds with and without its query parameters", rows: good },
  { rule: "an unknown id and another account's id are the same", rows: otherAccount },
  {
    ...{ rule: "an entity tag in If-None-Match is 304, another one is 200", rows: conditional },
    sharedBy: ({ operation }) => operation.access,
  },
  {
    ...{ rule: "missing and refused credentials are 401xx, ignored if public", rows: credentials },
    sharedBy: ({ operation }) => operation.access,
  },
];

/** The account has used up its limit of one request per minute. */
export const LIMITED: Kind = {
  ...{ rule: "a request over the limit of its account is 42900", rows: limited },
};

/** The other rules of every operation, except those about its body. */
export const REQUEST_KINDS: readonly Kind[] = [
  {
    ...{ rule: "a malformed id is the same as an unknown id", rows: malformedId },
    sharedBy: namedPart,
  },
  {
    ...{ rule: "another method is 405 and Allow lists the methods", rows: otherMethod },
    sharedBy: namedPart,
  },
  {
    ...{ rule: "HEAD has the status and the headers of GET", rows: head },
    sharedBy: ({ operation }) => operation.access,
  },
  {
    ...{ rule: "a path with another meaning is 404, a malformed path is 40000", rows: otherPath },
    sharedBy: namedPart,
  },
  {
    rule: "an unknown, repeated or malformed query parameter is 40000",
    ...{ rows: unknownQuery, sharedBy: hasParameters },
  },
  { rule: "an invalid query value is 40000 and is never clamped", rows: badValue },
  {
    rule: "a repeated header is refused if it is read, other headers change nothing",
    ...{ rows: headers, sharedBy: (each) => `${mediaCode(each)} ${keyCode(each)}` },
  },
  {
    ...{ rule: "a body that an operation does not take changes nothing", rows: unusedBody },
    sharedBy: ({ operation }) => operation.method,
  },
  { rule: "a response to credentials is never cached", rows: uncached },
];
