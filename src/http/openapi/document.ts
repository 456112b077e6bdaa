import { bodySchema } from "../../api/input.ts";
import { type JsonSchema, namedSchemas } from "../../api/schema.ts";
import { version } from "../../assets.ts";
import { setImmediate } from "../../domain/clock/timers.ts";
import { type Access, type Operation, type OperationDoc, defineOperation } from "../operation.ts";
import { CACHED_HEADERS, constantAnswer } from "../respond.ts";
import { ANSWER_HEADERS, answers, errorCodes, errorExamples, isConditional } from "./answers.ts";

/** The OpenAPI 3.1 document of the given operations, made from their rules and docs in steps of a few milliseconds. */
export function* openApiDocument(
  operations: readonly Operation[],
  version: string,
): Generator<void, JsonSchema> {
  const shown = paths(operations);
  yield;
  const schemas = namedSchemas(shown);
  yield;
  return {
    openapi: "3.1.0",
    info: { title: "postbackd", version, license: LICENSE, description: DESCRIPTION },
    servers: [{ url: "/", description: "The daemon that serves this document." }],
    tags: tags(operations),
    paths: shown,
    components: {
      securitySchemes: SECURITY_SCHEMES,
      schemas,
      headers: ANSWER_HEADERS,
      examples: errorExamples(operations.flatMap(errorCodes)),
    },
  };
}

/** A path as OpenAPI writes it: `{name}` where h3 has `:name`. */
export function documentPath({ path }: Pick<Operation, "path">): string {
  return path.replaceAll(/:(\w+)/g, "{$1}");
}

function tags(operations: readonly Operation[]) {
  const used = new Set<string>(operations.map(({ doc }) => doc.group));
  const groups = Object.entries(GROUPS).filter(([name]) => used.has(name));
  return groups.map(([name, description]) => ({ name, description }));
}

const LICENSE = { name: "MIT", identifier: "MIT" };

const DESCRIPTION = [
  "Runs tasks for accounts and reports finished tasks by signed webhooks.",
  "Post tasks, then poll `tasks_ready` and `task_get`, or receive a postback or a pingback.",
  "JSON is UTF-8 in requests and responses, times are RFC 3339 in UTC, ids are lower-case UUIDv7.",
  "Every response below `/v1` has a `status_code` and a `status_message`; the schema `StatusCode` has the codes.",
  "Every GET can also be a HEAD. A wrong method gets 40500 and `Allow`,",
  "an unknown path 40400, an unknown query parameter 40000.",
].join("\n");

const GROUPS = {
  Tasks: "Post tasks, read their results, cancel them.",
  Account: "The account of the caller, and its API keys.",
  Reference: "Values that do not depend on the caller. Needs no key.",
  Access: "Requests for an account. Needs no key.",
  Workers: "For the operator's own processes that run tasks. Needs a worker's token.",
  Dashboard:
    "Data and actions of the dashboard. An account sees its own data, the operator everything.",
  Operator: "For the operator, who signs in at the dashboard.",
  Health: "For load balancers and supervisors. Needs no key.",
  Development: "For tests and development: only `postbackd dev` has it. Needs no key.",
} as const satisfies Record<OperationDoc["group"], string>;

const SECURITY_SCHEMES = {
  basic: {
    type: "http",
    scheme: "basic",
    description: "Login and API key. The key must belong to the account with this login.",
  },
  bearer: {
    type: "http",
    scheme: "bearer",
    bearerFormat: "pbd_live_…",
    description: "The API key alone; it identifies the account.",
  },
  worker: {
    type: "http",
    scheme: "bearer",
    bearerFormat: "pbd_work_…",
    description: "A worker's token. The worker operations accept no other credentials.",
  },
  metrics: {
    type: "http",
    scheme: "bearer",
    description: "The token of the operator's setting `metrics.token`. Only `/metrics` accepts it.",
  },
  session: {
    type: "apiKey",
    in: "cookie",
    name: "postbackd-8787",
    description:
      "A session of the dashboard. The cookie's name contains the daemon's port, and begins with `__Host-` over HTTPS. " +
      "The request must come from the dashboard's own origin, with `X-Requested-With: postbackd`. " +
      "The operator's session acts for the account in `X-Account`, else for no account.",
  },
};

