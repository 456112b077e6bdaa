import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { startTestDaemon, tempFolder } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const DAY = 86_400_000;

/** A type whose command is a Node script. */
function commandType(name: string, script: string, more = ""): string {
  const command = JSON.stringify([process.execPath, "-e", script]);
  return `[types.${name}]\ncommand = ${command}\n${more}\n`;
}

test("a posted task runs, is ready until it is got, and stays readable after that", async (t) => {
  const { post, get, ready, call, daemon } = await startTestDaemon(t);
  const posted = await post([{ input: { a: [1, null] }, tag: "t" }]);
  const id = posted.tasks[0]?.id ?? "";
  assert.equal(posted.tasks[0]?.status_code, 20100);
  await daemon.idle();

  assert.deepEqual(
    (await ready()).tasks.map((task) => task.id),
    [id],
  );
  const head = await call(`/v1/tasks/task_get/${id}`, { method: "HEAD" });
  assert.equal(head.status, 200);
  assert.equal((await ready()).tasks_count, 1);
  assert.deepEqual((await get(id)).result, { a: [1, null] });
  assert.equal((await ready()).tasks_count, 1);
  await (await call(`/v1/tasks/task_get/${id}`)).text();
  assert.equal((await ready()).tasks_count, 0);
  assert.equal((await get(id)).state, "completed");
});

test("one bad task does not refuse its neighbours, and shows why it failed", async (t) => {
  const { post, get, ready, daemon } = await startTestDaemon(t);
  const bad = { postback_url: "http://localhost/x", input: 1 };
  const posted = await post([{ input: 1 }, bad, { input: 2 }, { typo: 1 }]);
  await daemon.idle();

  assert.deepEqual(
    posted.tasks.map((task) => task.status_code),
    [20100, 40501, 20100, 40506],
  );
  assert.equal(posted.tasks_error, 2);
  const refused = posted.tasks[1] ?? assert.fail();
  assert.deepEqual(await get(refused.id), refused);
  assert.match(refused.status_message, /^Invalid Field: 'postback_url'\. .*webhooks\.allow/);
  assert.equal(refused.state, "failed");
  assert.equal((await ready()).tasks_count, 2);
});

test("a command task gets its input on stdin and its stdout is the result", async (t) => {
  const script = `
    let text = ""; process.stdin.on("data", (part) => (text += part));
    process.stdin.on("end", () => { const task = JSON.parse(text); console.log(JSON.stringify({ got: task })); });`;
  const { post, get, daemon } = await startTestDaemon(t, { toml: commandType("count", script) });
  const posted = await post({ type: "count", tag: "x", input: { n: 3 } });
  await daemon.idle();

  const id = posted.tasks[0]?.id ?? "";
  const got = { id, type: "count", tag: "x", marketplace: null, input: { n: 3 } };
  assert.deepEqual((await get(id)).result, { got });
});

test("a command that fails is 50010 with its exit code and the end of its stderr, and is ready", async (t) => {
  const script = `console.error("no such frame"); process.exit(3);`;
  const { post, get, ready, daemon } = await startTestDaemon(t, {
    toml: commandType("bad", script),
  });
  const posted = await post({ input: 1 });
  await daemon.idle();

  const task = await get(posted.tasks[0]?.id ?? "");
  assert.equal(task.status_code, 50010);
  assert.equal(task.state, "failed");
  assert.match(JSON.stringify(task.error), /"exit_code":3.*no such frame/);
  assert.equal((await ready()).tasks_count, 1);
});

