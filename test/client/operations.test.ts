import assert from "node:assert/strict";
import { test } from "node:test";

import { PostbackdError, createClient } from "../../src/client/client.ts";
import { STATUS_TABLE } from "../../src/domain/status.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import {
  CALLS,
  type DocumentedError,
  all,
  documentOf,
  documentedErrors,
  startClient,
} from "./calls.ts";

test("keys are created, listed and revoked, and a revoked key is 40101", async (t) => {
  const { client, daemon } = await startClient(t);

  const made = await client.keys.create({ label: "ci" });
  const other = createClient({ url: daemon.url, key: made.key });
  const { login } = await other.account.get();
  const revoked = await client.keys.revoke(made.key_id);
  const listed = await client.keys.list();

  assert.equal(login, daemon.account.login);
  assert.notEqual(revoked.revoked_at, null);
  assert.deepEqual(
    listed.map(({ label }) => label),
    [null, "ci"],
  );
  await assert.rejects(other.account.get(), { code: 40101, status: 401 });
  await assert.rejects(client.keys.revoke("key_x"), { code: 40400, status: 404 });
});

test("the account shows its numbers", async (t) => {
  const { client, daemon } = await startClient(t);
  await client.tasks.run({ input: 1 });

  const account = await client.account.get();
  const overview = await client.account.overview();
  const series = await client.account.series({ from: new Date(Date.now() - 60_000).toISOString() });
  const hosts = await client.account.hosts();
  const types = await client.account.types();

  assert.deepEqual([account.webhook_secret, account.tasks.completed], [daemon.account.secret, 1]);
  assert.deepEqual([overview.day.completed, hosts.hosts], [1, []]);
  assert.ok(series.buckets.length > 0);
  assert.deepEqual(types, ["echo"]);
});

test("changes returns each change until the loop ends", async (t) => {
  const { client } = await startClient(t);
  const seen: number[] = [];
  let posted: Promise<unknown> = Promise.resolve();

  for await (const { tasks } of client.account.changes()) {
    seen.push(tasks.ready);
    if (seen.length === 1) posted = client.tasks.post({ input: 1 });
    if (tasks.ready === 1) break;
  }

  await posted;
  assert.deepEqual([seen[0], seen.at(-1)], [0, 1]);
});

test("redeliveries are counted, created, listed and cancelled", async (t) => {
  const { client } = await startClient(t);
  const since = "2026-01-01T00:00:00Z";

  const count = await client.redeliveries.count({ since });
  const { id } = await client.redeliveries.create({ since, states: ["given_up"], per_second: 5 });
  const [listed, ...others] = await client.redeliveries.list();
  const cancelled = await client.redeliveries.cancel(id);

  assert.deepEqual([count, listed?.id, others, cancelled.id], [0, id, [], id]);
});

test("the reference needs no account", async (t) => {
  const { client } = await startClient(t);

  const codes = await client.reference.statusCodes();
  const { status } = await client.reference.status();
  const document = await client.reference.openApi();
  const ready = await client.reference.ready();
  const live = await client.reference.live();
  const requestId = await client.reference.requestAccess({ email: "ada@example.com" });

  assert.ok(codes.some(({ code }) => code === 40401));
  assert.deepEqual(await client.reference.marketplaces(), []);
  assert.equal(status, "operational");
  assert.match(document.openapi, /^3\.1\./);
  assert.deepEqual([live.status, ready.status], ["ok", "ok"]);
  assert.match(requestId, /^[-0-9a-f]{36}$/);
  assert.deepEqual(await all(client.tasks.list()), []);
});

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
