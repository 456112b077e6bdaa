import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { hostname } from "node:os";
import { test, type TestContext } from "node:test";

import type { RunnerType } from "../../src/api/node.ts";
import type { System } from "../../src/api/operator.ts";
import { version } from "../../src/assets.ts";
import { startTestDaemon, testConfig } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { farStart } from "../helpers/far-start.ts";
import { startProgram } from "../helpers/program.ts";
import { openRaw, toBytes } from "../helpers/raw-http.ts";
import { fieldsOf } from "./account.ts";
import { ask } from "./answer.ts";
import { startRing } from "./ring.ts";
import {
  FROM_PAGE,
  OPERATOR,
  type Operator,
  type OperatorFields,
  atStore,
  signInOperator,
} from "./session-requests.ts";
import { askAsWorker, createTestWorker, workerPost } from "./worker-requests.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const AT = "2030-01-31T09:00:00.000Z";

/** A daemon on a virtual clock, and its operator. */
async function startAt9(t: TestContext, toml: string) {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock, toml });
  return { clock, daemon, operator: await signInOperator(daemon, NOW) };
}

async function start(t: TestContext, toml = "") {
  const daemon = await startTestDaemon(t, { toml });
  return { daemon, operator: await signInOperator(daemon) };
}

test("the system is its process, file, disk and memory", async (t) => {
  const { daemon, operator } = await start(t);
  const shown = fieldsOf<System>(await operator.get("/system"));
  const { url, pid, node, sqlite, database, disk, memory } = shown;
  assert.deepEqual([url, pid, node], [daemon.url, process.pid, process.version]);
  assert.match(sqlite, /^3\.\d+\.\d+$/);
  assert.ok(Math.abs(Date.parse(shown.started_at) - Date.now()) < 60_000);
  assert.ok(shown.uptime_ms >= 0);
  assert.equal(database.path, daemon.file);
  assert.equal(database.bytes, statSync(daemon.file).size);
  assert.ok(database.data_bytes > 0 && Number(database.wal_bytes) > 0);
  assert.ok(Number(disk.total_bytes) >= Number(disk.free_bytes));
  assert.ok(memory.rss_bytes > memory.heap_bytes);
  assert.equal(shown.event_loop, null);
  const components = { api: "operational", runners: "operational", webhooks: "operational" };
  assert.deepEqual(shown.status, { status: "operational", components });
});

const HOSTILE = `
retention_days = 7
[log]
format = "json"
[webhooks]
allow = ["127.0.0.1", "::1"]
[types.resize]
command = ["/bin/\\u0007\\nfalse", "--token=SECRET-ARGUMENT"]
env = { SECRET_NAME = "SECRET-ENV" }
[types.caption]
url = "http://127.0.0.1:9/SECRET-PATH?token=SECRET-QUERY"
headers = { X-Secret-Name = "SECRET-HEADER" }
`;

test("settings have their source and an escaped value, and no setting is a secret", async (t) => {
  const { daemon, operator } = await start(t, HOSTILE);
  const { response, fields } = await operator.get("/system");
  assert.ok(!response.body.toString().includes("SECRET"));
  const shown = new Map(fields.settings.map(({ key, ...rest }) => [key, rest]));
  const file = `file ${daemon.folder}/postbackd.toml`;
  for (const [key, value, source] of [
    ["retention_days", "7", file],
    ["webhooks.allow", '["127.0.0.1", "::1"]', file],
    ["types.resize.command", '"/bin/\\u0007\\nfalse (1 argument)"', file],
    ["types.caption.url", '"http://127.0.0.1:9"', file],
    ["host", '"127.0.0.1"', "default"],
    ["port", "0", "flag --port"],
    ["tls_cert", null, "default"],
  ] as const) {
    assert.deepEqual(shown.get(key), { value, source, is_default: source === "default" }, key);
  }
  assert.equal(shown.get("types.resize.env"), undefined);
  assert.equal(shown.get("types.caption.headers"), undefined);
});

