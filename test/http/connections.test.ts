import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { MINUTE_MS } from "../../src/domain/clock/duration.ts";
import { ProxyWatch, toProxyPolicy } from "../../src/http/guard/client.ts";
import { startTestDaemon, createTestAccount } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
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
import { askAsWorker, workerPost } from "./worker-requests.ts";

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

test("a claim without a place to wait is 42900 if the queue is empty", async (t) => {
  const waiting = Promise.withResolvers<void>();
  const come = Promise.withResolvers<[]>();
  t.after(() => come.resolve([]));
  const waits: number[] = [];
  const ring = await startRing(t, {
    // A quarter of them may wait.
    limits: { connections: 4 },
    desk: {
      claim({ waitMs }) {
        waits.push(waitMs);
        if (waitMs === 0) return Promise.resolve([]);
        waiting.resolve();
        return come.promise;
      },
    },
  });
  const body = { types: ["print"], wait_seconds: 30 };
  const first = await openRaw(t, ring.url);
  first.send(toBytes(workerPost(ring, { operation: "claim", body })));
  await waiting.promise;

  const { code, response, body: refused } = await askAsWorker(ring, "claim", body);
  assert.deepEqual([code, headerOf(response, "retry-after")], [42900, "5"]);
  assert.match(refused.errors?.[0]?.detail ?? "", /limits\.connections/);
  assert.equal((await askAsWorker(ring, "claim", { types: ["print"] })).code, 20000);
  assert.deepEqual(waits, [30_000, 0, 0]);

  come.resolve([]);
  assert.equal(toAnswer(await first.next()).code, 20000);
});

test("an account may wait on half of the connections of its address", async (t) => {
  // An address may have 256 connections.
  const daemon = await startTestDaemon(t, { toml: "[limits]\nconnections = 1024\n" });
  const other = { account: await createTestAccount(daemon.file, "other") };
  const { tasks } = await daemon.post([{ start_at: farStart() }]);
  const headers = [bearer(daemon), "Prefer: wait=60"];
  const wait = toBytes({ target: taskGet(tasks[0]?.id ?? ""), headers });
  let refused = 0;
  const half = Promise.withResolvers<void>();
  for (let i = 0; i < 256; i++) {
    const connection = await openRaw(t, daemon.url);
    connection.send(wait);
    connection.next().then(({ status }) => {
      // Those that wait end with the daemon.
      if (status === 429) refused += 1;
      if (refused === 128) half.resolve();
    }, half.reject);
  }
  await half.promise;

  assert.equal(await codeOf(daemon.url, { target: TASKS_READY, headers: [bearer(other)] }), 20000);
  assert.equal(refused, 128);
});

// The tests come from this machine: they are the proxy.
const TRUSTING = 'trusted_proxies = ["127.0.0.1"]\n';

test("refused credentials count for the address that a trusted proxy forwards, of IPv6 for its /64", async (t) => {
  const toml = `${TRUSTING}[limits]\nfailed_authentications_per_minute = 2\n`;
  const daemon = await startTestDaemon(t, { toml });
  for (const [client, code] of [
    ["2001:db8::1", 40100],
    ["2001:db8::1", 40100],
    ["2001:db8::1", 42900],
    ["[2001:db8::ffff]:1234", 42900],
    ["2001:db8:0:1::1", 40100],
    ["203.0.113.7", 40100],
  ] as const) {
    const forwarded = `X-Forwarded-For: 198.51.100.9, ${client}`;
    const headers = ["Authorization: Bearer wrong", forwarded];
    const answer = await ask(daemon.url, { target: TASKS_READY, headers });
    assert.equal(answer.code, code, client);
    if (code !== 42900) continue;
    assert.match(headerOf(answer.response, "retry-after") ?? "", /^([1-9]|[1-5]\d|60)$/);
  }
});

function startWatch() {
  const clock = createFakeClock();
  const watch = new ProxyWatch(clock);
  const given = { trustedProxies: ["10.0.0.1"], servesTls: false, insecureHttp: true };
  const policy = toProxyPolicy(given);
  const forwardedFrom = (remoteAddress: string, thenMs: number): void => {
    const rawHeaders = ["X-Forwarded-For", "203.0.113.7"];
    watch.look({ rawHeaders, socket: { remoteAddress } }, policy);
    clock.advance(thenMs);
  };
  return { clock, watch, forwardedFrom };
}

test("a peer that forwards for a minute is an untrusted proxy until an hour after its last request", () => {
  const { clock, watch, forwardedFrom } = startWatch();
  for (let i = 0; i <= 12; i++) {
    assert.equal(watch.address(), null);
    forwardedFrom("192.0.2.1", 5000);
  }

  assert.equal(watch.address(), "192.0.2.1");
  clock.advance(60 * MINUTE_MS - 5000);
  assert.equal(watch.address(), "192.0.2.1");
  clock.advance(1);
  assert.equal(watch.address(), null);
});

test("peers that forward once, or again after half an hour, are not proxies", () => {
  const { watch, forwardedFrom } = startWatch();
  forwardedFrom("192.0.2.1", MINUTE_MS);
  forwardedFrom("192.0.2.2", 29 * MINUTE_MS);
  forwardedFrom("192.0.2.1", 1000);
  for (let i = 1; i <= 200; i++) forwardedFrom(`198.51.100.${i}`, 1000);

  assert.equal(watch.address(), null);
});

test("one of two alternating proxies is found among other peers", () => {
  const { watch, forwardedFrom } = startWatch();
  for (let i = 0; i < 40; i++) {
    for (const address of ["192.0.2.1", `198.51.100.${i}`, "192.0.2.2", "10.0.0.1"]) {
      forwardedFrom(address, 1000);
    }
  }

  assert.match(watch.address() ?? "", /^192\.0\.2\.[12]$/);
});
