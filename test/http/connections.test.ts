import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { RESERVE_PLACES } from "../../src/http/admission/limits.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { farStart } from "../helpers/far-start.ts";
import { SOURCES, startProgram } from "../helpers/program.ts";
import { headerOf, openRaw, toBytes, type RawConnection } from "../helpers/raw-http.ts";
import {
  ask,
  askOn,
  bearer,
  complaints,
  JSON_TYPE,
  TASK_POST,
  TASKS_READY,
  taskGet,
  toAnswer,
} from "./answer.ts";
import { startRing } from "./ring.ts";
import { FROM_PAGE } from "./session-requests.ts";

/** A daemon with these lines below `[limits]`. */
function start(t: TestContext, ...limits: readonly string[]) {
  return startTestDaemon(t, { toml: `[limits]\n${limits.join("\n")}\n` });
}

const LIVEZ = { target: "/livez" };

/** All that comes until the server closes; fails when it takes longer than the helper waits. */
async function textOf(connection: RawConnection): Promise<string> {
  return (await connection.closed()).toString();
}

test("closes the longest idle connection for a new one when places run out", async (t) => {
  const daemon = await start(t, "connections = 2");
  const [first, second] = [await openRaw(t, daemon.url), await openRaw(t, daemon.url)];
  assert.equal((await askOn(first, LIVEZ)).response.status, 200);
  assert.equal((await askOn(second, LIVEZ)).response.status, 200);

  const third = await openRaw(t, daemon.url);

  assert.equal((await askOn(third, LIVEZ)).response.status, 200);
  assert.equal(await textOf(first), "");
  assert.equal((await askOn(second, LIVEZ)).response.status, 200);
  const lines = complaints(daemon).map((line): unknown => JSON.parse(line));
  assert.equal(lines.length, 1);
  const [{ time: _time, pid: _pid, ...told }] = lines as [Record<string, unknown>];
  assert.deepEqual(told, {
    ...{ level: "warn", closed_others: 1, over_reserve: 0, refused: 0 },
    msg: "there were more connections than places (limits.connections)",
  });
});

test("limits.connections is lowered to what the process may open, and health checks are served beyond that", async (t) => {
  const command = ["sh", "-c", 'ulimit -n 1024 && exec "$@"', "sh", ...SOURCES] as const;
  const program = startProgram(t, ["start", "--port", "0"], { command });
  const { url } = await program.ready;
  const lines = program.stderr.split("\n").filter((line) => line.includes("open_files"));

  const [{ level, connections, configured, open_files }] = lines.map((line) =>
    JSON.parse(line),
  ) as [Record<string, unknown>];
  assert.deepEqual([level, connections, configured, open_files], ["warn", 312, 4096, 1024]);
  for (let i = 0; i < 1500; i++) await openRaw(t, url);
  assert.equal((await ask(url, LIVEZ)).response.status, 200);
});

/** A ring with one place, which is taken by a request that is answered when told so. */
async function startTaken(t: TestContext) {
  const asked = Promise.withResolvers<void>();
  const found = Promise.withResolvers<null>();
  // The ring waits for its answers when it is closed.
  t.after(() => found.resolve(null));
  const findTask = (): Promise<null> => {
    asked.resolve();
    return found.promise;
  };
  const ring = await startRing(t, { limits: { connections: 1 }, store: { findTask } });
  const taker = await openRaw(t, ring.url);
  const target = taskGet("01890a5d-ac96-774b-bcce-b302099a8057");
  taker.send(toBytes({ target, headers: [bearer(ring)] }));
  await asked.promise;
  return { ...ring, taker, answer: () => found.resolve(null) };
}

test("when nobody gives way, health checks and the operator are served, and nobody else", async (t) => {
  const ring = await startTaken(t);

  const live = await ask(ring.url, LIVEZ);
  assert.equal(live.response.status, 200);
  assert.equal(headerOf(live.response, "connection"), "close");
  const accounts = { target: "/v1/operator/accounts", headers: [ring.cookie, ...FROM_PAGE] };
  assert.equal((await ask(ring.url, accounts)).code, 20000);

  const cookie = "Cookie: nothing=x";
  for (const headers of [[], [bearer(ring)], [cookie, bearer(ring)]]) {
    const refused = await ask(ring.url, { target: TASKS_READY, headers });
    assert.equal(refused.code, 50300, headers.join());
    assert.match(refused.body.errors?.[0]?.detail ?? "", /limits\.connections/);
    assert.equal(headerOf(refused.response, "retry-after"), "5");
    assert.equal(headerOf(refused.response, "connection"), "close");
  }
  ring.answer();
  assert.equal(toAnswer(await ring.taker.next()).code, 40403);
});