const STARTED = `
[limits]
body = "1MiB"
[webhooks]
allow = ["127.0.0.1"]
[types.resize]
command = ["true"]
timeout = "1m"
[types.caption]
runner = "worker"
timeout = "1m"
`;

test("after a reload the settings in force are shown, and restart_needs names the others", async (t) => {
  const { daemon, operator } = await start(t, STARTED);
  const show = async () => {
    const { settings, restart_needs: needs } = (await operator.get("/system")).fields;
    const names = ["webhooks.allow", "types.resize.timeout", "types.caption.timeout"];
    names.push("types.other", "limits.body");
    const values = names.map((name) => settings.find(({ key }) => key === name)?.value);
    return { values, needs };
  };
  const before = await show();
  const next = STARTED.replaceAll("1m", "2m").replace("1MiB", "2MiB").replace("0.1", "0.2");
  const toml = `${next}[types.other]\nrunner = "echo"`;

  daemon.daemon.reload(testConfig(daemon.folder, { toml }));

  assert.deepEqual(await show(), {
    values: ['["127.0.0.2"]', '"2m"', '"1m"', undefined, '"1MiB"'],
    needs: ["limits.body", "types.caption", "types.other"],
  });
  const { types } = (await operator.get("/runners")).fields;
  const timeouts = types.map(({ name, timeout_ms: ms }) => `${name} ${ms}`);
  assert.deepEqual(timeouts.toSorted(), ["caption 60000", "resize 120000"]);

  daemon.daemon.reload(testConfig(daemon.folder, { toml: STARTED }));

  assert.deepEqual(await show(), before);
});

test("the log has the last lines without keys, secrets and queries of URLs", async (t) => {
  const { daemon, operator } = await start(t, "[webhooks]\nretry_after = []\n");
  const { key, secret } = daemon.account;
  const created = await operator.post("/accounts", { login: "ada" });
  // Nothing listens there: the attempt fails.
  const postback_url = "http://127.0.0.1:1/hook?token=SECRET-QUERY";
  await daemon.post({ type: "echo", input: "SECRET-INPUT", postback_url });
  await daemon.daemon.idle();
  await operator.post("/accounts/rotate/ada");

  const { response, fields } = await operator.get("/system");
  const text = response.body.toString();
  assert.ok(fields.log.some(({ facts }) => / host=127\.0\.0\.1 /.test(facts)));
  const hidden = ["SECRET", key, secret, created.fields.key, "whsec_", "pbd_", operator.cookie];
  for (const each of hidden) assert.ok(!text.includes(each), each);
  for (const line of fields.log) {
    assert.match(line.level, /^(info|warn|error)$/);
    assert.ok(Date.parse(line.time) > 0 && line.message !== "");
  }
});

test("the program's log begins with its first line, and its event loop is measured", async (t) => {
  const env = { POSTBACKD_LOG_FORMAT: "text" };
  const program = startProgram(t, ["start", "--port", "0", "--allow-target", "127.0.0.1"], { env });
  const { url, db: file } = await program.ready;
  const { fields } = await (await signInOperator({ url, file })).get("/system");
  assert.deepEqual(
    fields.log.map(({ level }) => level),
    ["warn", "warn", "info", "warn"],
  );
  assert.equal(fields.log[0]?.facts, "target=127.0.0.1");
  const { worst_delay_ms: worst, p99_delay_ms: p99 } = fields.event_loop ?? assert.fail();
  assert.ok(worst >= p99);
  assert.equal((await program.stop()).code, 0);
});

const TYPES = `
[types.resize]
command = ["/bin/false", "--token", "SECRET-ARGUMENT"]
env = { TOKEN = "SECRET-ENV" }
timeout = "5s"
concurrency = 3
retries = 2
[types."a.b"]
command = ["/bin/true"]
[types.caption]
url = "http://127.0.0.1:9/SECRET-PATH?token=SECRET-QUERY"
headers = { Authorization = "Bearer SECRET-HEADER" }
[types.print]
runner = "worker"
lease = "20s"
[types.scan]
runner = "worker"
[types.echo]
runner = "echo"
`;

