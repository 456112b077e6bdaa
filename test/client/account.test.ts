import assert from "node:assert/strict";
import { test } from "node:test";

import { createClient } from "../../src/client/client.ts";
import { all, startClient } from "./start.ts";

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
