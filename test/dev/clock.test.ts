import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { systemClock } from "../../src/domain/clock/clock.ts";
import { DAY_MS } from "../../src/domain/clock/duration.ts";
import { temporaryFolder } from "../helpers/program.ts";
import { createGate, startReceiver } from "../helpers/receiver.ts";
import { ask as askRaw } from "../http/answer.ts";
import { FROM_PAGE, LINK, cookieLine, pagePost, signedIn } from "../http/session-requests.ts";
import { type DevClient, startDev, startDevProgram } from "./dev-client.ts";

const FAILING = { reply: { kind: "status", status: 500 } } as const;

test("an advance into the past is 40501, one without exactly one destination 40000", async (t) => {
  const { call, ask } = await startDev(t);
  const { now = "" } = await ask("GET /dev/clock");

  const past = new Date(Date.parse(now) - 1).toISOString();
  for (const [code, ...bodies] of [
    [40000, {}, { by: "1s", to: now }, { by: "1s", until: "idle" }],
    [40501, { to: past }, { by: "1" }, { by: "-1s" }, { until: "then" }, { to: "then" }],
  ] as const) {
    for (const body of bodies)
      assert.equal((await call("POST /dev/clock/advance", body)).code, code, JSON.stringify(body));
  }
  assert.equal((await ask("GET /dev/clock")).now, now);
});

test("start_at, retention and the end of the queue fall due when the clock passes them", async (t) => {
  const types = { echo: { runner: "echo" }, thumb: { runner: "worker" } } as const;
  const config = { retention_days: 2, limits: { queue_days: 1 } };
  const { advance, ask, call, post, task } = await startDev(t, { types, config });
  const { now = "" } = await ask("GET /dev/clock");
  const startAt = new Date(Date.parse(now) + 3600_000).toISOString();
  const [delayed = "", queued = ""] = await post(
    { type: "echo", start_at: startAt },
    { type: "thumb" },
  );

  await advance("59m");
  assert.equal((await task(delayed)).state, "queued");
  await advance("1m");
  assert.equal((await task(delayed)).state, "completed");
  await advance("24h");
  assert.equal((await task(queued)).status_code, 50402);
  await advance("2d");
  assert.ok([40401, 40403].includes((await call(`GET /v1/tasks/task_get/${delayed}`)).code));
});

test("an advance returns an event for each erased task, in the order of their end of retention", async (t) => {
  const { advance, ask, post, task } = await startDev(t);
  const postAndEnd = async () => {
    const [id = ""] = await post({});
    await ask(`GET /dev/wait/${id}?for=ended`);
    return { at: (await task(id)).expires_at, task_id: id, event: "task_erased" };
  };
  const first = await postAndEnd();
  await advance("1h");
  const second = await postAndEnd();

  const events = await advance("31d");

  const erased = events.filter(({ event }) => event === "task_erased");
  assert.deepEqual(erased, [first, second]);
});

test("a lease without heartbeats ends, and its task is claimed again", async (t) => {
  const file = join(temporaryFolder(t), "postbackd.toml");
  writeFileSync(file, '[types.thumb]\nrunner = "worker"\nlease = "30s"\n');
  const { advance, post, ready } = await startDevProgram(t, "--config", file);
  await post({});
  const claim = async (): Promise<number> => {
    const authorization = `Bearer ${ready.worker_token}`;
    const response = await fetch(`${ready.url}/v1/worker/claim`, {
      method: "POST",
      headers: { authorization, "content-type": "application/json" },
      body: JSON.stringify({ types: ["thumb"], max: 1 }),
    });
    return ((await response.json()) as { tasks_count: number }).tasks_count;
  };

  assert.equal(await claim(), 1);
  const events = await advance("31s");
  assert.ok(events.some(({ event }) => event === "lease_ended"));
  assert.equal(await claim(), 1);
});

test("an advance until idle uses all retries and erases no result", async (t) => {
  const receiver = await startReceiver(t, FAILING);
  const { ask, post, task } = await startDev(t);
  const [id = ""] = await post({ postback_url: receiver.url("/a") });
  const { now: before = "" } = await ask("GET /dev/clock");

  const { now = "" } = await ask("POST /dev/clock/advance", { until: "idle" });

  assert.equal((await ask(`GET /dev/wait/${id}`)).deliveries?.[0]?.state, "given_up");
  assert.equal((await task(id)).state, "completed");
  assert.ok(Date.parse(now) - Date.parse(before) < 30 * DAY_MS);
});

