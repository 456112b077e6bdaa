import assert from "node:assert/strict";
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";

import { DAY_MS } from "../../src/domain/clock/duration.ts";
import { runProgram, startProgram, temporaryFolder } from "../helpers/program.ts";
import { createGate, startReceiver } from "../helpers/receiver.ts";
import { startDev } from "./dev-client.ts";

test("an advance into the past is 40501, of two destinations or none 40000", async (t) => {
  const { call, ask } = await startDev(t);
  const { now = "" } = await ask("GET /dev/clock");

  const past = new Date(Date.parse(now) - 1).toISOString();
  assert.equal((await call("POST /dev/clock/advance", { to: past })).code, 40501);
  for (const body of [{}, { by: "1s", to: now }, { by: "1s", until: "idle" }]) {
    assert.equal((await call("POST /dev/clock/advance", body)).code, 40000);
  }
  for (const body of [{ by: "1" }, { by: "-1s" }, { until: "then" }, { to: "then" }]) {
    assert.equal((await call("POST /dev/clock/advance", body)).code, 40501);
  }
  assert.equal((await ask("GET /dev/clock")).now, now);
});

test("a receiver that fails for 21 minutes has seen four attempts", async (t) => {
  const receiver = await startReceiver(t, { reply: { kind: "status", status: 500 } });
  const { ask, post } = await startDev(t);
  const [id = ""] = await post({ postback_url: receiver.url("/a") });

  const { events } = await ask("POST /dev/clock/advance", { by: "21m" });

  assert.equal(receiver.requests.length, 4);
  const numbers = receiver.requests.map(({ headers }) => headers["x-attempt"]);
  assert.deepEqual(numbers, ["1", "2", "3", "4"]);
  const ended = events?.filter(({ event }) => event === "attempt_ended") ?? [];
  assert.ok(ended.every((each) => each.task_id === id && each.outcome === "failed"));
});

test("nothing is retried while the clock stands still", async (t) => {
  const receiver = await startReceiver(t, { reply: { kind: "status", status: 500 } });
  const { ask, post } = await startDev(t);
  await post({ postback_url: receiver.url("/a") });
  await receiver.waitFor(1);

  const { now } = await ask("POST /dev/clock/advance", { by: "1ms" });
  const { next } = await ask("GET /dev/clock");

  assert.equal(receiver.requests.length, 1);
  assert.equal(next?.[0]?.what, "attempt");
  assert.equal((await ask("GET /dev/clock")).now, now);
});

test("start_at, retention and the end of the queue fall due as the clock passes them", async (t) => {
  const file = join(temporaryFolder(t), "postbackd.toml");
  writeFileSync(file, '[types.echo]\nrunner = "echo"\n[types.thumb]\nrunner = "worker"\n');
  const { ask, call, post, task } = await startDev(t, "--config", file);
  const { now = "" } = await ask("GET /dev/clock");
  const startAt = new Date(Date.parse(now) + 3600_000).toISOString();
  const [delayed = "", queued = ""] = await post(
    { type: "echo", start_at: startAt },
    { type: "thumb" },
  );

  await ask("POST /dev/clock/advance", { by: "59m" });
  assert.equal((await task(delayed)).state, "queued");
  await ask("POST /dev/clock/advance", { by: "1m" });
  assert.equal((await task(delayed)).state, "completed");
  await ask("POST /dev/clock/advance", { by: "31d" });
  assert.equal((await task(queued)).status_code, 50402);
  assert.ok([40401, 40403].includes((await call(`GET /v1/tasks/task_get/${delayed}`)).code));
});

test("an advance tells of each task that is erased, in the order in which they were due", async (t) => {
  const { ask, post, task } = await startDev(t);
  const keptUntil = async (id: string) => {
    await ask(`GET /dev/wait/${id}?for=ended`);
    return (await task(id)).expires_at;
  };
  const [first = ""] = await post({});
  const firstEnd = await keptUntil(first);
  await ask("POST /dev/clock/advance", { by: "1h" });
  const [second = ""] = await post({});
  const secondEnd = await keptUntil(second);

  const { events = [] } = await ask("POST /dev/clock/advance", { by: "31d" });

  assert.deepEqual(
    events.filter(({ event }) => event === "task_erased"),
    [
      { at: firstEnd, task_id: first, event: "task_erased" },
      { at: secondEnd, task_id: second, event: "task_erased" },
    ],
  );
});

