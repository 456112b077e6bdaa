import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { test } from "node:test";
import { isDeepStrictEqual } from "node:util";

import { clusterTest } from "../helpers/cluster-test.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { exchange, headerOf, openRaw, toBytes } from "../helpers/raw-http.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { makeKey } from "./account.ts";
import { bearer, complaints } from "./answer.ts";
import { EventReader, openEvents } from "./event-stream.ts";
import { cookieLine, createOperatorSession } from "./session-requests.ts";

const IDLE = { waiting: 0, delayed: 0, running: 0, ready: 0, retrying: 0, undelivered: 0 };

clusterTest("a stream sends the state of the account, and each change", async (t) => {
  const daemon = await startTestDaemon(t);
  const { response, events } = await openEvents(t, daemon);
  assert.equal(response.headers.get("content-type"), "text/event-stream");
  assert.equal(response.headers.get("cache-control"), "no-store");
  assert.equal(response.headers.get("x-accel-buffering"), "no");
  assert.equal(response.headers.get("content-length"), null);
  const first = await events.change();
  assert.deepEqual(first.tasks, IDLE);
  assert.match(first.id, /^[0-9a-f]{12}\.0$/);

  await daemon.post({ type: "echo", input: 1 });
  await untilCounts(events, { ...IDLE, ready: 1 });
  assert.deepEqual(complaints(daemon), []);
});

clusterTest("a stream sends a failed delivery and a collected task", async (t) => {
  const receiver = await startReceiver(t, { reply: { kind: "status", status: 500 } });
  const daemon = await startTestDaemon(t);
  const { events } = await openEvents(t, daemon);
  const { tasks } = await daemon.post({ type: "echo", input: 1, postback_url: receiver.url() });
  const id = tasks[0]?.id ?? "";
  await untilCounts(events, { ...IDLE, ready: 1, retrying: 1 });
  await daemon.call(`/v1/tasks/task_get/${id}`);
  await untilCounts(events, { ...IDLE, retrying: 1 });
});

/** Reads changes until one says so; what is in between depends on how they fall together. */
async function untilCounts(events: EventReader, counts: typeof IDLE): Promise<void> {
  for (;;) {
    const { tasks } = await events.change();
    if (isDeepStrictEqual(tasks, counts)) return;
  }
}

test("a revoked key ends its streams, and no others", async (t) => {
  const clock = createFakeClock();
  const daemon = await startTestDaemon(t, { clock });
  const made = await makeKey(daemon);
  const authorization = `Bearer ${made.key}`;
  const [gone, stays] = [
    await openEvents(t, daemon, { authorization }),
    await openEvents(t, daemon),
  ];
  await Promise.all([gone.events.change(), stays.events.change()]);
  await daemon.call(`/v1/appendix/keys/${made.key_id}`, { method: "DELETE" });
  clock.advance(15_000);
  assert.deepEqual(await gone.events.next(), {
    ...{ event: "end", id: null, data: '{"reason":"signed_out"}' },
  });
  assert.equal(await gone.events.next(), null);
  assert.equal((await stays.events.next())?.event, ":");
});

test("the operator's stream sends changes of all accounts, and ends with its session", async (t) => {
  const clock = createFakeClock();
  const daemon = await startTestDaemon(t, { clock });
  const secret = await createOperatorSession(daemon.file, clock.now());
  const cookie = cookieLine(daemon.url, secret).replace("Cookie: ", "");
  const headers = { cookie, "sec-fetch-site": "same-origin", "x-requested-with": "postbackd" };
  const response = await fetch(`${daemon.url}/v1/events`, { headers });
  assert(response.body !== null);
  const events = new EventReader(response.body);
  await events.change();
  clock.advance(250);
  const next = events.change();
  await daemon.post({ type: "echo", start_at: "2026-02-01T00:00:00Z" });
  assert.deepEqual((await next).tasks, { ...IDLE, delayed: 1 });
  const end = events.next();
  await fetch(`${daemon.url}/v1/session`, { method: "DELETE", headers });
  clock.advance(15_000);
  assert.equal((await end)?.data, '{"reason":"signed_out"}');
  assert.equal(await events.next(), null);
});

test("a stream does not prolong its session", async (t) => {
  const clock = createFakeClock();
  const daemon = await startTestDaemon(t, { clock });
  const secret = await createOperatorSession(daemon.file, clock.now());
  const cookie = cookieLine(daemon.url, secret).replace("Cookie: ", "");
  const ofPage = { "sec-fetch-site": "same-origin", "x-requested-with": "postbackd" };
  const headers = { cookie, ...ofPage, "x-refresh": "automatic" };
  const response = await fetch(`${daemon.url}/v1/events`, { headers });
  assert(response.body !== null);
  const events = new EventReader(response.body);
  await events.change();
  const comments: string[] = [];
  for (;;) {
    const next = events.next();
    clock.advance(15_000);
    const message = await next;
    if (message?.event === "end") break;
    comments.push(message?.event ?? "");
  }
  assert.equal(comments.length, (30 * 60) / 15 - 1);
});

