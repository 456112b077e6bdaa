import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { startTestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { farStart } from "../helpers/far-start.ts";
import { openRaw, toBytes } from "../helpers/raw-http.ts";
import { signInOperator, type Operator, type ShownType } from "./operator-requests.ts";
import { atStore } from "./session-requests.ts";
import { askAsWorker, createTestWorker, workerPost } from "./worker-requests.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");

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

async function start(t: TestContext) {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock, toml: TYPES });
  return { clock, daemon, operator: await signInOperator(daemon, NOW) };
}

async function typeOf(operator: Operator, name: string): Promise<ShownType> {
  const { fields } = await operator.get("/runners");
  const type = fields.types.find((each) => each.name === name);
  assert(type !== undefined);
  return type;
}

test("every type is listed with what runs it, and with nothing that may be a secret", async (t) => {
  const { operator } = await start(t);
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
  assert.deepEqual(await typeOf(operator, "resize"), {
    ...{ name: "resize", kind: "command", runs: "/bin/false (2 arguments)", concurrency: 3 },
    ...{ timeout_ms: 5000, lease_ms: null, retries: 2, running: 0, waiting: 0 },
    ...{ waiting_is_more: false, oldest_waiting_ms: null, workers_waiting: null, has_worker: null },
  });
  assert.deepEqual(await typeOf(operator, "print"), {
    ...{ name: "print", kind: "worker", runs: null, concurrency: 10_000 },
    ...{ timeout_ms: 600_000, lease_ms: 20_000, retries: 0, running: 0, waiting: 0 },
    ...{ waiting_is_more: false, oldest_waiting_ms: null, workers_waiting: 0, has_worker: true },
  });
});

test("what waits and what runs is counted by type, with the age of what has waited longest", async (t) => {
  const { clock, daemon, operator } = await start(t);
  const token = await createTestWorker(daemon.file, ["print"]);
  await daemon.post([{ type: "print" }, { type: "print" }, { type: "scan" }]);
  await daemon.post({ type: "print", start_at: farStart(NOW) });
  clock.advance(7000);
  await askAsWorker({ url: daemon.url, token }, "claim", { types: ["print"] });
  const counts = async (name: string) => {
    const { running, waiting, oldest_waiting_ms: oldest } = await typeOf(operator, name);
    return [running, waiting, oldest];
  };
  assert.deepEqual(await counts("print"), [1, 1, 7000]);
  assert.deepEqual(await counts("scan"), [0, 1, 7000]);
  assert.deepEqual(await counts("echo"), [0, 0, null]);
  const [worker] = (await operator.get("/runners")).fields.workers;
  assert.equal(worker?.leases, 1);
});

test("a type has no worker while tasks wait for it and none was heard within a minute", async (t) => {
  const { clock, daemon, operator } = await start(t);
  const token = await createTestWorker(daemon.file, ["print"]);
  const has = async (name: string) => (await typeOf(operator, name)).has_worker;
  const hear = () => askAsWorker({ url: daemon.url, token }, "heartbeat", { leases: [] });
  await daemon.post([{ type: "print" }, { type: "scan" }]);
  assert.deepEqual(
    [await has("print"), await has("scan"), await has("echo")],
    [false, false, null],
  );

  await hear();
  assert.deepEqual([await has("print"), await has("scan")], [true, false]);
  // From memory: nothing has been written yet.
  const [worker] = (await operator.get("/runners")).fields.workers;
  assert.equal(worker?.last_seen_at, new Date(clock.now()).toISOString());
  clock.advance(60_000);
  assert.equal(await has("print"), true);
  clock.advance(1);
  assert.equal(await has("print"), false);

  await hear();
  assert.equal(await has("print"), true);
  const name = worker?.name ?? "";
  await atStore(daemon.file, (store) => store.revokeWorker({ name, revokedAt: clock.now() }));
  assert.equal(await has("print"), false);
});

test("workers that wait at the desk are counted while they wait", async (t) => {
  const { daemon, operator } = await start(t);
  const token = await createTestWorker(daemon.file, ["print", "scan"]);
  const connection = await openRaw(t, daemon.url);
  const body = { types: ["print", "scan"], wait_seconds: 30 };
  connection.send(toBytes(workerPost({ token }, { operation: "claim", body })));
  // It is read when it is read; what asks meanwhile takes its turns.
  while ((await typeOf(operator, "print")).workers_waiting === 0);
  assert.equal((await typeOf(operator, "scan")).workers_waiting, 1);
  await daemon.post({ type: "print" });
  await connection.next();
  assert.equal((await typeOf(operator, "print")).workers_waiting, 0);
  assert.equal((await typeOf(operator, "scan")).workers_waiting, 0);
});

test("workers are listed with what is known of them, and nothing of their tokens but the end", async (t) => {
  const { daemon, operator } = await start(t);
  const token = await createTestWorker(daemon.file, ["print"]);
  const { response, fields } = await operator.get("/runners");
  assert.equal(fields.workers.length, 1);
  const [{ created_at, name, ...shown }] = fields.workers as unknown as [Record<string, unknown>];
  assert.ok(Date.parse(String(created_at)) > 0 && typeof name === "string");
  assert.deepEqual(shown, {
    ...{ types: ["print"], last_four: token.slice(-4), leases: 0 },
    ...{ last_seen_at: null, revoked_at: null },
  });
  assert.ok(!response.body.toString().includes(token.slice(9, 20)));
});