test("a lease that nobody extends ends, and its task is claimed again", async (t) => {
  const file = join(temporaryFolder(t), "postbackd.toml");
  writeFileSync(file, '[types.thumb]\nrunner = "worker"\nlease = "30s"\n');
  const { ask, post, ready } = await startDev(t, "--config", file);
  await post({});
  const claim = async (): Promise<number> => {
    const response = await fetch(`${ready.url}/v1/worker/claim`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${ready.worker_token}`,
        "content-type": "application/json",
      },
      body: JSON.stringify({ types: ["thumb"], max: 1 }),
    });
    return ((await response.json()) as { tasks_count: number }).tasks_count;
  };

  assert.equal(await claim(), 1);
  const { events } = await ask("POST /dev/clock/advance", { by: "31s" });
  assert.ok(
    events?.some(({ event }) => event === "lease_ended"),
    JSON.stringify(events),
  );
  assert.equal(await claim(), 1);
});

test("idle is when nothing is scheduled: all retries are used, and no result is erased", async (t) => {
  const receiver = await startReceiver(t, { reply: { kind: "status", status: 500 } });
  const { ask, post, task } = await startDev(t);
  const [id = ""] = await post({ postback_url: receiver.url("/a") });
  const { now: before = "" } = await ask("GET /dev/clock");

  const { now = "" } = await ask("POST /dev/clock/advance", { until: "idle" });

  assert.equal((await ask(`GET /dev/wait/${id}`)).deliveries?.[0]?.state, "given_up");
  assert.equal((await task(id)).state, "completed");
  assert.ok(Date.parse(now) - Date.parse(before) < 30 * DAY_MS);
});

// It takes the 30 s of the machine's time that an advance waits.
test("an advance until idle is 40800 when something is still due after 60 days", async (t) => {
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

test("a run that does not end is named after 30 s", async (t) => {
  const file = join(temporaryFolder(t), "postbackd.toml");
  writeFileSync(file, `[types.slow]\ncommand = ["sleep", "600"]\n`);
  const { ask, call, post } = await startDev(t, "--config", file);
  const [id = ""] = await post({});
  const { now } = await ask("GET /dev/clock");

  const { code, detail } = await call("POST /dev/clock/advance", { by: "1h" });

  assert.equal(code, 40800);
  assert.ok(detail.includes(`the run of task ${id} (slow)`), detail);
  assert.equal((await ask("GET /dev/clock")).now, now);
});

test("an advance whose client leaves goes no further, and the next one does not wait for it", async (t) => {
  const answers = createGate();
  const receiver = await startReceiver(t, { reply: { kind: "status", status: 500 } });
  const { ask, call, post } = await startDev(t);
  await post({ postback_url: receiver.url("/a") });
  await ask("POST /dev/clock/advance", { by: "1ms" });
  const late = { kind: "status", status: 500 } as const;
  receiver.answer({ kind: "held", until: answers.opened, reply: late });
  const { next: [retry] = [] } = await ask("GET /dev/clock");
  const left = new AbortController();
  const gone = call("POST /dev/clock/advance", { by: "1h" }, left.signal);
  // The clock has come to the retry, and waits for its answer.
  await receiver.waitFor(2);

  left.abort();
  await assert.rejects(gone);
  // By its answer the daemon has heard that the other client is gone.
  const { now } = await ask("GET /dev/clock");
  answers.open();
  const { now: then, events = [] } = await ask("POST /dev/clock/advance", { by: "1ms" });
  const { next: [third] = [] } = await ask("GET /dev/clock");

  assert.equal(now, retry?.at);
  assert.equal(Date.parse(then ?? "") - Date.parse(now ?? ""), 1);
  assert.equal(receiver.requests.length, 2);
  assert.deepEqual(
    events.map(({ event, attempt }) => [event, attempt]),
    [["attempt_ended", 2]],
  );
  assert.equal(third?.what, "attempt");
  assert.ok(Date.parse(third.at) > Date.parse(now ?? ""));
});

test("a clock that goes by itself is advanced as well, and goes on", async (t) => {
  const receiver = await startReceiver(t, { reply: { kind: "status", status: 500 } });
  const { ask, post } = await startDev(t, "--clock", "real");
  await post({ postback_url: receiver.url("/a") });
  await receiver.waitFor(1);

  const { now = "" } = await ask("POST /dev/clock/advance", { by: "21m" });

  assert.equal(receiver.requests.length, 4);
  const shown = await ask("GET /dev/clock");
  assert.equal(shown.mode, "real");
  assert.ok(Date.parse(shown.now ?? "") >= Date.parse(now));
});

test("the ready line says what a test needs, and every answer what it comes from", async (t) => {
  const { ready } = await startDev(t);
  const response = await fetch(`${ready.url}/readyz`);

  assert.equal(response.headers.get("x-postbackd-mode"), "dev");
  assert.deepEqual(
    [ready.event, ready.mode, ready.account, ready.worker_token],
    ["ready", "dev", "dev", null],
  );
  assert.match(ready.key, /^pbd_live_/);
  assert.match(ready.webhook_secret, /^whsec_/);
  assert.equal(ready.inbox_url, `${ready.url}/inbox/dev`);
  assert.ok(ready.dashboard_url?.startsWith(ready.url));
});

for (const signal of ["SIGTERM", "SIGKILL"] as const) {
  test(`after ${signal} nothing is left in the temporary folder`, async (t) => {
    const folder = temporaryFolder(t);
    const program = startProgram(t, ["dev", "--port", "0"], { env: { TMPDIR: folder } });
    const { db } = await program.ready;
    assert.ok(existsSync(db) && dirname(dirname(db)) === folder);

    program.kill(signal);
    await program.exit;

    // The watcher is a process of its own, that ends when the other has.
    const isThere = (): boolean =>
      readdirSync(folder).some((name) => name.startsWith("postbackd-"));
    for (let turns = 0; turns < 500 && isThere(); turns++) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    assert.ok(!isThere());
  });
}

test("with --stop-with-stdin it ends with whoever started it", async (t) => {
  // The helper starts programs with an stdin that is at its end.
  const program = startProgram(t, ["dev", "--port", "0", "--stop-with-stdin"]);
  await program.ready;

  assert.deepEqual(await program.exit, { code: 0, signal: null });
});

test("a database on a server is refused: it is nobody's to throw away", async (t) => {
  const { code, stderr } = await runProgram(t, ["dev", "--db", "postgres://u:p@localhost:5432/x"]);

  assert.notEqual(code, 0);
  assert.ok(stderr.includes("--db must be a file"), stderr);
});
