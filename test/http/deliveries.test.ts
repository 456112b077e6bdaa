import assert from "node:assert/strict";
import { test } from "node:test";

import type { FieldsOf } from "../../src/api/operations.ts";
import { MINUTE_MS } from "../../src/domain/clock/duration.ts";
import { openBeside, startTestDaemon } from "../helpers/daemon.ts";
import type { TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { farStart } from "../helpers/far-start.ts";
import { headerOf } from "../helpers/raw-http.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { NOW, postOne } from "./account.ts";
import { ask, bearer, JSON_TYPE, type Answer } from "./answer.ts";

type ShownDelivery = FieldsOf<"GET /v1/tasks/deliveries/:id">["deliveries"][number];

function path(operation: "deliveries" | "redeliver", id: string): string {
  return `/v1/tasks/${operation}/${id}`;
}

function shown({ body }: Answer): readonly ShownDelivery[] {
  return (body as { readonly deliveries: readonly ShownDelivery[] }).deliveries;
}

async function list(daemon: TestDaemon, id: string): Promise<readonly ShownDelivery[]> {
  const answer = await ask(daemon.url, {
    target: path("deliveries", id),
    headers: [bearer(daemon)],
  });
  assert.equal(answer.code, 20000);
  return shown(answer);
}

function again(daemon: TestDaemon, id: string, body?: string): Promise<Answer> {
  const headers = body === undefined ? [bearer(daemon)] : [bearer(daemon), JSON_TYPE];
  const request = { method: "POST", target: path("redeliver", id), headers };
  return ask(daemon.url, body === undefined ? request : { ...request, body });
}

test("a delivered attempt shows every field of the contract", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const receiver = await startReceiver(t);
  const daemon = await startTestDaemon(t, { clock });
  const id = await postOne(daemon, { postback_url: `${receiver.url("/")}hook?a=1` });
  await daemon.daemon.idle();

  const [delivery, ...others] = await list(daemon, id);

  assert.deepEqual(others, []);
  assert(delivery !== undefined);
  const { attempts, ...facts } = delivery;
  assert.deepEqual(facts, {
    delivery_id: `${id}-postback`,
    kind: "postback",
    url: `${receiver.url("/")}hook?a=1`,
    state: "delivered",
    next_attempt_at: null,
  });
  const [attempt, ...more] = attempts;
  assert.deepEqual(more, []);
  const { phases, response_excerpt: excerpt, ...rest } = attempt ?? {};
  const now = "2030-01-31T09:00:00.000Z";
  assert.deepEqual(rest, {
    ...{ number: 1, due_at: now, started_at: now, ended_at: now, outcome: "delivered" },
    ...{ http_status: 204, error: null, address: "127.0.0.1", refusal: null },
  });
  assert.deepEqual(Object.keys(phases ?? {}), ["dns_ms", "connect_ms", "tls_ms", "first_byte_ms"]);
  assert.equal(typeof excerpt, "string");
});

test("redeliver starts a fresh series with the same id and a new signature", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const receiver = await startReceiver(t);
  const daemon = await startTestDaemon(t, { clock });
  const urls = {
    postback_url: `${receiver.url("/")}post`,
    pingback_url: `${receiver.url("/")}ping`,
  };
  const id = await postOne(daemon, urls);
  await daemon.daemon.idle();
  clock.advance(5000);

  const answer = await again(daemon, id, '{"kind":"postback"}');
  await daemon.daemon.idle();

  assert.deepEqual(
    shown(answer).map(({ kind }) => kind),
    ["pingback", "postback"],
  );
  const posts = receiver.requests.filter(({ method }) => method === "POST");
  assert.equal(posts.length, 2);
  assert.equal(receiver.requests.length, 3);
  const [first, second] = posts.map(({ headers, rawBody }) => ({
    headers,
    body: rawBody.toString(),
  }));
  assert.equal(second?.body, first?.body);
  assert.equal(second?.headers["webhook-id"], first?.headers["webhook-id"]);
  assert.equal(second?.headers["x-attempt"], "1");
  assert.notEqual(second?.headers["webhook-signature"], first?.headers["webhook-signature"]);
  const deliveries = await list(daemon, id);
  const numbers = deliveries.map(({ attempts }) => attempts.map(({ number }) => number));
  assert.deepEqual(numbers, [[1], [1, 1]]);
});

test("a task that is queued, cancelled or refused has no deliveries", async (t) => {
  const receiver = await startReceiver(t);
  const daemon = await startTestDaemon(t);
  const postback_url = receiver.url();
  const later = await postOne(daemon, { start_at: farStart(), postback_url });
  const cancelled = await postOne(daemon, { start_at: farStart(), postback_url });
  await daemon.call(`/v1/tasks/task_cancel/${cancelled}`, { method: "POST" });
  const refused = await postOne(daemon, { colour: "red", postback_url });

  for (const id of [later, cancelled, refused]) {
    assert.deepEqual(await list(daemon, id), []);
    assert.deepEqual(shown(await again(daemon, id)), []);
    assert.equal((await again(daemon, id, '{"kind":"postback"}')).code, 40501);
  }
  await daemon.daemon.idle();

  assert.equal(receiver.requests.length, 0);
});