test("a failed run is tried again as often as the type says, 1 s and 2 s later, and counted", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const toml = commandType("bad", "process.exit(1)", "retries = 2");
  const { post, get, daemon, logLines } = await startTestDaemon(t, { toml, clock });
  const { tasks } = await post({ input: 1 });
  const id = tasks[0]?.id ?? "";
  await daemon.idle();
  assert.deepEqual(pick(await get(id)), ["queued", 40602, 1]);

  clock.advance(1000);
  await daemon.idle();
  assert.deepEqual(pick(await get(id)), ["queued", 40602, 2]);
  clock.advance(1000);
  await daemon.idle();
  assert.deepEqual(pick(await get(id)), ["queued", 40602, 2]);
  clock.advance(1000);
  await daemon.idle();
  assert.deepEqual(pick(await get(id)), ["failed", 50010, 3]);
  const told = logLines.filter((line) => line.includes("a run failed"));
  assert.equal(told.length, 1, "one line, not a flood");
  assert.ok(told[0]?.includes(id) && told[0].includes("The command exited with code 1."));
});

function pick(task: { state: string; status_code: number; runs: number }) {
  return [task.state, task.status_code, task.runs];
}

test("a task does not start before its start_at", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const { post, get, daemon } = await startTestDaemon(t, { clock });
  const { tasks } = await post({ start_at: new Date(NOW + 3_600_000).toISOString() });
  const id = tasks[0]?.id ?? "";
  clock.advance(3_599_000);
  await daemon.idle();
  assert.equal((await get(id)).state, "queued");

  clock.advance(1000);
  await daemon.idle();
  assert.equal((await get(id)).state, "completed");
});

test("tasks start by priority, then by age, within the type's concurrency", async (t) => {
  const folder = tempFolder(t);
  const order = join(folder, "order");
  const script = `
    let text = ""; process.stdin.on("data", (part) => (text += part));
    process.stdin.on("end", () => require("node:fs").appendFileSync(${JSON.stringify(order)}, JSON.parse(text).tag));`;
  writeFileSync(order, "");
  const toml = commandType("one", script, "concurrency = 1");
  const { post, daemon } = await startTestDaemon(t, { toml });
  await post([
    { tag: "a" },
    { tag: "b", priority: 1 },
    { tag: "c", priority: 9 },
    { tag: "d", priority: 1 },
  ]);
  await daemon.idle();

  const { readFileSync } = await import("node:fs");
  assert.equal(readFileSync(order, "utf8"), "cbda");
});

test("tasks that a stop finds running are queued again and run after the restart", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const folder = tempFolder(t);
  const [begun, gate] = [join(folder, "begun"), join(folder, "gate")];
  // Ends when the gate is there; until then it has to be stopped.
  const script = `const { existsSync, writeFileSync } = require("node:fs");
    writeFileSync(${JSON.stringify(begun)}, "");
    const wait = () => existsSync(${JSON.stringify(gate)}) ? console.log(1) : setTimeout(wait, 5); wait();`;
  const toml = commandType("slow", script);
  const first = await startTestDaemon(t, { clock, toml });
  const { tasks } = await first.post({ input: 1 });
  const id = tasks[0]?.id ?? "";
  // A stop that comes between claim and run does not count the run.
  while (!existsSync(begun)) await first.get(id);
  const stopped = first.daemon.stop();
  clock.advance(18_000);
  await stopped;

  writeFileSync(gate, "");
  const { folder: files, account } = first;
  const second = await startTestDaemon(t, { clock, toml, folder: files, account });
  await second.daemon.idle();
  const task = await second.get(id);
  assert.deepEqual([task.state, task.runs, task.result], ["completed", 2, 1]);
});

test("results are kept 30 days from completion, then erased and answered 40403", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const { post, get, call, ready, daemon } = await startTestDaemon(t, { clock });
  const { tasks } = await post([{ input: 1 }, { typo: 1 }]);
  const ids = tasks.map((task) => task.id);
  await daemon.idle();
  clock.jump(30 * DAY - 60_000);
  await daemon.idle();
  assert.equal((await get(ids[0] ?? "")).expires_at, new Date(NOW + 30 * DAY).toISOString());

  clock.jump(3 * 60_000);
  await daemon.idle();
  for (const id of ids) {
    const answer = await call(`/v1/tasks/task_get/${id}`);
    assert.equal(answer.status, 410);
    assert.match(await answer.text(), /"status_code":40403/);
  }
  assert.equal((await ready()).tasks_count, 0);
});
