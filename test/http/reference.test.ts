import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { createApi } from "../../src/daemon/compose.ts";
import { createEngine } from "../../src/daemon/engine.ts";
import { MINUTE_MS } from "../../src/domain/clock/duration.ts";
import type { Logger } from "../../src/domain/log.ts";
import { STATUS_TABLE } from "../../src/domain/status.ts";
import { BODY_PARSES } from "../../src/http/long-bodies.ts";
import { openServer } from "../../src/http/server/server.ts";
import { TaskWaiters } from "../../src/http/task-waiters.ts";
import { databaseOf } from "../../src/ops/database-of.ts";
import { ReceiverWatch } from "../../src/ops/events.ts";
import { Meter } from "../../src/ops/meter.ts";
import { policySource } from "../../src/ops/url.ts";
import { RESULT_PARSES } from "../../src/run/service-result.ts";
import { StoreError, type Store } from "../../src/store/store.ts";
import { loaded } from "../helpers/config.ts";
import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { inlineOffload } from "../helpers/inline-parser.ts";
import { headerOf } from "../helpers/raw-http.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { newDatabaseFile, openTestStore } from "../helpers/store.ts";
import { fieldsOf } from "./account.ts";
import { ask } from "./answer.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");

const SILENT: Logger = { debug() {}, info() {}, warn() {}, error() {} };

const MARKETPLACES = "/v1/appendix/marketplaces";
const TYPES = "/v1/appendix/types";
const STATUS = "/v1/appendix/status";
const STATUS_CODES = "/v1/appendix/status_codes";

const FILE = `
[[marketplaces]]
code = "us"
name = "United States"
currency = "USD"
active = true
opened = 2020-01-31
fees = [1.5, 2]
address = { city = "Seattle", "zip code" = "98101" }

[[marketplaces]]
code = "de"
name = "Deutschland 𝒻 \\"<b>\\""
__proto__ = "an ordinary key"
`;

/** The words for api, runners, webhooks and the whole. */
async function wordsOf({ url }: Pick<TestDaemon, "url">): Promise<string> {
  const answer = await ask(url, { target: STATUS });
  assert.doesNotMatch(answer.response.body.toString().replace('"status_code":20000', ""), /\d/);
  const { status, components } = fieldsOf<{
    status: string;
    components: { api: string; runners: string; webhooks: string };
  }>(answer);
  return [components.api, components.runners, components.webhooks, status].join(" ");
}

const ALL_FINE = "operational operational operational operational";

async function startAt9(t: TestContext, toml = "") {
  const clock = createFakeClock({ now: NOW });
  return { clock, daemon: await startTestDaemon(t, { clock, toml }) };
}

test("marketplaces are returned as in the file, in its order, with all their keys", async (t) => {
  const { daemon } = await startAt9(t, FILE);
  const answer = await ask(daemon.url, { target: MARKETPLACES });
  const text = answer.response.body.toString();

  const us =
    '{"code":"us","name":"United States","currency":"USD","active":true,"opened":"2020-01-31",' +
    '"fees":[1.5,2],"address":{"city":"Seattle","zip code":"98101"}}';
  const de = '{"code":"de","name":"Deutschland 𝒻 \\"<b>\\"","__proto__":"an ordinary key"}';
  const expected = `{"status_code":20000,"status_message":"Ok.","marketplaces":[${us},${de}]}`;
  assert.equal(text, expected);
});

test("types are listed for a key, those first that take any input", async (t) => {
  const toml = '[types.print]\nrunner = "worker"\n[types.same]\nrunner = "echo"\n';
  const daemon = await startTestDaemon(t, { toml });

  const types = await daemon.call(TYPES);
  const withoutKey = await fetch(`${daemon.url}${TYPES}`);

  assert.deepEqual(((await types.json()) as { types: unknown }).types, ["same", "print"]);
  assert.equal(withoutKey.status, 401);
});

test("status_codes returns the table of codes", async (t) => {
  const { daemon } = await startAt9(t);
  const answer = await ask(daemon.url, { target: STATUS_CODES });

  const rows = Object.entries(STATUS_TABLE).map(([code, { message, http }]) => {
    return { code: Number(code), message, http };
  });
  const { status_codes } = fieldsOf<{ status_codes: unknown }>(answer);
  assert.deepEqual(status_codes, rows);
});

test("public references have an ETag and a time to be cached", async (t) => {
  const { daemon } = await startAt9(t, FILE);
  for (const [target, control] of [
    [MARKETPLACES, "public, max-age=300"],
    [STATUS_CODES, "public, max-age=3600"],
    [STATUS, "public, max-age=1"],
  ] as const) {
    const { response } = await ask(daemon.url, { target });
    const tag = headerOf(response, "etag") ?? "";
    assert.match(tag, /^"[\w-]{27}"$/);
    const known = await ask(daemon.url, { target, headers: [`If-None-Match: ${tag}`] });
    assert.equal(known.response.status, 304);
    for (const each of [response, known.response]) {
      assert.equal(headerOf(each, "cache-control"), control);
    }
  }
});

test("the tag of a list is the same after a restart, and changes with the list", async (t) => {
  const tagOf = async (toml: string) => {
    const { daemon } = await startAt9(t, toml);
    return headerOf((await ask(daemon.url, { target: MARKETPLACES })).response, "etag");
  };
  assert.equal(await tagOf(FILE), await tagOf(FILE));
  assert.notEqual(await tagOf(FILE), await tagOf(FILE.replace("USD", "EUR")));
});

/** Two types: one that fails at once, one whose only run waits for ever. */
const COMMANDS = `
[types.echo]
runner = "echo"
[types.fail]
command = ["false"]
concurrency = 8
[types.hold]
command = ["sleep", "1000"]
timeout = "24h"
concurrency = 1
`;