test("an advance until idle is 40800 while something is due after more than 60 days", async (t) => {
  const { ask, call, post, task } = await startDev(t);
  const { now = "" } = await ask("GET /dev/clock");
  const start_at = new Date(Date.parse(now) + 61 * DAY_MS).toISOString();
  const [id = ""] = await post({ start_at });

  const { code, detail } = await call("POST /dev/clock/advance", { until: "idle" });
  assert.equal(code, 40800);
  assert.ok(detail.includes("task_start") && detail.includes(start_at), detail);
  assert.equal((await task(id)).state, "queued");

  await ask("POST /dev/clock/advance", { until: "idle" });
  assert.equal((await task(id)).state, "completed");
});

test("an advance names the run that it waits for in vain", async (t) => {
  const { setTimer } = systemClock;
  // The 30 s that an advance waits, by the machine's time.
  t.mock.method(systemClock, "setTimer", (ms: number, call: () => void) =>
    setTimer(ms === 30_000 ? 500 : ms, call),
  );
  const { ask, call, post } = await startDev(t, { types: { slow: () => new Promise(() => {}) } });
  const [id = ""] = await post({});
  const { now } = await ask("GET /dev/clock");

  const { code, detail } = await call("POST /dev/clock/advance", { by: "1h" });

  assert.equal(code, 40800);
  assert.ok(detail.includes(`${id} (slow)`), detail);
  assert.equal((await ask("GET /dev/clock")).now, now);
});

test("an advance ends when its client disconnects, and the next advance does not wait for it", async (t) => {
  const answers = createGate();
  const receiver = await startReceiver(t, FAILING);
  const { ask, call, post } = await startDev(t);
  await post({ postback_url: receiver.url("/a") });
  await ask("POST /dev/clock/advance", { by: "1ms" });
  receiver.answer({ kind: "held", until: answers.opened, reply: FAILING.reply });
  const { next: [retry] = [] } = await ask("GET /dev/clock");
  const left = new AbortController();
  const gone = call("POST /dev/clock/advance", { by: "1h" }, left.signal);
  // The clock has come to the retry, and waits for its response.
  await receiver.waitFor(2);

  left.abort();
  await assert.rejects(gone);
  // The daemon has read the end of the first connection before it responds here.
  const { now } = await ask("GET /dev/clock");
  answers.open();
  const { now: then, events = [] } = await ask("POST /dev/clock/advance", { by: "1ms" });
  const { next: [third] = [] } = await ask("GET /dev/clock");

  assert.equal(now, retry?.at);
  assert.equal(Date.parse(then ?? "") - Date.parse(now ?? ""), 1);
  assert.equal(receiver.requests.length, 2);
  const shown = events.map(({ event, attempt }) => [event, attempt]);
  assert.deepEqual(shown, [["attempt_ended", 2]]);
  assert.equal(third?.what, "attempt");
  assert.ok(Date.parse(third.at) > Date.parse(now ?? ""));
});

test("a running clock is advanced too, and goes on", async (t) => {
  const receiver = await startReceiver(t, FAILING);
  const { ask, post } = await startDev(t, { clock: "real" });
  await post({ postback_url: receiver.url("/a") });
  await receiver.waitFor(1);

  const { now = "" } = await ask("POST /dev/clock/advance", { by: "21m" });

  assert.equal(receiver.requests.length, 4);
  const shown = await ask("GET /dev/clock");
  assert.equal(shown.mode, "real");
  assert.ok(Date.parse(shown.now ?? "") >= Date.parse(now));
});

test("a clock that stands still delays neither a wait for a task nor the live feed", async (t) => {
  const { ask, call, post, ready } = await startDevProgram(t);
  const headers = { authorization: `Bearer ${ready.key}` };
  const stream = await fetch(`${ready.url}/v1/events`, { headers });
  const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader() ?? assert.fail();
  let text = "";
  const until = async (wanted: string): Promise<void> => {
    while (!text.includes(wanted)) text += (await reader.read()).value ?? assert.fail(text);
  };
  const { now = "" } = await ask("GET /dev/clock");
  const start_at = new Date(Date.parse(now) + DAY_MS).toISOString();
  const [id = ""] = await post({ start_at });
  const waited = await fetch(`${ready.url}/v1/tasks/task_get/${id}`, {
    headers: { ...headers, prefer: "wait=1" },
  });
  await until('"delayed":1');
  await call(`POST /v1/tasks/task_cancel/${id}`);
  await until('"delayed":0');
  await reader.cancel();

  assert.equal(waited.status, 200);
});

