import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import {
  type AnyTypes,
  type Client,
  type TaskTypes,
  createClient,
} from "../../src/client/client.ts";
import { type TestDaemon, type TestDaemonOptions, startTestDaemon } from "../helpers/daemon.ts";

export type Call = (
  client: Client,
  options?: { readonly signal?: AbortSignal },
) => Promise<unknown>;

const since = "2026-01-01T00:00:00Z";

/** The call of each operation, with the operation's own placeholders as ids. */
export const CALLS: Readonly<Record<string, Call>> = {
  "POST /v1/tasks/task_post": ({ tasks }, options) => tasks.post({}, options),
  "GET /v1/tasks/task_get/{id}": ({ tasks }, options) => tasks.get("{id}", options),
  "GET /v1/tasks/tasks_ready": ({ tasks }, options) => tasks.ready(options).next(),
  "GET /v1/tasks": ({ tasks }, options) => tasks.list(options).next(),
  "POST /v1/tasks/task_cancel/{id}": ({ tasks }, options) => tasks.cancel("{id}", options),
  "POST /v1/tasks/cancel": ({ tasks }, options) => tasks.cancelMany({ dry_run: true, ...options }),
  "GET /v1/tasks/attempts": ({ tasks }, options) => tasks.attempts(options),
  "GET /v1/tasks/deliveries/{id}": ({ tasks }, options) => tasks.deliveries("{id}", options),
  "POST /v1/tasks/redeliver/{id}": ({ tasks }, options) => tasks.redeliver("{id}", options),
  "GET /v1/tasks/search": ({ tasks }, options) => tasks.search("", options).next(),
  "GET /v1/tasks/timeline/{id}": ({ tasks }, options) => tasks.timeline("{id}", options),
  "GET /v1/appendix/user_data": ({ account }, options) => account.get(options),
  "GET /v1/appendix/types": ({ account }, options) => account.types(options),
  "POST /v1/appendix/keys": ({ keys }, options) => keys.create(options),
  "DELETE /v1/appendix/keys/{key_id}": ({ keys }, options) => keys.revoke("{key_id}", options),
  "GET /v1/stats/overview": ({ account }, options) => account.overview(options),
  "GET /v1/stats/series": ({ account }, options) => account.series(options),
  "GET /v1/stats/hosts": ({ account }, options) => account.hosts(options),
  "GET /v1/events": ({ account }, options) => account.changes(options).next(),
  "POST /v1/redeliveries/preview": ({ redeliveries }, options) =>
    redeliveries.count({ since, ...options }),
  "POST /v1/redeliveries": ({ redeliveries }, options) =>
    redeliveries.create({ since, ...options }),
  "GET /v1/redeliveries": ({ redeliveries }, options) => redeliveries.list(options),
  "DELETE /v1/redeliveries/{order_id}": ({ redeliveries }, options) =>
    redeliveries.cancel("{order_id}", options),
  "GET /v1/appendix/marketplaces": ({ reference }, options) => reference.marketplaces(options),
  "GET /v1/appendix/status": ({ reference }, options) => reference.status(options),
  "GET /v1/appendix/status_codes": ({ reference }, options) => reference.statusCodes(options),
  "POST /v1/access_requests": ({ reference }, options) =>
    reference.requestAccess({ email: "a@b.example", ...options }),
  "GET /livez": ({ reference }, options) => reference.live(options),
  "GET /readyz": ({ reference }, options) => reference.ready(options),
  "GET /openapi.json": ({ reference }, options) => reference.openApi(options),
};

/** A call of each method of the client. */
export function callsOf(client: Client): readonly Call[] {
  const methods = Object.values(client).flatMap((group) => Object.keys(group));
  const calls: readonly Call[] = [
    ...Object.values(CALLS),
    ({ keys }, options) => keys.list(options),
    ({ tasks }, options) => tasks.postMany([{}], options),
    ({ tasks }, options) => tasks.run({}, options),
    ({ tasks }, options) => tasks.wait("1", options),
  ];
  assert.equal(calls.length, methods.length);
  return calls;
}

/** Operations that the client does not have: for sessions, the operator and workers. */
const OTHERS = /^\w+ \/(?:v1\/(?:operator|worker|session)|metrics$)/;

export interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, DocumentOperation>>>>;
  readonly components: {
    readonly examples: Readonly<
      Record<string, { readonly value: { readonly status_code: number } }>
    >;
  };
}

export interface DocumentOperation {
  readonly responses: Readonly<Record<string, DocumentAnswer>>;
}

interface DocumentAnswer {
  readonly content?: Readonly<
    Record<string, { readonly examples?: Readonly<Record<string, { readonly $ref?: string }>> }>
  >;
}

/** An error response of an operation in the document. */
export interface DocumentedError {
  readonly status: number;
  readonly code: number;
  readonly body: string;
}

export function documentedErrors(
  { components }: Document,
  { responses }: DocumentOperation,
): readonly DocumentedError[] {
  return Object.entries(responses).flatMap(([status, { content }]) => {
    if (Number(status) < 400) return [];
    const examples = Object.values(content?.["application/json"]?.examples ?? {});
    return examples.flatMap(({ $ref = "" }) => {
      const { value } = components.examples[$ref.split("/").at(-1) ?? ""] ?? {};
      if (value === undefined) return [];
      return [{ status: Number(status), code: value.status_code, body: JSON.stringify(value) }];
    });
  });
}

/** The operations of a daemon's document that the client must have. */
export async function documentOf(url: string) {
  // The tests check its fields.
  const document = (await (await fetch(`${url}/openapi.json`)).json()) as Document;
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => {
      return { name: `${method.toUpperCase()} ${path}`, operation };
    }),
  );
  const own = operations.filter(({ name }) => !OTHERS.test(name) && !name.startsWith("HEAD "));
  return { document, own };
}

export interface Served<Types extends TaskTypes<Types>> {
  readonly daemon: TestDaemon;
  readonly client: Client<Types>;
  /** The method and path of each request that the client has sent. */
  readonly sent: readonly string[];
}

/** A daemon with a client of its account. */
export async function startClient<Types extends TaskTypes<Types> = AnyTypes>(
  t: TestContext,
  options: TestDaemonOptions = {},
): Promise<Served<Types>> {
  const daemon = await startTestDaemon(t, options);
  const sent: string[] = [];
  const client = createClient<Types>({
    url: daemon.url,
    key: daemon.account.key,
    fetch: (input, init) => {
      const { method, url } = new Request(input, init);
      sent.push(`${method} ${new URL(url).pathname}`);
      return fetch(input, init);
    },
  });
  return { daemon, client, sent };
}

/** All items of an iterator. */
export async function all<Item>(items: AsyncIterable<Item>): Promise<readonly Item[]> {
  return Array.fromAsync(items);
}
