import assert from "node:assert/strict";
import { test } from "node:test";

import { RateLimiter, RefusedCredentials } from "../../src/http/admission/quota.ts";
import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { startReceiver } from "../helpers/receiver.ts";

const MINUTE = 60_000;
const ON = "[log]\nrequests = true\n";

type Line = Readonly<Record<string, unknown>>;

function linesOf({ logLines }: Pick<TestDaemon, "logLines">, message: string): readonly Line[] {
  const lines = logLines.map((line) => JSON.parse(line) as Line);
  return lines.filter((line) => line["msg"] === message);
}

test("log.requests logs each request, without any value of the client", async (t) => {
  const daemon = await startTestDaemon(t, { toml: ON });
  const { tasks } = await daemon.post({ tag: "hidden-tag" });
  await (await daemon.call(`/v1/tasks/task_get/${tasks[0]?.id}?collect=false`)).text();
  await (await daemon.call("/v1/hidden-path?hidden=query")).text();
  await (await fetch(`${daemon.url}/v1/tasks/tasks_ready`)).text();
  // A stop waits for the lines of all responses.
  await daemon.daemon.stop();

  const lines = linesOf(daemon, "request");
  const told = lines.map(({ method, path, http_status, address, whole }) => {
    return { method, path, http_status, address, whole };
  });
  const all = { address: "127.0.0.1", whole: true };
  assert.deepEqual(told, [
    { method: "POST", path: "/v1/tasks/task_post", http_status: 200, ...all },
    { method: "GET", path: "/v1/tasks/task_get/:id", http_status: 200, ...all },
    { method: "GET", path: "other", http_status: 404, ...all },
    { method: "GET", path: "/v1/tasks/tasks_ready", http_status: 401, ...all },
  ]);
  const [first, , , last] = lines;
  assert.match(String(first?.["caller"]), /^[0-9a-z_-]+$/i);
  assert.equal(last?.["caller"], null);
  for (const { bytes, ms } of lines) assert.ok(Number(bytes) > 100 && Number.isInteger(ms));
  const text = daemon.logLines.join("");
  for (const secret of ["hidden", daemon.account.key]) assert.ok(!text.includes(secret), secret);
});

test("no request is logged by default", async (t) => {
  const daemon = await startTestDaemon(t);
  await daemon.post({});
  await daemon.daemon.stop();

  assert.deepEqual(linesOf(daemon, "request"), []);
});

test("refused credentials are one line per address and minute, with their number", async (t) => {
  const clock = createFakeClock({ now: Date.parse("2030-01-31T09:00:00.000Z") });
  const daemon = await startTestDaemon(t, { clock });
  const refuse = () =>
    fetch(`${daemon.url}/v1/tasks/tasks_ready`, { headers: { authorization: "Bearer x" } });
  for (let i = 0; i < 3; i++) assert.equal((await refuse()).status, 401);
  const told = (): readonly unknown[] =>
    linesOf(daemon, "credentials were refused").map(({ address, refused }) => [address, refused]);
  assert.deepEqual(told(), []);

  clock.advance(MINUTE);
  assert.deepEqual(told(), [["127.0.0.1", 3]]);
  await refuse();
  await daemon.daemon.stop();
  assert.deepEqual(told(), [
    ["127.0.0.1", 3],
    ["127.0.0.1", 1],
  ]);
});

test("refused credentials of many addresses are a limited number of lines", () => {
  const lines: unknown[] = [];
  const clock = createFakeClock({ now: 0 });
  const log = { info: (facts: unknown) => void lines.push(facts) };
  const limiter = new RateLimiter({ limit: 0, windowMs: MINUTE, clock });
  const refusals = new RefusedCredentials({ clock, log, limiter });
  for (let i = 0; i < 5000; i++) refusals.refuse(40101, `address-${i}`);

  clock.advance(MINUTE);

  assert.equal(lines.length, 101);
  assert.deepEqual(lines.at(-1), { refused: 4900 });
  clock.advance(MINUTE);
  assert.equal(lines.length, 101);
});

test("the debug log has each step of a task with its id", async (t) => {
  const receiver = await startReceiver(t);
  const daemon = await startTestDaemon(t);
  const { tasks } = await daemon.post({ postback_url: receiver.url("/hook?key=hidden") });
  await daemon.daemon.idle();

  const id = tasks[0]?.id ?? assert.fail();
  const lines = daemon.logLines.filter((line) => line.includes(id));
  const told = lines.map((line) => (JSON.parse(line) as Line)["msg"]);
  assert.deepEqual(told, [
    "a task was accepted",
    "a run began",
    "a run ended",
    "an attempt began",
    "an attempt ended",
  ]);
  assert.ok(lines.every((line) => (JSON.parse(line) as Line)["task"] === id));
  assert.ok(!lines.join("").includes("hidden"));
});

test("failed attempts to one host are one line at info, and one line each at debug", async (t) => {
  const receiver = await startReceiver(t);
  receiver.answer({ kind: "status", status: 503 });
  const daemon = await startTestDaemon(t, { toml: "[webhooks]\nretry_after = []\n" });
  const { tasks } = await daemon.post(
    Array.from({ length: 3 }, () => ({ postback_url: receiver.url("/") })),
  );
  await daemon.daemon.idle();

  const failed = linesOf(daemon, "attempt failed");
  assert.equal(failed.length, 1);
  assert.deepEqual([failed[0]?.["attempt"], failed[0]?.["http_status"]], [1, 503]);
  const ended = linesOf(daemon, "an attempt ended");
  assert.deepEqual(new Set(ended.map((line) => line["task"])), new Set(tasks.map(({ id }) => id)));
  assert.ok(ended.every((line) => line["http_status"] === 503));
});
