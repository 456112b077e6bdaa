import assert from "node:assert/strict";
import { test } from "node:test";

import type { FieldsOf } from "../../src/api/operations.ts";
import { clusterTest } from "../helpers/cluster-test.ts";
import { createTestAccount, startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { complaints } from "./answer.ts";
import { cookieLine, createOperatorSession } from "./session-requests.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const NOW = Date.parse("2026-01-31T09:00:30.000Z");

type Overview = FieldsOf<"GET /v1/stats/overview">;
type Series = FieldsOf<"GET /v1/stats/series">;
type Hosts = FieldsOf<"GET /v1/stats/hosts">;

async function read<Answer>(
  daemon: TestDaemon,
  path: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Answer> {
  const authorization = `Bearer ${daemon.account.key}`;
  // A key wins over a cookie.
  const credentials = headers["cookie"] === undefined ? { authorization } : {};
  const init = { headers: { ...credentials, ...headers } };
  const response = await fetch(`${daemon.url}/v1/stats/${path}`, init);
  assert.equal(response.status, 200, path);
  // A test that reads a missing field fails.
  return (await response.json()) as Answer;
}

const NOTHING = {
  ...{ posted: 0, completed: 0, failed: 0, delivered: 0, given_up: 0, refused: 0 },
  ...{ first_attempts: 0, first_delivered: 0, success: null },
};

const IDLE = { waiting: 0, delayed: 0, running: 0, ready: 0, retrying: 0, undelivered: 0 };

test("posts, deliveries, retries and collections are counted", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const good = await startReceiver(t);
  const bad = await startReceiver(t, {
    host: "127.0.0.2",
    reply: { kind: "status", status: 500, body: "broken" },
  });
  const daemon = await startTestDaemon(t, { clock, toml: LOOPBACK });
  const [one] = (await daemon.post([{ type: "echo", input: 1, postback_url: good.url() }])).tasks;
  const [two] = (await daemon.post([{ type: "echo", input: 2, pingback_url: bad.url() }])).tasks;
  await Promise.all([good.waitFor(1), bad.waitFor(1)]);
  await recorded(daemon, [one?.id, two?.id]);
  await daemon.call(`/v1/tasks/task_get/${one?.id}`);
  clock.advance(1000);

  const { tasks, day, attention } = await read<Overview>(daemon, "overview");
  assert.deepEqual(tasks, { ...IDLE, ready: 1, retrying: 1 });
  assert.deepEqual(day, {
    ...NOTHING,
    ...{ posted: 2, completed: 2, delivered: 1, first_attempts: 2, first_delivered: 1, success: 1 },
  });
  assert.deepEqual(
    attention.map(({ what, level }) => [what, level]),
    [["host_fails", "problem"]],
  );
  assert.match(attention[0]?.text ?? "", /127\.0\.0\.2/);

  const series = await read<Series>(daemon, "series");
  assert.equal(series.step_ms, MINUTE);
  assert.equal(series.limit_ms, 10_000);
  assert.equal(series.from, "2026-01-31T08:00:00.000Z");
  assert.equal(series.to, "2026-01-31T09:01:00.000Z");
  assert.equal(series.buckets.length, 61);
  const last = series.buckets.at(-1);
  assert.equal(last?.at, "2026-01-31T09:00:00.000Z");
  assert.equal(last.is_whole, false);
  assert.ok(
    series.buckets.slice(0, -1).every((bucket) => bucket.is_whole && bucket["posted"] === 0),
  );
  assert.deepEqual([last["posted"], last["attempts"], last["delivered"]], [2, 2, 1]);
  assert.equal(series.buckets[0]?.p50_ms, null);
  assert.ok(last.p50_ms !== null && last.p50_ms <= (last.p99_ms ?? 0));

  const { hosts, more, since } = await read<Hosts>(daemon, "hosts");
  assert.equal(more, false);
  assert.equal(since, "2026-01-30T09:00:31.000Z");
  for (const { p50_ms, p95_ms } of hosts) assert.ok(Number(p50_ms) <= Number(p95_ms));
  const none = { given_up: 0, refused: 0, retrying: 0 };
  assert.equal(hosts.length, 2);
  assert.partialDeepStrictEqual(hosts, [
    { ...none, host: "127.0.0.2", attempts: 1, succeeded: 0, success: 0, retrying: 1 },
    { ...none, host: "127.0.0.1", attempts: 1, succeeded: 1, success: 1 },
  ]);
  assert.equal(hosts[1]?.last_error, null);
  const { task_id, http_status, at } = hosts[0]?.last_error ?? {};
  assert.deepEqual([task_id, http_status, at], [two?.id, 500, "2026-01-31T09:00:30.000Z"]);
  assert.deepEqual(complaints(daemon), []);
});

const LOOPBACK = '[webhooks]\nallow = ["127.0.0.0/8"]\n';

/** Waits until an attempt of each task is recorded. */
async function recorded(daemon: TestDaemon, ids: readonly (string | undefined)[]): Promise<void> {
  for (const id of ids) await untilShown(daemon, id, /"outcome":"/);
}

async function delivered(daemon: TestDaemon, id: string | undefined): Promise<void> {
  await untilShown(daemon, id, /"outcome":"delivered"/);
}

async function untilShown(
  daemon: TestDaemon,
  id: string | undefined,
  shown: RegExp,
): Promise<void> {
  for (;;) {
    const text = await (await daemon.call(`/v1/tasks/deliveries/${id}`)).text();
    if (shown.test(text)) break;
  }
}

test("a given_up delivery needs attention until it is sent again, also a day later", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const receiver = await startReceiver(t, { reply: { kind: "status", status: 410 } });
  const toml = "[webhooks]\nretry_after = []\n";
  const daemon = await startTestDaemon(t, { clock, toml });
  const [task] = (await daemon.post({ type: "echo", input: 1, postback_url: receiver.url() }))
    .tasks;
  await receiver.waitFor(1);
  await recorded(daemon, [task?.id]);
  clock.advance(1000);
  const idle = { ...IDLE, ready: 1 };
  const { day, tasks, attention } = await read<Overview>(daemon, "overview");
  assert.deepEqual([day["given_up"], day.success], [1, 0]);
  assert.deepEqual(tasks, { ...idle, undelivered: 1 });
  assert.ok(attention.some(({ what }) => what === "undelivered"));

  clock.jump(25 * HOUR);
  const later = await read<Overview>(daemon, "overview");
  assert.deepEqual(later.day, NOTHING);
  assert.deepEqual(later.tasks, { ...idle, undelivered: 1 });
  const { hosts } = await read<Hosts>(daemon, "hosts");
  const lost = { host: "127.0.0.1", given_up: 1, refused: 0, retrying: 0 };
  assert.partialDeepStrictEqual(hosts, [{ ...lost, attempts: 0, success: null, p50_ms: null }]);

  receiver.answerNext({ kind: "status", status: 204 });
  await daemon.call(`/v1/tasks/redeliver/${task?.id}`, { method: "POST" });
  await receiver.waitFor(2);
  await delivered(daemon, task?.id);
  clock.advance(1000);
  const mended = await read<Overview>(daemon, "overview");
  assert.deepEqual([mended.tasks, mended.attention], [{ ...idle, undelivered: 0 }, []]);
  const after = await read<Hosts>(daemon, "hosts?since=2026-01-31T08:00:00Z");
  const reached = { ...lost, given_up: 0, attempts: 2, succeeded: 1 };
  assert.partialDeepStrictEqual(after.hosts, [reached]);
});

clusterTest("an account sees its own numbers only", async (t) => {
  const daemon = await startTestDaemon(t);
  const other = await createTestAccount(daemon.file, "other");
  await daemon.post([{ type: "echo", input: 1 }]);
  await daemon.daemon.idle();
  const authorization = `Bearer ${other.key}`;
  const { tasks, day } = await read<Overview>(daemon, "overview", { authorization });
  assert.deepEqual(new Set(Object.values(tasks)), new Set([0]));
  assert.equal(day.posted, 0);
  const { buckets } = await read<Series>(daemon, "series", { authorization });
  assert.ok(buckets.every(({ posted }) => posted === 0));
  assert.equal((await read<Overview>(daemon, "overview")).day.posted, 1);
});

test("an overview is at most a second old, for each account", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock });
  const other = await createTestAccount(daemon.file, "other");
  const before = await read<Overview>(daemon, "overview");
  assert.equal(before.day.posted, 0);
  await daemon.post({ type: "echo", input: 1 });
  clock.advance(999);
  assert.deepEqual(await read<Overview>(daemon, "overview"), before);
  const authorization = `Bearer ${other.key}`;
  const { time } = await read<Overview>(daemon, "overview", { authorization });
  assert.equal(time, "2026-01-31T09:00:30.999Z");
  clock.advance(1);
  assert.equal((await read<Overview>(daemon, "overview")).day.posted, 1);
});