test("a read after a change was sent includes the change", async (t) => {
  const clock = createFakeClock();
  const daemon = await startTestDaemon(t, { clock });
  const overview = async () => {
    const response = await daemon.call("/v1/stats/overview");
    // The shape is the contract's; a test that reads a field that is not there fails by itself.
    return (await response.json()) as { readonly day: { readonly posted: number } };
  };
  const { events } = await openEvents(t, daemon);
  await events.change();
  assert.equal((await overview()).day.posted, 0);
  const told = events.change();
  await daemon.post([{}, {}]);
  clock.advance(250);
  await told;
  // By the clock no time has passed that would make the first answer too old.
  assert.equal((await overview()).day.posted, 2);
});

test("a stream that continues at Last-Event-ID sends nothing that is known", async (t) => {
  const clock = createFakeClock();
  const daemon = await startTestDaemon(t, { clock });
  const first = await openEvents(t, daemon);
  const { id } = await first.events.change();
  await first.events.cancel();
  const second = await openEvents(t, daemon, { "last-event-id": id });
  const next = second.events.next();
  // A comment, not a change, is what it gets first.
  await clock.whenPending(1);
  clock.advance(15_000);
  assert.equal((await next)?.event, ":");
});

// That a client has hung up is known when its FIN has come.
async function openEventually(open: () => Promise<Response>): Promise<void> {
  for (;;) {
    const response = await open();
    await response.body?.cancel();
    if (response.status === 200) return;
  }
}

test("HEAD has the headers of a stream and opens none", async (t) => {
  const daemon = await startTestDaemon(t);
  const credentials = [bearer(daemon)];
  for (let i = 0; i < 20; i++) {
    const request = { method: "HEAD", target: "/v1/events", headers: credentials };
    const answer = await exchange(daemon.url, request);
    assert.equal(answer.status, 200);
    assert.equal(headerOf(answer, "content-type"), "text/event-stream");
    assert.equal(headerOf(answer, "content-length"), null);
    assert.equal(answer.body.length, 0);
  }
  const faults = [
    [401, {}],
    [400, { target: "/v1/events?nonsense=1", headers: credentials }],
    [405, { method: "POST", headers: credentials, body: "{}" }],
    [404, { target: "/v1/events/x", headers: credentials }],
  ] as const;
  for (const [status, request] of faults) {
    const answer = await exchange(daemon.url, { target: "/v1/events", ...request });
    assert.equal(answer.status, status);
  }
  await openEvents(t, daemon);
  assert.deepEqual(complaints(daemon), []);
});

test("a stop ends the streams and does not wait for them", async (t) => {
  const clock = createFakeClock();
  const daemon = await startTestDaemon(t, { clock });
  const { events } = await openEvents(t, daemon);
  await events.change();
  const end = events.next();
  await daemon.daemon.stop();
  assert.equal((await end)?.data, '{"reason":"stopping"}');
  assert.equal(await events.next(), null);
  assert.equal(clock.monotonic(), 0);
  assert.deepEqual(complaints(daemon), []);
});

test("a client that disconnects in any way leaves no timer and no stream", async (t) => {
  const clock = createFakeClock();
  const daemon = await startTestDaemon(t, { clock });
  const before = clock.pending().length;
  const request = toBytes({ target: "/v1/events", headers: [bearer(daemon)] });
  const { hostname, port } = new URL(daemon.url);
  for (const way of ["reset", "destroy", "end", "early"] as const) {
    const socket = connect({ host: hostname, port: Number(port) });
    await once(socket, "connect");
    socket.write(request);
    if (way === "early") socket.resetAndDestroy();
    else {
      await once(socket, "data");
      if (way === "reset") socket.resetAndDestroy();
      else if (way === "destroy") socket.destroy();
      else socket.end();
    }
    if (!socket.closed) await once(socket, "close");
  }
  // The next stream of the same key finds every place free.
  for (let i = 0; i < 10; i++) await openEventually(() => daemon.call("/v1/events"));
  await daemon.daemon.idle();
  await openEventually(() => daemon.call("/livez"));
  assert.ok(clock.pending().length <= before + 1);
  assert.deepEqual(complaints(daemon), []);
});

test("a request after a stream on its connection is served when the stream ends", async (t) => {
  const clock = createFakeClock();
  const daemon = await startTestDaemon(t, { clock });
  const made = await makeKey(daemon);
  const connection = await openRaw(t, daemon.url);
  const headers = [`Authorization: Bearer ${made.key}`];
  const next = toBytes({ target: "/readyz", headers: ["Connection: close"] });
  connection.send(Buffer.concat([toBytes({ target: "/v1/events", headers }), next]));
  const watch = await openEvents(t, daemon);
  await watch.events.change();
  await daemon.call(`/v1/appendix/keys/${made.key_id}`, { method: "DELETE" });
  clock.advance(15_000);
  const [, stream = "", ready = ""] = (await connection.closed()).toString().split("HTTP/1.1 200");
  assert.match(stream, /event: end\n.*\n\n\r\n0\r\n\r\n$/);
  assert.match(ready, /\{"status":"ok"\}$/);
});
