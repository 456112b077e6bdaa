import assert from "node:assert/strict";
import { test } from "node:test";

import { createClient, PostbackdError } from "../../src/client/client.ts";
import { STATUS_TABLE } from "../../src/domain/status.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { CALLS } from "./calls.ts";
import { documentedErrors, documentOf, type DocumentedError } from "./documented.ts";

test("the client has a method for each operation of clients, and reports every documented error of it", async (t) => {
  const daemon = await startTestDaemon(t);
  const { document, own } = await documentOf(daemon.url);

  assert.deepEqual(own.map(({ name }) => name).toSorted(), Object.keys(CALLS).toSorted());
  let errors = 0;
  for (const { name, operation } of own) {
    for (const { status, code, body } of documentedErrors(document, operation)) {
      await assertReported({ name, status, code, body });
      errors++;
    }
  }
  assert.ok(errors > 200, `${errors} errors`);
});

/** Calls the operation of a daemon that always responds with this error. */
async function assertReported({
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
  assert.ok(Object.hasOwn(STATUS_TABLE, code), String(code));
  assert.ok(message.startsWith(STATUS_TABLE[code as 40000].message.slice(0, 8)), message);
}