/** The next due work, each with its milliseconds from now, without erasures. */
async function due({ ask }: DevClient): Promise<readonly (readonly unknown[])[]> {
  const { now = "", next = [] } = await ask("GET /dev/clock");
  return next
    .filter(({ what }) => what !== "erasure")
    .map(({ at, what, task_id: id, kind }) => [Date.parse(at) - Date.parse(now), what, id, kind]);
}

test("a run that a rule holds or delays is due at its end and its timeout", async (t) => {
  const daemon = await startDev(t);
  const { advance, ask, post } = daemon;
  await ask("PUT /dev/results", [{ tag: "late", result: 1, after_ms: 5000 }, { hold: true }]);
  const [late = "", held = ""] = await post({ tag: "late" }, { tag: "held" });
  await advance("1s");

  assert.deepEqual(await due(daemon), [
    [4000, "run_end", late, null],
    [599_000, "run_timeout", late, null],
    [599_000, "run_timeout", held, null],
  ]);
  await advance("4s");
  await ask(`POST /dev/tasks/${held}/finish`, { result: 2 });
  assert.deepEqual(await due(daemon), []);
});

test("a late response of an inbox is due, and the timeout of its attempt", async (t) => {
  const daemon = await startDev(t);
  const { advance, ask, look, post } = daemon;
  const answers = [{ status: 200, after_ms: 3000 }];
  await ask("PUT /dev/inbox/shop/answers", { answers, then: "hang" });
  const gone = new AbortController();
  t.after(() => gone.abort());
  const url = `${daemon.ready.url}/inbox/shop`;
  const [id = ""] = await post({ postback_url: url });
  await look("shop?wait=60");
  await advance("1s");

  assert.deepEqual(await due(daemon), [
    [2000, "inbox_answer", id, "postback"],
    [9000, "attempt_timeout", id, "postback"],
  ]);
  await advance("2s");
  assert.deepEqual(await due(daemon), []);

  await ask("PUT /dev/inbox/shop/answers", { then: { status: 200, after_ms: 500 } });
  const answered = fetch(url, { signal: gone.signal });
  await look("shop?count=2&wait=60");
  assert.deepEqual(await due(daemon), [[500, "inbox_answer", null, null]]);
  await advance("500ms");
  assert.equal((await answered).status, 200);
});

test("an attempt that a fault delays is due when it is sent", async (t) => {
  const receiver = await startReceiver(t);
  const daemon = await startDev(t);
  const { advance, ask, post } = daemon;
  await ask("PUT /dev/faults", { delay_ms: 2000 });
  const [id = ""] = await post({ postback_url: receiver.url("/a") });
  await advance("500ms");

  assert.deepEqual(await due(daemon), [[1500, "attempt", id, "postback"]]);
  await advance("1499ms");
  assert.equal(receiver.requests.length, 0);
  await advance("1ms");
  assert.deepEqual(await due(daemon), []);
  assert.equal(receiver.requests.length, 1);
});

async function newToken({ ask }: DevClient): Promise<string> {
  return (await ask("POST /dev/sign_in_link")).token ?? assert.fail();
}

test("a session ends, and a sign-in link expires, by the daemon's clock", async (t) => {
  const daemon = await startDevProgram(t);
  const { url } = daemon.ready;
  const { secret } = await signedIn(url, pagePost(LINK, { token: await newToken(daemon) }));
  const look = { target: "/v1/stats/overview", headers: [...FROM_PAGE, cookieLine(url, secret)] };
  const token = await newToken(daemon);
  assert.equal((await askRaw(url, look)).code, 20000);

  await daemon.advance("30m");
  assert.equal((await askRaw(url, pagePost(LINK, { token }))).code, 40100);
  assert.equal((await askRaw(url, look)).code, 40100);
});

test("a client that sent too many requests may send again by the daemon's clock", async (t) => {
  const limits = { requests_per_minute: 3, access_requests_per_hour: 2 };
  const { advance, ask, call } = await startDev(t, { config: { limits } });
  const wish = { email: "ada@example.com" };
  const codes = async () => [
    (await call("GET /v1/tasks")).code,
    (await call("POST /v1/access_requests", wish)).code,
  ];

  for (let sent = 0; sent < 3; sent++) await ask("GET /v1/tasks");
  for (let sent = 0; sent < 2; sent++) await ask("POST /v1/access_requests", wish);
  assert.deepEqual(await codes(), [42900, 42900]);
  await advance("1m");
  assert.deepEqual(await codes(), [20000, 42900]);
  await advance("1h");
  assert.deepEqual(await codes(), [20000, 20000]);
});