test("a task is redelivered thirty times a minute at most", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const receiver = await startReceiver(t);
  const daemon = await startTestDaemon(t, { clock });
  const id = await postOne(daemon, { postback_url: receiver.url("/") });
  const other = await postOne(daemon, { postback_url: receiver.url("/") });
  await daemon.daemon.idle();

  for (let i = 0; i < 30; i++) assert.equal((await again(daemon, id)).code, 20000);
  const refused = await again(daemon, id);

  assert.equal(refused.code, 42900);
  assert.equal(headerOf(refused.response, "retry-after"), "60");
  assert.equal((await again(daemon, other)).code, 20000);
  clock.advance(MINUTE_MS);
  assert.equal((await again(daemon, id)).code, 20000);
});

test("the audit notes a hundred redeliveries of an account an hour, and all of them are sent", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const receiver = await startReceiver(t);
  const daemon = await startTestDaemon(t, { clock });
  const ids = [];
  for (let i = 0; i < 4; i++) ids.push(await postOne(daemon, { postback_url: receiver.url("/") }));
  await daemon.daemon.idle();
  const noted = async (): Promise<number> => {
    const beside = await openBeside(t, daemon);
    const query = {
      since: null,
      action: "delivery.redelivered",
      limit: 999,
      before: null,
    } as const;
    return (await beside.listAudit(query)).length;
  };

  for (let i = 0; i < 28; i++) {
    for (const id of ids) assert.equal((await again(daemon, id)).code, 20000);
    await daemon.daemon.idle();
  }

  assert.equal(await noted(), 100);
  assert.equal(receiver.requests.length, 4 * 29);
  clock.advance(60 * MINUTE_MS);
  await again(daemon, ids[0] ?? "");
  assert.equal(await noted(), 101);
});

test("an account at its limit of bytes redelivers nothing", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const receiver = await startReceiver(t);
  const daemon = await startTestDaemon(t, { clock });
  const id = await postOne(daemon, { postback_url: receiver.url("/") });
  await daemon.daemon.idle();
  const beside = await openBeside(t, daemon);
  const allow = (bytes: number | null) =>
    beside.changeLimits({ login: "tester", limits: { bytes } });

  await allow(600);
  const refused = await again(daemon, id);

  assert.equal(refused.code, 50700);
  assert.match(refused.body.errors?.[0]?.detail ?? "", /600 bytes.* --bytes SIZE/);
  await daemon.daemon.idle();
  assert.equal(receiver.requests.length, 1);
  await allow(null);
  assert.equal((await again(daemon, id)).code, 20000);
});

type ShownPage = FieldsOf<"GET /v1/tasks/attempts">;

async function attemptsFrom(daemon: TestDaemon, cursor: string | null): Promise<ShownPage> {
  const from = cursor === null ? "" : `?cursor=${cursor}`;
  const target = `/v1/tasks/attempts${from}`;
  const answer = await ask(daemon.url, { target, headers: [bearer(daemon)] });
  assert.equal(answer.code, 20000);
  // As above.
  return answer.body as ShownPage;
}

test("attempts of all tasks are listed from a cursor, a scheduled one again after its start", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const receiver = await startReceiver(t, { reply: { kind: "status", status: 500 } });
  const daemon = await startTestDaemon(t, { clock });
  const begin = await attemptsFrom(daemon, null);
  const id = await postOne(daemon, { tag: "x", postback_url: receiver.url("/") });
  await daemon.daemon.idle();

  const page = await attemptsFrom(daemon, begin.next_cursor);
  const scheduled = await attemptsFrom(daemon, null);
  clock.advance(MINUTE_MS);
  await receiver.waitFor(2);
  await daemon.daemon.idle();
  const again = await attemptsFrom(daemon, String(page.attempts[1]?.["cursor"]));

  const task = { task_id: id, type: "echo", tag: "x", kind: "postback" };
  const times = { due_at: new Date(NOW).toISOString(), started_at: new Date(NOW).toISOString() };
  assert.deepEqual(page.attempts[0], { ...task, number: 1, ...times, cursor: null });
  assert.deepEqual(
    page.attempts.slice(1).map(({ number, started_at }) => [number, started_at]),
    [[2, null]],
  );
  assert.deepEqual(
    [begin.attempts, scheduled.attempts.map(({ number }) => number), page.more],
    [[], [2], false],
  );
  const [second] = again.attempts;
  assert.deepEqual(
    [second?.["number"], second?.["started_at"], second?.["cursor"]],
    [2, new Date(NOW + MINUTE_MS).toISOString(), null],
  );
});
