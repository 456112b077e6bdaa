import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { startTestDaemon } from "../helpers/daemon.ts";
import { farStart } from "../helpers/far-start.ts";
import { SOURCES, startProgram } from "../helpers/program.ts";
import { headerOf, openRaw, toBytes } from "../helpers/raw-http.ts";
import {
  ask,
  askOn,
  bearer,
  codeOf,
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

test("beyond limits.connections the longest idle connection is closed for a new one", async (t) => {
  const daemon = await start(t, "connections = 2");
  const [first, second] = [await openRaw(t, daemon.url), await openRaw(t, daemon.url)];
  assert.equal((await askOn(first, LIVEZ)).response.status, 200);
  assert.equal((await askOn(second, LIVEZ)).response.status, 200);

  const third = await openRaw(t, daemon.url);

  assert.equal((await askOn(third, LIVEZ)).response.status, 200);
  assert.equal((await first.closed()).length, 0);
  assert.equal((await askOn(second, LIVEZ)).response.status, 200);
  const lines = complaints(daemon).map((line): Record<string, unknown> => JSON.parse(line));
  assert.deepEqual(
    lines.map((line) => [line["level"], line["closed_others"], line["refused"]]),
    [["warn", 1, 0]],
  );
});

test("a low limit of open files lowers limits.connections, and health checks are served beyond that", async (t) => {
  const command = ["sh", "-c", 'ulimit -n 1024 && exec "$@"', "sh", ...SOURCES] as const;
  const program = startProgram(t, ["start", "--port", "0"], { command });
  const { url } = await program.ready;
  const line = program.stderr.split("\n").find((each) => each.includes("open_files")) ?? "{}";

  const { level, connections, configured, open_files } = JSON.parse(line);
  assert.deepEqual([level, connections, configured, open_files], ["warn", 312, 4096, 1024]);
  for (let i = 0; i < 1500; i++) await openRaw(t, url);
  assert.equal((await ask(url, LIVEZ)).response.status, 200);
});

test("with every place taken, health checks and the operator are served and others get 50300", async (t) => {
  const asked = Promise.withResolvers<void>();
  const found = Promise.withResolvers<null>();
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

  const live = await ask(ring.url, LIVEZ);
  assert.equal(live.response.status, 200);
  assert.equal(headerOf(live.response, "connection"), "close");
  const accounts = { target: "/v1/operator/accounts", headers: [ring.cookie, ...FROM_PAGE] };
  assert.equal(await codeOf(ring.url, accounts), 20000);

  const cookie = "Cookie: nothing=x";
  for (const headers of [[], [bearer(ring)], [cookie, bearer(ring)]]) {
    const { code, response, body } = await ask(ring.url, { target: TASKS_READY, headers });
    assert.equal(code, 50300, headers.join());
    assert.match(body.errors?.[0]?.detail ?? "", /limits\.connections/);
    assert.equal(headerOf(response, "retry-after"), "5");
    assert.equal(headerOf(response, "connection"), "close");
  }
  found.resolve(null);
  assert.equal(toAnswer(await taker.next()).code, 40403);
});

test("a request that does not arrive within limits.header_timeout or limits.request_timeout is 40000 and closed", async (t) => {
  const daemon = await start(t, 'header_timeout = "1s"', 'request_timeout = "1s"');
  const kept = await openRaw(t, daemon.url);
  await askOn(kept, LIVEZ);
  const headers = [bearer(daemon), JSON_TYPE, "Content-Length: 10"];
  const begun = toBytes({ method: "POST", target: TASK_POST, headers, body: "[" });
  const startedAt = performance.now();

  await Promise.all(
    ["", "GET /liv", "GET /livez HTTP/1.1\r\nHost: a\r\nX-Slow: ", begun].map(async (bytes) => {
      const slow = await openRaw(t, daemon.url);
      slow.send(bytes);
      const { response, code } = toAnswer(await slow.next());
      assert.equal(code, 40000, bytes.toString());
      assert.equal(headerOf(response, "connection"), "close");
      assert.equal((await slow.closed()).length, 0);
      assert(performance.now() - startedAt > 900);
    }),
  );

  // The time between two requests counts for neither limit.
  assert.equal((await askOn(kept, LIVEZ)).response.status, 200);
  assert.equal((await daemon.ready()).tasks_count, 0);
  assert.deepEqual(complaints(daemon), []);
});

test("limits of a request's arrival do not end a response that takes longer", async (t) => {
  const daemon = await start(t, 'header_timeout = "1s"', 'request_timeout = "1s"');
  const { tasks } = await daemon.post([{ start_at: farStart() }]);
  const waiting = await openRaw(t, daemon.url);
  const headers = [bearer(daemon), "Prefer: wait=2"];

  waiting.send(toBytes({ target: taskGet(tasks[0]?.id ?? ""), headers }));
  const startedAt = performance.now();

  assert.equal((await waiting.next()).status, 200);
  assert(performance.now() - startedAt > 1900);
  assert.equal((await askOn(waiting, LIVEZ)).response.status, 200);
});