test("runners are down while every run fails, degraded while half do, and recover after minutes", async (t) => {
  const { daemon, clock } = await startAt9(t, COMMANDS);
  await daemon.post(Array.from({ length: 20 }, () => ({ type: "fail" })));
  await daemon.daemon.idle();
  assert.equal(await wordsOf(daemon), "operational down operational down");

  await daemon.post(Array.from({ length: 20 }, () => ({ type: "echo" })));
  await daemon.daemon.idle();
  clock.advance(1000);
  assert.equal(await wordsOf(daemon), "operational degraded operational degraded");

  clock.advance(5 * MINUTE_MS);
  assert.equal(await wordsOf(daemon), ALL_FINE);
});

test("webhooks are down if every receiver fails, and one broken receiver is no outage", async (t) => {
  // What the receivers answer is found on addresses of their own: a lane, and a receiver, is a host.
  const hosts = ["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6"];
  const { daemon, clock } = await startAt9(t, `[webhooks]\nallow = ["127.0.0.0/8"]\n`);
  const broken = { reply: { kind: "status", status: 500 } } as const;
  const receivers = await Promise.all(hosts.map((host) => startReceiver(t, { ...broken, host })));
  const [first] = receivers;
  const many = Array.from({ length: 30 }, () => ({ postback_url: first?.url("/x") }));
  await daemon.post(many);
  await daemon.daemon.idle();
  assert.equal(await wordsOf(daemon), ALL_FINE);

  await daemon.post(receivers.map((each) => ({ postback_url: each.url("/x") })));
  await daemon.daemon.idle();
  clock.advance(1000);
  assert.equal(await wordsOf(daemon), "operational operational down down");

  for (const each of receivers.slice(0, 2)) each.answer({ kind: "status", status: 204 });
  await daemon.post(receivers.map((each) => ({ postback_url: each.url("/x") })));
  await daemon.daemon.idle();
  clock.advance(1000);
  assert.equal(await wordsOf(daemon), "operational operational degraded degraded");
});

/** The API on a store that a test can break and whose reads it counts, with an engine that was never started. */
async function startApi(t: TestContext) {
  const clock = createFakeClock({ now: NOW });
  const file = newDatabaseFile(t);
  const config = { ...loaded({ toml: COMMANDS }), database: file };
  const database = databaseOf(config);
  const real = await openTestStore(t, { file });
  const state: { fault: StoreError | null; reads: number } = { fault: null, reads: 0 };
  const store: Store = {
    ...real,
    fault: () => state.fault,
    findOldestQueued(types) {
      state.reads++;
      return state.fault === null ? real.findOldestQueued(types) : Promise.reject(state.fault);
    },
    close: () => real.close(),
  };
  const urlPolicy = policySource(() => config.webhooks.allowList, { clock, log: SILENT });
  const parser = { bodies: inlineOffload(BODY_PARSES), results: inlineOffload(RESULT_PARSES) };
  const watch = { warnings: () => [] };
  const backups = { state: () => null, warnings: () => [] };
  const ends = { clock, database, store, watch, backups, log: SILENT, urlPolicy, parser };
  const told = {
    receivers: new ReceiverWatch(clock),
    certificate: () => null,
    events: { tell() {} },
  };
  const inForce = { config, restartNeeds: [] };
  const parts = { ...ends, ...told, config, inForce, meter: new Meter() };
  const { engine } = await createEngine({
    ...parts,
    authorities: [],
    taskEnded() {},
    awaited: () => [],
    accountsDisabled() {},
  });
  const api = await createApi({
    ...parts,
    requestClock: clock,
    engine,
    waiters: new TaskWaiters(clock),
    dev: null,
  });
  const { limits } = config;
  const server = await openServer(api.app, { host: "127.0.0.1", port: 0, tls: null, limits });
  t.after(async () => {
    server.drain();
    await server.quiet();
    await engine.close();
  });
  return { api, clock, state, url: server.url };
}

test("the API is down, and not ready, before it opens and after a stop begins", async (t) => {
  const { api, clock, url } = await startApi(t);
  const down = "down operational operational down";
  const reason = "starting or stopping";
  assert.equal(await wordsOf({ url }), down);
  assert.deepEqual((await ask(url, { target: "/readyz" })).body, { status: "unavailable", reason });

  api.open(url);
  clock.advance(1000);
  assert.equal(await wordsOf({ url }), ALL_FINE);
  assert.deepEqual((await ask(url, { target: "/readyz" })).body, { status: "ok" });

  api.drain();
  clock.advance(1000);
  assert.equal(await wordsOf({ url }), down);
  assert.deepEqual((await ask(url, { target: "/readyz" })).body, { status: "unavailable", reason });
});

test("the API is down, and not ready, if the store cannot write", async (t) => {
  const { api, state, url } = await startApi(t);
  api.open(url);
  state.fault = new StoreError("failed", "I/O error at /srv/secret.db");
  assert.equal(await wordsOf({ url }), "down operational operational down");
  const reason = "the database cannot be written";
  const ready = await ask(url, { target: "/readyz" });
  assert.deepEqual(ready.body, { status: "unavailable", reason });
  assert.equal(ready.response.status, 503);
});

test("concurrent requests within a second read the store once", async (t) => {
  const { api, clock, state, url } = await startApi(t);
  api.open(url);
  const asked = Array.from({ length: 40 }, () => ask(url, { target: STATUS }));
  await Promise.all(asked);
  clock.advance(999);
  await ask(url, { target: STATUS });
  assert.equal(state.reads, 1);
  clock.advance(1);
  await ask(url, { target: STATUS });
  assert.equal(state.reads, 2);
});