const SECURITY = {
  public: [],
  account: [{ basic: [] }, { bearer: [] }, { session: [] }],
  viewer: [{ basic: [] }, { bearer: [] }, { session: [] }],
  operator: [{ session: [] }],
  scraper: [{ metrics: [] }, { session: [] }],
  worker: [{ worker: [] }],
  developer: [],
  network: [],
} as const satisfies Record<Access, readonly Partial<Record<keyof typeof SECURITY_SCHEMES, []>>[]>;

function paths(operations: readonly Operation[]): JsonSchema {
  const byPath = Map.groupBy(operations, documentPath);
  return Object.fromEntries(
    [...byPath].map(([path, methods]) => [path, Object.fromEntries(methods.map(toMethod))]),
  );
}

function toMethod(operation: Operation): [string, JsonSchema] {
  const { method, access, doc } = operation;
  const parameters = parametersOf(operation);
  const body = requestBody(operation);
  const document = {
    operationId: doc.id,
    tags: [doc.group],
    summary: doc.summary,
    description: doc.description,
    security: SECURITY[access],
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === null ? {} : { requestBody: body }),
    responses: answers(operation),
    ...(doc.callbacks === undefined ? {} : { callbacks: doc.callbacks }),
  };
  return [method.toLowerCase(), document];
}

function parametersOf(operation: Operation): JsonSchema[] {
  const { takes, doc } = operation;
  const inPath = Object.entries(doc.params ?? {}).map(([name, param]) => {
    return { name, in: "path", required: true, ...param };
  });
  const inQuery = Object.entries(takes.query ?? {}).map(([name, { description, schema }]) => {
    return { name, in: "query", description, schema };
  });
  const headers = { ...doc.headers, ...(isConditional(operation) ? IF_NONE_MATCH : {}) };
  const inHeader = Object.entries(headers).map(([name, header]) => {
    return { name, in: "header", ...header };
  });
  return [...inPath, ...inQuery, ...inHeader];
}

const IF_NONE_MATCH = {
  "If-None-Match": {
    description: "The ETag of an earlier response: 304 if it is still current.",
    schema: { type: "string", examples: ['"0KQ2f5zH7m3Yx1bTtWc9sVdJgRk"'] },
  },
};

function requestBody({ takes, tasksMax = 0, doc: { examples } }: Operation): JsonSchema | null {
  const { body, json, isBodyOptional = false } = takes;
  const schema = json?.(tasksMax) ?? (body && bodySchema(body));
  if (schema === undefined) return null;
  const named = Object.entries(examples ?? {}).map(([name, value]) => [name, { value }]);
  return {
    required: !isBodyOptional,
    content: {
      "application/json": {
        schema,
        ...(named.length === 0 ? {} : { examples: Object.fromEntries(named) }),
      },
    },
  };
}

const HEADERS = { "cache-control": "public, max-age=300" };

export function openApi(others: readonly Operation[]): Operation {
  // Made at the first request: most daemons never serve it.
  const text = async (): Promise<string> =>
    JSON.stringify(await inTurns(openApiDocument([...others, self], version)));
  const self = defineOperation("GET /openapi.json", {
    access: "public",
    id: "getOpenApi",
    summary: "Get this document",
    description: "The API in OpenAPI 3.1, generated from the rules that parse the requests.",
    answerHeaders: CACHED_HEADERS,
    handle: constantAnswer(text, HEADERS),
  });
  return self;
}

/** Does work that is too much for one turn of the event loop: each of its steps has a turn of its own. */
export async function inTurns<Value>(work: Iterator<void, Value>): Promise<Value> {
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
    await new Promise((resolve) => setImmediate(resolve));
  }
}
