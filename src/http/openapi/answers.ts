import { ANSWERS } from "../../api/operations.ts";
import type { JsonSchema } from "../../api/schema.ts";
import { Refusal, STATUS_REASONS } from "../../api/status.ts";
import { STATUS_TABLE, statusMessage, type RequestStatusCode } from "../../domain/status.ts";
import {
  isForHttpsAlone,
  isKeptByNobody,
  takesBody,
  type Access,
  type Operation,
} from "../operation.ts";

/** Headers in the answers of several operations: the document's components. */
export const ANSWER_HEADERS = {
  "X-Request-Id": {
    required: true,
    description: "Id of this response; log lines about its errors contain it.",
    schema: { type: "string", format: "uuid" },
  },
  "Retry-After": {
    required: true,
    description: "Seconds to wait before the next attempt.",
    schema: { type: "integer", minimum: 0 },
  },
  "Cache-Control": {
    required: true,
    description: "The response contains an account's data: caches must not store it.",
    schema: { const: "no-store" },
  },
  "WWW-Authenticate": {
    required: true,
    description:
      'One line for each accepted scheme; the line of Bearer has `error="invalid_token"` when a key was refused.',
    schema: { type: "string" },
  },
  RateLimit: {
    description: "The rest of each limit: `r` requests for `t` seconds. Absent without a limit.",
    schema: { type: "string", pattern: itemsPattern('"[a-z-]+";r=\\d+;t=\\d+') },
  },
  "RateLimit-Policy": {
    description: "Each limit: `q` requests in `w` seconds. Absent without a limit.",
    schema: { type: "string", pattern: itemsPattern('"[a-z-]+";q=\\d+;w=\\d+') },
  },
} as const satisfies Record<string, JsonSchema>;

/** Several limits stand in one line. */
function itemsPattern(item: string): string {
  return `^${item}(, ${item})*$`;
}

type HeaderName = keyof typeof ANSWER_HEADERS;

/** True if the response has an ETag, so that the response to `If-None-Match` may be 304. */
export function isConditional({ doc }: Pick<Operation, "doc">): boolean {
  return doc.answerHeaders?.["ETag"] !== undefined;
}

/** All answers of an operation, by HTTP status. */
export function answers(operation: Operation): Readonly<Record<string, JsonSchema>> {
  const all: Record<string, JsonSchema> = { 200: okAnswer(operation) };
  if (isConditional(operation)) all[304] = notModified(operation);
  const byStatus = Map.groupBy(errorCodes(operation), (code) => STATUS_TABLE[code].http);
  for (const [status, codes] of byStatus) {
    all[status] = errorAnswer(codes, errorHeaders(operation, status));
  }
  for (const [status, { description, schema }] of Object.entries(
    operation.doc.otherAnswers ?? {},
  )) {
    all[status] = { description, headers: refs(["X-Request-Id"]), ...content(schema) };
  }
  return all;
}

/**
 * The codes with which a request may be refused: the operation's own, and those that follow from its rules. 40500 and
 * the 40400 of an unknown path belong to no operation.
 */
export function errorCodes(operation: Operation): readonly RequestStatusCode[] {
  const { access, takes, doc } = operation;
  const codes: readonly RequestStatusCode[] = [
    // Every query can have unknown names.
    40000,
    ...(isForHttpsAlone(operation) ? ([40300] as const) : []),
    ...ACCESS_CODES[access],
    ...(takesBody(takes) ? JSON_CODES : []),
    ...(takes.body === undefined ? [] : ([40501] as const)),
    50000,
    ...(doc.codes ?? []),
  ];
  return [...new Set(codes)].toSorted((a, b) => a - b);
}

/** One example for each given code, by the names under which the responses refer to it. */
export function errorExamples(
  codes: readonly RequestStatusCode[],
): Readonly<Record<string, JsonSchema>> {
  const distinct = [...new Set(codes)].toSorted((a, b) => a - b);
  return Object.fromEntries(
    distinct.map((code) => {
      const value = { status_code: code, status_message: statusMessage(code), ...MORE[code] };
      return [`Error${code}`, { summary: STATUS_TABLE[code].message, value }];
    }),
  );
}

// Credentials are looked up in the store, which may fail.
const ACCESS_CODES = {
  public: [],
  account: [40100, 40101, 40102, 40301, 40400, 42900, 50300],
  viewer: [40100, 40101, 40102, 40301, 40400, 42900, 50300],
  operator: [40100, 40101, 40102, 40301, 42900, 50300],
  scraper: [40100, 40101, 40102, 40301, 42900, 50300],
  worker: [40100, 40101, 42900, 50300],
  developer: [40301],
  network: [40301],
} as const satisfies Record<Access, readonly RequestStatusCode[]>;
const JSON_CODES = [40502, 40503, 41300, 41500] as const;