async function typeOf(operator: Operator, name: string): Promise<RunnerType> {
  const { types } = (await operator.get("/runners")).fields;
  return types.find((each) => each.name === name) ?? assert.fail();
}

test("types are listed with their runners and limits, without arguments, paths and headers", async (t) => {
  const { operator } = await startAt9(t, TYPES);
  const { response, fields } = await operator.get("/runners");
  assert.ok(!response.body.toString().includes("SECRET"));
  assert.deepEqual(
    fields.types.map(({ name, kind, runs }) => [name, kind, runs]),
    [
      ["resize", "command", "/bin/false (2 arguments)"],
      ["a.b", "command", "/bin/true"],
      ["caption", "http", "http://127.0.0.1:9"],
      ["print", "worker", null],
      ["scan", "worker", null],
      ["echo", "echo", null],
    ],
  );
  const idle = { running: 0, waiting: 0, waiting_is_more: false, oldest_waiting_ms: null };
  assert.deepEqual(await typeOf(operator, "resize"), {
    ...{ name: "resize", kind: "command", runs: "/bin/false (2 arguments)", concurrency: 3 },
    ...{ timeout_ms: 5000, lease_ms: null, retries: 2 },
    ...{ ...idle, workers_waiting: null, has_worker: null },
  });
  assert.deepEqual(await typeOf(operator, "print"), {
    ...{ name: "print", kind: "worker", runs: null, concurrency: 10_000 },
    ...{ timeout_ms: 600_000, lease_ms: 20_000, retries: 0 },
    ...{ ...idle, workers_waiting: 0, has_worker: true },
  });
});

test("a type shows its running and waiting tasks and the age of the oldest", async (t) => {
  const { clock, daemon, operator } = await startAt9(t, TYPES);
  const token = await createTestWorker(daemon.file, ["print"]);
  await daemon.post([{ type: "print" }, { type: "print" }, { type: "scan" }]);
  await daemon.post({ type: "print", start_at: farStart(NOW) });
  clock.advance(7000);
  await askAsWorker({ url: daemon.url, token }, "claim", { types: ["print"] });
  for (const [name, ...counts] of [
    ["print", 1, 1, 7000],
    ["scan", 0, 1, 7000],
    ["echo", 0, 0, null],
  ] as const) {
    const { running, waiting, oldest_waiting_ms: oldest } = await typeOf(operator, name);
    assert.deepEqual([running, waiting, oldest], counts, name);
  }
  assert.equal((await operator.get("/runners")).fields.workers[0]?.leases, 1);
});

test("has_worker is false if tasks wait and no active worker sent a request within a minute", async (t) => {
  const { clock, daemon, operator } = await startAt9(t, TYPES);
  const token = await createTestWorker(daemon.file, ["print"]);
  const has = async (name: string) => (await typeOf(operator, name)).has_worker;
  const beat = () => askAsWorker({ url: daemon.url, token }, "heartbeat", { leases: [] });
  await daemon.post([{ type: "print" }, { type: "scan" }]);
  assert.deepEqual([await has("print"), await has("scan")], [false, false]);

  await beat();
  assert.deepEqual([await has("print"), await has("scan")], [true, false]);
  // From memory: nothing has been written yet.
  const [worker] = (await operator.get("/runners")).fields.workers;
  assert.equal(worker?.last_seen_at, AT);
  clock.advance(60_000);
  assert.equal(await has("print"), true);
  clock.advance(1);
  assert.equal(await has("print"), false);

  await beat();
  assert.equal(await has("print"), true);
  const { name } = worker;
  await atStore(daemon.file, (store) => store.revokeWorker({ name, revokedAt: clock.now() }));
  assert.equal(await has("print"), false);
});