test("the places that are left are not kept by those who ask nothing", async (t) => {
  const ring = await startTaken(t);
  const silent = [];
  for (let i = 0; i < RESERVE_PLACES; i++) silent.push(await openRaw(t, ring.url));

  assert.equal((await ask(ring.url, LIVEZ)).response.status, 200);
  assert.equal(await Promise.race(silent.map(textOf)), "");
  ring.answer();
});

test("takes another connection when one has gone", async (t) => {
  const daemon = await start(t, "connections = 1");
  for (let i = 0; i < 3; i++) {
    const connection = await openRaw(t, daemon.url);
    const answer = await askOn(connection, { ...LIVEZ, headers: ["Connection: close"] });

    assert.equal(answer.response.status, 200);
    await connection.closed();
  }
});

const SLOW_HEADERS: readonly [name: string, bytes: string][] = [
  ["that has sent nothing", ""],
  ["in the middle of a request line", "GET /liv"],
  ["in the middle of its headers", "GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "],
];
for (const [name, bytes] of SLOW_HEADERS) {
  test(`ends a connection ${name} when limits.header_timeout is over`, async (t) => {
    const daemon = await start(t, 'header_timeout = "1s"');
    const slow = await openRaw(t, daemon.url);
    const startedAt = performance.now();

    slow.send(bytes);
    const text = await textOf(slow);

    const ms = performance.now() - startedAt;
    assert.match(text, /^HTTP\/1\.1 400 [^]*\{"status_code":40000,[^]*took too long to arrive/);
    // Node looks in an interval of its own; a time shorter than that is kept nevertheless.
    assert(ms > 900, `${ms} ms`);
    assert.equal((await ask(daemon.url, LIVEZ)).response.status, 200);
    assert.deepEqual(complaints(daemon), []);
  });
}

test("ends a connection whose body does not come within limits.request_timeout", async (t) => {
  const daemon = await start(t, 'request_timeout = "1s"');
  const slow = await openRaw(t, daemon.url);
  const startedAt = performance.now();
  const headers = [bearer(daemon), JSON_TYPE, "Content-Length: 10"];

  slow.send(toBytes({ method: "POST", target: TASK_POST, headers, body: "[" }));
  const response = await slow.next();

  assert.equal(response.status, 400);
  assert.equal(headerOf(response, "connection"), "close");
  assert.match(response.body.toString(), /"status_code":40000,.*took too long to arrive/);
  assert.equal(await textOf(slow), "");
  const ms = performance.now() - startedAt;
  assert(ms > 900, `${ms} ms`);
  assert.deepEqual((await daemon.ready()).tasks, []);
  assert.deepEqual(complaints(daemon), []);
});

test("does not count the time between two requests against the second", async (t) => {
  const daemon = await start(t, 'header_timeout = "1s"', 'request_timeout = "1s"');
  const kept = await openRaw(t, daemon.url);
  await askOn(kept, LIVEZ);
  // By the time that this one is ended the kept connection has been idle for as long as that.
  const slow = await openRaw(t, daemon.url);
  slow.send("GET /");
  await textOf(slow);

  assert.equal((await askOn(kept, LIVEZ)).response.status, 200);
});

test("does not end an answer that takes longer than the request may", async (t) => {
  const daemon = await start(t, 'header_timeout = "1s"', 'request_timeout = "1s"');
  const { tasks } = await daemon.post([{ start_at: farStart() }]);
  const waiting = await openRaw(t, daemon.url);
  const target = `/v1/tasks/task_get/${tasks[0]?.id}`;

  waiting.send(toBytes({ target, headers: [bearer(daemon), "Prefer: wait=2"] }));
  const startedAt = performance.now();

  assert.equal((await waiting.next()).status, 200);
  assert(performance.now() - startedAt > 1900, "it was to wait");
  assert.equal((await askOn(waiting, LIVEZ)).response.status, 200);
});