const REASON = "It must be a string of at most 100 characters.";

const MORE: { readonly [Code in RequestStatusCode]?: JsonSchema } = {
  40000: {
    errors: [
      {
        pointer: "",
        detail: "The query parameter 'colect' is unknown (did you mean 'collect'?).",
      },
    ],
  },
  40501: {
    status_message: statusMessage(40501, { name: "label", reason: REASON }),
    errors: [{ pointer: "/label", detail: REASON }],
  },
  40301: {
    errors: [
      {
        pointer: "/types/0",
        detail: "This token is not for this type. It is for: thumbnail, preview.",
      },
    ],
  },
  40503: { errors: [{ pointer: "/1", detail: "A task must be a JSON object." }] },
};

function okAnswer(operation: Operation): JsonSchema {
  const { answerType, answerExamples = {} } = operation.doc;
  const examples = Object.entries(answerExamples).map(([name, value]) => [name, { value }]);
  return {
    description: "Ok.",
    headers: okHeaders(operation),
    ...content(answerSchema(operation), Object.fromEntries(examples), answerType),
  };
}

const ANSWER_SCHEMAS: Readonly<Record<string, JsonSchema>> = ANSWERS;

function answerSchema({ method, path }: Operation): JsonSchema {
  const schema = ANSWER_SCHEMAS[`${method} ${path}`];
  if (schema === undefined) throw new Error(`no schema of the response to ${method} ${path}`);
  return schema;
}

function notModified(operation: Operation): JsonSchema {
  return {
    description: "The client already has the current response, with the ETag in `If-None-Match`.",
    headers: okHeaders(operation),
  };
}

function okHeaders(operation: Operation): JsonSchema {
  const { access, doc } = operation;
  const limits = isLimited(access) ? RATE_LIMIT : [];
  const own = Object.entries(doc.answerHeaders ?? {}).map(([name, header]) => {
    const { description, isAlways = false, schema = { type: "string" } } = header;
    return [name, { ...(isAlways ? { required: true } : {}), description, schema }];
  });
  const caching = isKeptByNobody(operation) ? NOT_KEPT : [];
  return { ...refs(["X-Request-Id", ...caching, ...limits]), ...Object.fromEntries(own) };
}

function errorAnswer(
  codes: readonly RequestStatusCode[],
  headers: readonly HeaderName[],
): JsonSchema {
  const narrowed = { type: "object", properties: { status_code: { enum: codes } } };
  const examples = codes.map((code) => [
    String(code),
    { $ref: `#/components/examples/Error${code}` },
  ]);
  return {
    description: codes.map(codeText).join("\n"),
    headers: refs(headers),
    ...content({ allOf: [Refusal, narrowed] }, Object.fromEntries(examples)),
  };
}

function codeText(code: RequestStatusCode): string {
  return `- \`${code}\` _${STATUS_TABLE[code].message}_ ${STATUS_REASONS[code]}`;
}

const RATE_LIMIT = ["RateLimit", "RateLimit-Policy"] as const satisfies readonly HeaderName[];

// Limits are counted once credentials are right.
const BEFORE_ADMISSION: readonly number[] = [401, 403];

const NOT_KEPT = ["Cache-Control"] as const satisfies readonly HeaderName[];

function errorHeaders(operation: Operation, status: number): readonly HeaderName[] {
  const { access } = operation;
  const isCounted = isLimited(access) && !BEFORE_ADMISSION.includes(status);
  return [
    "X-Request-Id",
    ...(isKeptByNobody(operation) ? NOT_KEPT : []),
    ...(status === 401 ? (["WWW-Authenticate"] as const) : []),
    ...(status === 429 || status === 503 ? (["Retry-After"] as const) : []),
    ...(isCounted || (status === 429 && access === "public") ? RATE_LIMIT : []),
  ];
}

function isLimited(access: Access): boolean {
  return access === "account" || access === "viewer";
}

function refs(names: readonly HeaderName[]): JsonSchema {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

function content(schema: JsonSchema, examples: JsonSchema = {}, type = "application/json") {
  const named = Object.keys(examples).length === 0 ? {} : { examples };
  return { content: { [type]: { schema, ...named } } };
}
