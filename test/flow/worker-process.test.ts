import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";

import { findFreePort } from "../helpers/port.ts";
import { runProgram, startProgram } from "../helpers/program.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { createTestWorker } from "../http/worker-requests.ts";
import { openHeldProcesses } from "../run/command-run.ts";
import { openPlace } from "./place.ts";

const COMMAND = fileURLToPath(new URL("../fixtures/commands/answer.mjs", import.meta.url));

/** The daemon as a process, with one type for workers. */
async function setUp(t: TestContext, { lease }: { readonly lease: string }) {
  const toml = `[types.x]\nrunner = "worker"\nlease = "${lease}"\n[webhooks]\nallow = ["127.0.0.1"]\n`;
  const place = await openPlace(t, toml);
  const token = await createTestWorker(place.file, ["x"]);
  const daemon = await place.start(await findFreePort());
  // The commands that workers run connect to it.
  return { ...daemon, place, token, commands: await openHeldProcesses(t) };
}

function startWorker(
  t: TestContext,
  { url, token, commands }: Awaited<ReturnType<typeof setUp>>,
  more: readonly string[] = [],
) {
  const command = [process.execPath, COMMAND, commands.socketPath];
  return startProgram(t, ["worker", "--url", url, "--type", "x", ...more, "--", ...command], {
    env: { POSTBACKD_TOKEN: token },
  });
}

test("a worker claims a task, runs its command and completes it, and the postback arrives", async (t) => {
  const setup = await setUp(t, { lease: "30s" });
  const receiver = await startReceiver(t);
  const worker = startWorker(t, setup);
  await worker.ready;

  const input = '{"n":12345678901234567890,"x":1.50,"2":{"b":1,"1":2},"1":3}';
  const id = await setup.client.post(
    `{"type":"x","input":${input},"postback_url":"${receiver.url()}"}`,
  );
  const command = await setup.commands.next();
  const shown = await command.line();
  command.socket.write(shown);
  const task = await setup.client.ended(id);
  const postback = await receiver.next();

  assert.equal(shown, `{"id":"${id}","type":"x","tag":null,"marketplace":null,"input":${input}}`);
  assert.deepEqual([task.state, task.runs], ["completed", 1]);
  const body = postback.rawBody.toString();
  assert.ok(body.includes(`"result":${shown},"error":null`), body);
  assert.deepEqual(JSON.parse(worker.stdout), {
    event: "ready",
    ...{ url: `${setup.url}/`, types: ["x"], concurrency: 1 },
    ...{ pid: worker.pid, version: (await setup.program.ready).version },
  });
  assert.deepEqual(await worker.stop(), { code: 0, signal: null });
  assert.ok(!worker.stderr.includes(setup.token));
});

test("another worker ends the command of a killed worker and runs its task again", async (t) => {
  const setup = await setUp(t, { lease: "5s" });
  const killed = startWorker(t, setup);
  const id = await setup.client.post('{"type":"x"}');
  const orphan = await setup.commands.next();

  killed.kill("SIGKILL");
  await killed.exit;
  const heir = startWorker(t, setup);
  await orphan.ended;
  const command = await setup.commands.next();
  command.socket.write('"done"');
  const task = await setup.client.ended(id);

  assert.deepEqual([task.state, task.result, task.runs], ["completed", "done", 2]);
  await heir.says("ended processes that a killed worker had left running");
});

test("a worker completes its task after kill -9 and a restart of the daemon", async (t) => {
  const setup = await setUp(t, { lease: "30s" });
  const worker = startWorker(t, setup);
  const id = await setup.client.post('{"type":"x"}');
  const command = await setup.commands.next();

  await setup.kill();
  command.socket.write('"done"');
  await worker.says("trying again");
  await setup.place.start(setup.port);
  await worker.says("the daemon answers again");
  const task = await setup.client.ended(id);

  assert.deepEqual([task.state, task.result, task.runs], ["completed", "done", 1]);
  const lines = worker.stderr.split("\n").filter((line) => line.includes("trying again"));
  // One line for each reason: no connection, then a daemon that is not ready.
  const reasons = lines.map((line) => /"reason":"[^"]*"/.exec(line)?.[0]);
  assert.equal(new Set(reasons).size, lines.length, worker.stderr);
});

test("a revoked token stops the worker's commands and ends it with exit code 1", async (t) => {
  const setup = await setUp(t, { lease: "5s" });
  const worker = startWorker(t, setup);
  await setup.client.post('{"type":"x"}');
  const command = await setup.commands.next();

  const revoked = await runProgram(t, ["admin", "worker", "revoke", "press"], setup.place);
  await command.ended;

  assert.equal(revoked.code, 0);
  assert.deepEqual(await worker.exit, { code: 1, signal: null });
  assert.match(worker.stderr, /40101 .+admin worker/);
});

test("a worker completes its runs and claims nothing more after SIGTERM", async (t) => {
  const setup = await setUp(t, { lease: "30s" });
  const worker = startWorker(t, setup, ["--concurrency", "2"]);
  const id = await setup.client.post('{"type":"x"}');
  const command = await setup.commands.next();

  worker.kill("SIGTERM");
  await worker.says("stopping after the work in progress");
  const left = await setup.client.post('{"type":"x"}');
  command.socket.write("1");

  assert.deepEqual(await worker.exit, { code: 0, signal: null });
  assert.equal((await setup.client.ended(id)).result, 1);
  assert.equal((await setup.client.get(left)).state, "queued");
});

test("a second signal ends a worker and its commands immediately", async (t) => {
  const setup = await setUp(t, { lease: "30s" });
  const worker = startWorker(t, setup);
  await setup.client.post('{"type":"x"}');
  const command = await setup.commands.next();

  worker.kill("SIGTERM");
  await worker.says("stopping after the work in progress");
  worker.kill("SIGINT");

  assert.deepEqual(await worker.exit, { code: 130, signal: null });
  await command.ended;
});