const WORKER_TYPES = '[types.print]\nrunner = "worker"\n[types.scan]\nrunner = "worker"\n';

test("a missing worker needs attention once for each viewer", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock, toml: WORKER_TYPES });
  const other = await createTestAccount(daemon.file, "other");
  const operator = await asOperator(daemon);
  await daemon.post({ type: "print" });
  clock.advance(61_000);

  const lookers: readonly [headers: Readonly<Record<string, string>>, pattern: RegExp][] = [
    [operator, /^Tasks of type print wait.* Start /],
    [{ ...operator, "x-account": daemon.account.login }, /^Tasks of type print wait.* Start /],
    [{}, /^Tasks of type print wait.* operator to start /],
  ];
  for (const [headers, pattern] of lookers) {
    const { attention, oldest_waiting_ms } = await read<Overview>(daemon, "overview", headers);
    assert.deepEqual(
      [attention.map(({ what }) => what), oldest_waiting_ms],
      [["no_worker"], 61_000],
    );
    assert.match(attention[0]?.text ?? "", pattern);
  }
  // Its own tasks do not wait.
  const authorization = `Bearer ${other.key}`;
  assert.deepEqual((await read<Overview>(daemon, "overview", { authorization })).attention, []);
});

test("the operator sees all accounts together, or one by its name", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const toml = '[types.print]\nrunner = "worker"\n[types.echo]\nrunner = "echo"\n';
  const daemon = await startTestDaemon(t, { clock, toml });
  const other = await createTestAccount(daemon.file, "other");
  const operator = await asOperator(daemon);
  await daemon.post({ type: "echo", input: 1 });
  await daemon.post({ type: "print", input: 1 });
  const authorization = `Bearer ${other.key}`;
  const body = JSON.stringify({ type: "echo", input: 2 });
  const headers = { authorization, "content-type": "application/json" };
  await daemon.call("/v1/tasks/task_post", { method: "POST", headers, body });
  await daemon.call("/v1/access_requests", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ email: "ada@example.com" }),
  });
  await daemon.daemon.idle();
  clock.advance(1000);

  const all = await read<Overview>(daemon, "overview", operator);
  assert.partialDeepStrictEqual(all.tasks, { waiting: 1, delayed: 0, running: 0, ready: 2 });
  assert.equal(all.day.posted, 3);
  assert.deepEqual(
    all.attention.map(({ what }) => what),
    ["no_worker", "access_requests"],
  );
  assert.match(all.attention[0]?.text ?? "", /^Tasks of type print wait/);
  assert.equal((await read<Series>(daemon, "series", operator)).buckets.at(-1)?.["posted"], 3);
  const one = await read<Overview>(daemon, "overview", { ...operator, "x-account": "other" });
  assert.deepEqual([one.day.posted, one.attention], [1, []]);
  // An account does not see them.
  assert.deepEqual((await read<Overview>(daemon, "overview")).attention, []);
  assert.deepEqual(complaints(daemon), []);
});

/** The headers of an operator who has signed in. */
async function asOperator(daemon: TestDaemon): Promise<Readonly<Record<string, string>>> {
  const secret = await createOperatorSession(daemon.file, NOW);
  const cookie = cookieLine(daemon.url, secret).replace("Cookie: ", "");
  return { cookie, "sec-fetch-site": "same-origin", "x-requested-with": "postbackd" };
}
