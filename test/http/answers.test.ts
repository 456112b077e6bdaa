import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { test } from "node:test";

import { BYTES_PER_SECOND_MIN } from "../../src/http/admission/limits.ts";
import { SendPace } from "../../src/http/server/closing.ts";
import { clusterTest } from "../helpers/cluster-test.ts";
import { createTestAccount, startTestDaemon } from "../helpers/daemon.ts";
import { toBytes } from "../helpers/raw-http.ts";
import { startAt9 } from "./account.ts";
import { TASKS_READY, ask, bearer, complaints, posting, taskGet } from "./answer.ts";
import { request } from "./task-requests.ts";

/** The memory of responses that are not read. */

const CONNECTIONS = 40;
// More than the kernel buffers for both ends of a connection.
const SENT_AHEAD = 6;

test("a client that does not read its responses gets no more, and other clients are served", async (t) => {
  const { clock, daemon } = await startAt9(t);
  const other = { account: await createTestAccount(daemon.file, "other") };
  const { tasks } = await daemon.post([{ input: "x".repeat(900_000) }]);
  await daemon.daemon.idle();
  const large = { target: taskGet(tasks[0]?.id ?? ""), headers: [bearer(daemon)] };
  const timers = clock.pending().length;
  const asked = Buffer.concat(Array.from({ length: SENT_AHEAD }, () => toBytes(large)));
  const sockets = Array.from({ length: CONNECTIONS }, () => {
    const socket = connect({ host: "127.0.0.1", port: daemon.daemon.port });
    t.after(() => socket.destroy());
    socket.on("error", () => {});
    socket.write(asked);
    return socket;
  });
  // Half of the room is used: a response waits for room.
  await clock.whenPending(timers + 1);

  assert.equal(
    (await ask(daemon.url, { target: TASKS_READY, headers: [bearer(other)] })).code,
    20000,
  );
  // A small post of the same account needs no room.
  assert.equal((await ask(daemon.url, posting(daemon, '{"input":1}'))).code, 20000);

  const closed = sockets.map((socket) => once(socket, "close"));
  for (const socket of sockets) socket.destroy();
  await Promise.all(closed);
  // The response waits until the server notices the closed connections.
  assert.equal((await ask(daemon.url, large)).code, 20000);
  assert.deepEqual(complaints(daemon), []);
});

// More than is answered from the main thread.
const LARGE = "\u4e2d\u{1f600}x".repeat(40_000);

clusterTest(
  "a large task has length, tag, HEAD and 304 as a small one, and is collected once",
  async (t) => {
    const daemon = await startTestDaemon(t);
    const { tasks } = await daemon.post({ type: "echo", input: { LARGE } });
    const [posted] = tasks;
    assert(posted !== undefined);
    await daemon.daemon.idle();
    const target = taskGet(posted.id);

    const head = await request(daemon, { method: "HEAD", target });
    const known = await request(daemon, {
      target,
      headers: [`If-None-Match: ${head.header("etag")}`],
    });
    assert.deepEqual([head.status, known.status, known.text], [200, 304, ""]);
    assert.equal((await daemon.ready()).tasks_count, 1);

    const got = await request(daemon, { target });
    assert.equal(got.status, 200);
    assert.equal(got.header("content-type"), "application/json");
    assert.equal(got.header("content-length"), String(Buffer.byteLength(got.text)));
    assert.equal(head.header("content-length"), got.header("content-length"));
    assert.equal(head.header("etag"), got.header("etag"));
    const {
      tasks: [task],
    } = JSON.parse(got.text);
    // Compared here, because a failure would print them.
    assert(task.result.LARGE === LARGE && task.data.input.LARGE === LARGE);
    assert.equal((await daemon.ready()).tasks_count, 0);
  },
);

test("a constant response is whole for each request, with its length and its tag", async (t) => {
  const daemon = await startTestDaemon(t);
  for (const target of [
    "/openapi.json",
    "/v1/appendix/status_codes",
    "/v1/appendix/marketplaces",
  ]) {
    const first = await request(daemon, { target });
    const tag = first.header("etag");
    assert.equal(first.header("content-length"), String(Buffer.byteLength(first.text)), target);
    const again = await request(daemon, { target });
    assert.deepEqual([again.text, again.header("etag")], [first.text, tag], target);
    const head = await request(daemon, { method: "HEAD", target });
    assert.equal(head.header("content-length"), first.header("content-length"), target);
    const known = await request(daemon, { target, headers: [`If-None-Match: ${tag}`] });
    assert.deepEqual([known.status, known.text], [304, ""], target);
  }
});

const TIMEOUT_MS = 30_000;
const ANSWER = 10_000_000;

/** When a client is cut off, in ms, by the bytes the kernel has taken until then; null: not within ten minutes. */
function cutAt(takenBy: (ms: number) => number): number | null {
  const pace = new SendPace(TIMEOUT_MS);
  const client = {};
  for (let ms = 0; ms <= 600_000; ms += 500) {
    const taken = Math.min(takenBy(ms), ANSWER);
    if (pace.isTooSlow(client, { taken, unsent: ANSWER - taken }, ms)) return ms;
  }
  return null;
}

const steady = (ms: number) => (ms / 1000) * BYTES_PER_SECOND_MIN;

const CLIENTS: readonly (readonly [string, (ms: number) => number, number | null])[] = [
  ["that reads nothing is cut off after the send timeout", () => 0, TIMEOUT_MS],
  ["that reads nothing more is cut off after the send timeout", () => 600_000, TIMEOUT_MS],
  [
    "that stops to read is cut off the send timeout later",
    (ms) => (ms < 20_000 ? 0 : 1_000_000),
    20_000 + TIMEOUT_MS,
  ],
  ["that reads at the least rate is kept", steady, null],
  [
    "that reads at the least rate in large pieces is kept",
    (ms) => Math.floor(ms / 20_000) * 64 * 1024,
    null,
  ],
  ["that reads below the least rate is cut off", (ms) => steady(ms) * 0.9, TIMEOUT_MS],
  ["that reads a byte now and then is cut off", (ms) => Math.floor(ms / 20_000), TIMEOUT_MS],
];

for (const [name, takenBy, cut] of CLIENTS) {
  test(`a client ${name}`, () => assert.equal(cutAt(takenBy), cut));
}

test("the time of a response that was read whole does not count for the next", () => {
  const pace = new SendPace(TIMEOUT_MS);
  const client = {};
  for (const [taken, unsent, ms, isTooSlow] of [
    [10, 5, 0, false],
    [15, 0, 20_000, false],
    [15, 5, 29_000, false],
    [15, 5, 58_500, false],
    [15, 5, 59_000, true],
  ] as const) {
    assert.equal(pace.isTooSlow(client, { taken, unsent }, ms), isTooSlow, `${ms}`);
  }
});
