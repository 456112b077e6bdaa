import assert from "node:assert/strict";
import { test } from "node:test";

import { createClient, PostbackdError, type Client } from "../../src/client/client.ts";
import { STATUS_TABLE } from "../../src/domain/status.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { documentedErrors, documentOf, type DocumentedError } from "./documented.ts";

/** Each operation's call, by what it calls: made with values that no path has otherwise. */
const CALLS: Readonly<Record<string, (client: Client) => Promise<unknown>>> = {
  "POST /v1/tasks/task_post": ({ tasks }) => tasks.post({}),
  "GET /v1/tasks/task_get/{id}": ({ tasks }) => tasks.get("{id}"),
  "GET /v1/tasks/tasks_ready": ({ tasks }) => tasks.ready().next(),
  "GET /v1/tasks": ({ tasks }) => tasks.list().next(),
  "POST /v1/tasks/task_cancel/{id}": ({ tasks }) => tasks.cancel("{id}"),
  "POST /v1/tasks/cancel": ({ tasks }) => tasks.cancelMany({ dry_run: true }),
  "GET /v1/tasks/attempts": ({ tasks }) => tasks.attempts(),
  "GET /v1/tasks/deliveries/{id}": ({ tasks }) => tasks.deliveries("{id}"),
  "POST /v1/tasks/redeliver/{id}": ({ tasks }) => tasks.redeliver("{id}"),
  "GET /v1/tasks/search": ({ tasks }) => tasks.search("").next(),
  "GET /v1/tasks/timeline/{id}": ({ tasks }) => tasks.timeline("{id}"),
  "GET /v1/appendix/user_data": ({ account }) => account.get(),
  "GET /v1/appendix/types": ({ account }) => account.types(),
  "POST /v1/appendix/keys": ({ keys }) => keys.create(),
  "DELETE /v1/appendix/keys/{key_id}": ({ keys }) => keys.revoke("{key_id}"),
  "GET /v1/stats/overview": ({ account }) => account.overview(),
  "GET /v1/stats/series": ({ account }) => account.series(),
  "GET /v1/stats/hosts": ({ account }) => account.hosts(),
  "GET /v1/events": ({ account }) => account.changes().next(),
  "POST /v1/redeliveries/preview": ({ redeliveries }) => redeliveries.count({ since: SINCE }),
  "POST /v1/redeliveries": ({ redeliveries }) => redeliveries.create({ since: SINCE }),
  "GET /v1/redeliveries": ({ redeliveries }) => redeliveries.list(),
  "DELETE /v1/redeliveries/{order_id}": ({ redeliveries }) => redeliveries.cancel("{order_id}"),
  "GET /v1/appendix/marketplaces": ({ reference }) => reference.marketplaces(),
  "GET /v1/appendix/status": ({ reference }) => reference.status(),
  "GET /v1/appendix/status_codes": ({ reference }) => reference.statusCodes(),
  "POST /v1/access_requests": ({ reference }) => reference.requestAccess({ email: "a@b.example" }),
  "GET /livez": ({ reference }) => reference.live(),
  "GET /readyz": ({ reference }) => reference.ready(),
  "GET /openapi.json": ({ reference }) => reference.openApi(),
};

const SINCE = "2026-01-01T00:00:00Z";

test("the client has every operation of the document but those of sessions, operator and workers, and each error of them", async (t) => {
  const daemon = await startTestDaemon(t);
  const { document, own } = await documentOf(daemon.url);

  assert.deepEqual(own.map(({ name }) => name).toSorted(), Object.keys(CALLS).toSorted());
  let errors = 0;
  for (const { name, operation } of own) {
    for (const { status, code, body } of documentedErrors(document, operation)) {
      await assertToldAs({ name, status, code, body });
      errors++;
    }
  }
  assert.ok(errors > 200, `${errors} errors`);
});

/** Calls the operation of a daemon that answers this error, and nothing else. */
async function assertToldAs({
  name,
  status,
  code,
  body,
}: DocumentedError & { readonly name: string }): Promise<void> {
  const asked: string[] = [];
  const client = createClient({
    url: "https://daemon.example/base/",
    key: "k",
    retries: 0,
    fetch: async (input, init) => {
      const request = new Request(input, init);
      const path = decodeURIComponent(new URL(request.url).pathname);
      asked.push(`${request.method} ${path.replace("/base", "")}`);
      return new Response(body, { status, headers: { "x-request-id": "one" } });
    },
  });

  const error: unknown = await CALLS[name]?.(client).catch((caught: unknown) => caught);

  assert.deepEqual(asked, [name]);
  assert(error instanceof PostbackdError, `${name} ${code}`);
  const { code: told, status: http, requestId, message } = error;
  assert.deepEqual({ told, http, requestId }, { told: code, http: status, requestId: "one" });
  // Each is a code of the types.
  assert.ok(Object.hasOwn(STATUS_TABLE, code), String(code));
  assert.ok(message.startsWith(STATUS_TABLE[code as 40000].message.slice(0, 8)), message);
}
