import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { test } from "node:test";

import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { farStart } from "../helpers/far-start.ts";
import { openRaw, toBytes } from "../helpers/raw-http.ts";
import { ask, askOn, bearer, complaints, posting, TASK_POST, taskGet, toAnswer } from "./answer.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const LATER = { input: "later", start_at: "2030-01-31T10:00:00Z" };

/** The id of a task that starts in an hour, and of one that has completed. */
async function postTwo(daemon: TestDaemon): Promise<readonly [string, string]> {
  const { tasks } = await daemon.post([LATER, { input: "now" }]);
  await daemon.daemon.idle();
  return [tasks[0]?.id ?? "", tasks[1]?.id ?? ""];
}

function get(daemon: TestDaemon, id: string, ...headers: readonly string[]): Buffer {
  return toBytes({ target: taskGet(id), headers: [bearer(daemon), ...headers] });
}

test("a pipelined request has no effect before the response to the request in front of it", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock });
  const [waited, completed] = await postTwo(daemon);
  const connection = await openRaw(t, daemon.url);
  const timers = clock.pending().length;
  const wait = get(daemon, waited, "Prefer: wait=60");
  connection.send(Buffer.concat([wait, get(daemon, completed)]));
  await clock.whenPending(timers + 1);
  // A write of the second request would come before this one.
  await daemon.post(LATER);
  assert.equal((await daemon.ready()).tasks_count, 1);

  clock.advance(60_000);
  const first = toAnswer(await connection.next());
  assert.equal(first.body.tasks?.[0]?.id, waited);
  const second = toAnswer(await connection.next());
  assert.equal(second.body.tasks?.[0]?.id, completed);
  assert.equal((await daemon.ready()).tasks_count, 0);
});

test("two hundred pipelined waits wait one after the other", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock });
  const [waited] = await postTwo(daemon);
  const connection = await openRaw(t, daemon.url);
  const timers = clock.pending().length;
  const wait = get(daemon, waited, "Prefer: wait=1");
  connection.send(Buffer.concat(Array.from({ length: 200 }, () => wait)));
  for (let i = 0; i < 200; i++) {
    await clock.whenPending(timers + 1);
    assert.equal(clock.pending().length, timers + 1);
    clock.advance(1000);
    assert.equal((await connection.next()).status, 200);
  }
  assert.equal((await askOn(connection, { target: "/livez" })).response.status, 200);
  assert.deepEqual(complaints(daemon), []);
});

test("large pipelined bodies are read one after the other", async (t) => {
  const daemon = await startTestDaemon(t);
  const connection = await openRaw(t, daemon.url);
  const post = toBytes(posting(daemon, JSON.stringify({ input: "x".repeat(200_000) })));
  connection.send(Buffer.concat(Array.from({ length: 30 }, () => post)));
  for (let i = 0; i < 30; i++) assert.equal(toAnswer(await connection.next()).code, 20000);
  assert.deepEqual(complaints(daemon), []);
});

test("a pipelined post of a client that disconnected before its turn stores nothing", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock });
  const [waited] = await postTwo(daemon);
  const connection = await openRaw(t, daemon.url);
  const timers = clock.pending().length;
  const wait = get(daemon, waited, "Prefer: wait=60");
  connection.send(Buffer.concat([wait, toBytes(posting(daemon, '{"tag":"gone"}'))]));
  await clock.whenPending(timers + 1);
  connection.reset();
  // Until the server has seen it.
  while (clock.pending().length > timers) await ask(daemon.url, { target: "/livez" });
  await ask(daemon.url, { target: "/livez" });

  const list = await daemon.call("/v1/tasks");
  assert.doesNotMatch(await list.text(), /"tag":"gone"/);
  assert.equal((await daemon.ready()).tasks_count, 1);
});

test("a client that does not read its responses is cut off after limits.send_timeout", async (t) => {
  const toml = '[limits]\nsend_timeout = "300ms"\n';
  const daemon = await startTestDaemon(t, { toml });
  const socket = connect({ host: "127.0.0.1", port: daemon.daemon.port });
  socket.on("error", () => {});
  t.after(() => socket.destroy());
  await once(socket, "connect");
  // More than the buffers of both sides take.
  const some = toBytes({ target: "/openapi.json" });
  socket.write(Buffer.concat(Array.from({ length: 500 }, () => some)));
  const startedAt = performance.now();
  await once(socket, "readable");

  // A stop waits for the answers under way, this one too.
  await daemon.daemon.stop();
  const ms = performance.now() - startedAt;
  assert(ms > 250, `${ms} ms`);
  assert.deepEqual(complaints(daemon), []);
});

test("a wait longer than limits.send_timeout is not cut off", async (t) => {
  const toml = '[limits]\nsend_timeout = "200ms"\n';
  const daemon = await startTestDaemon(t, { toml });
  const { tasks } = await daemon.post([{ start_at: farStart() }]);
  const connection = await openRaw(t, daemon.url);
  connection.send(get(daemon, tasks[0]?.id ?? "", "Prefer: wait=1"));
  assert.equal((await connection.next()).status, 200);
});

test("a stop waits until a slow client has read its response", async (t) => {
  const daemon = await startTestDaemon(t, { toml: '[limits]\nbody = "64MiB"\n' });
  const input = "x".repeat(20 * 1024 ** 2);
  const { tasks } = await daemon.post({ input });
  await daemon.daemon.idle();
  const socket = connect({ host: "127.0.0.1", port: daemon.daemon.port });
  t.after(() => socket.destroy());
  await once(socket, "connect");
  socket.write(get(daemon, tasks[0]?.id ?? ""));
  // The head of the answer has come: all of it has been handed to the socket.
  await once(socket, "readable");

  const stopped = daemon.daemon.stop();
  let bytes = 0;
  socket.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
  });
  await once(socket, "end");
  // The input twice, as the task's and as its result.
  assert(bytes > 2 * input.length, `${bytes} bytes`);
  await stopped;
});

test("a stop ends requests without a response after 18 s", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock });
  const connection = await openRaw(t, daemon.url);
  const headers = [bearer(daemon), "Content-Type: application/json", "Content-Length: 10"];
  const timers = clock.pending().length;
  connection.send(toBytes({ method: "POST", target: TASK_POST, headers, body: "[" }));
  // Its key has been read: the request is under way.
  await clock.whenPending(timers + 1);
  const stopped = daemon.daemon.stop();
  clock.advance(18_000);
  await stopped;
  assert.equal((await connection.closed()).length, 0);
});