test("workers whose claim waits are counted for each of their types", async (t) => {
  const { daemon, operator } = await startAt9(t, TYPES);
  const token = await createTestWorker(daemon.file, ["print", "scan"]);
  const connection = await openRaw(t, daemon.url);
  const body = { types: ["print", "scan"], wait_seconds: 30 };
  connection.send(toBytes(workerPost({ token }, { operation: "claim", body })));
  while ((await typeOf(operator, "print")).workers_waiting === 0);
  assert.equal((await typeOf(operator, "scan")).workers_waiting, 1);
  await daemon.post({ type: "print" });
  await connection.next();
  assert.equal((await typeOf(operator, "print")).workers_waiting, 0);
  assert.equal((await typeOf(operator, "scan")).workers_waiting, 0);
});

test("a worker is listed with the last four characters of its token", async (t) => {
  const { daemon, operator } = await startAt9(t, TYPES);
  const token = await createTestWorker(daemon.file, ["print"]);
  const { response, fields } = await operator.get("/runners");
  const created_at = fields.workers[0]?.created_at ?? assert.fail();
  assert.ok(Date.parse(created_at) > 0);
  assert.deepEqual(fields.workers, [
    {
      ...{ name: "press", types: ["print"], last_four: token.slice(-4), leases: 0, created_at },
      ...{ last_seen_at: null, revoked_at: null },
    },
  ]);
  assert.ok(!response.body.toString().includes(token.slice(9, 20)));
});

test("a daemon on SQLite is one node with every role and its runs", async (t) => {
  const { daemon, operator } = await startAt9(t, '[types.hold]\ncommand = ["/bin/sleep", "60"]\n');
  const show = async () => (await operator.get("/nodes")).fields;
  await daemon.post([{ type: "hold" }]);
  // Posted and claimed in two commits: the request may come between them.
  while ((await show()).nodes[0]?.running?.length === 0) continue;

  const { nodes, database } = await show();

  assert.equal(database, null);
  const id = nodes[0]?.id ?? assert.fail();
  assert.match(id, /^[0-9a-f-]{36}$/);
  const node = {
    ...{ id, name: hostname(), version, url: daemon.url, answers: true },
    ...{ joined_at: AT, last_seen_at: AT, ended_at: null, is_lost: false },
    roles: ["release", "reap", "orders", "sweep", "sample", "fold", "clock"],
    ...{ running: [{ type: "hold", runs: 1 }], sending: 0 },
  };
  assert.deepEqual(nodes, [node]);
});

test("the health of a shared database comes with its warnings", async (t) => {
  const slot = { holder: "slot", name: "copy", pid: null, transactions: 900 } as const;
  const east = { name: "east", state: "streaming" };
  const same = { version: "15.14", bytes: 1000, connections: { used: 9, max: 100 } };
  const health = {
    ...{ ...same, oldestSnapshot: { ...slot, ageMs: 61_000 }, commitsWait: false },
    standbys: [{ ...east, syncState: "async", lagBytes: 64, lagMs: 5 }],
    deadRows: { queue: 3, outbox: 4 },
  };
  const { url, cookie } = await startRing(t, { store: { findDatabaseHealth: async () => health } });

  const headers = [...FROM_PAGE, cookie];
  const answer = await ask(url, { target: `${OPERATOR}/nodes`, headers });

  const { warnings, ...shown } = fieldsOf<OperatorFields>(answer).database ?? assert.fail();
  assert.equal(warnings.length, 2);
  assert.deepEqual(shown, {
    ...{ ...same, oldest_snapshot: { ...slot, age_ms: 61_000 }, commits_wait: false },
    standbys: [{ ...east, sync_state: "async", lag_bytes: 64, lag_ms: 5 }],
    dead_rows: { queue: 3, outbox: 4 },
  });
});
