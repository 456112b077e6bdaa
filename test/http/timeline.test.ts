import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { FieldsOf } from "../../src/api/operations.ts";
import { clusterTest } from "../helpers/cluster-test.ts";
import { createTestAccount, startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { farStart } from "../helpers/far-start.ts";
import { startReceiver, type ReceivedRequest } from "../helpers/receiver.ts";
import { newTaskId } from "../helpers/store.ts";
import { postOne } from "./account.ts";
import { ask, complaints } from "./answer.ts";
import { asked, byKey, byOperator, type Asker } from "./task-requests.ts";

type Header = readonly [name: string, value: string];

type Timeline = FieldsOf<"GET /v1/tasks/timeline/:id">;

function timelineOf(daemon: TestDaemon, id: string, who: Asker = byKey(daemon)): Promise<Timeline> {
  return asked(daemon, { target: `/v1/tasks/timeline/${id}`, headers: who });
}

/** The shown headers are the received headers. */
function assertReceived(request: ReceivedRequest, shown: readonly Header[]): void {
  const { rawHeaders } = request;
  const received = rawHeaders.flatMap((name, i) =>
    i % 2 === 0 && name !== "Connection" ? [`${name}: ${rawHeaders[i + 1]}`] : [],
  );
  assert.deepEqual(shown.map(([name, value]) => `${name}: ${value}`).sort(), received.sort());
}

async function startPair(t: TestContext, toml = "") {
  const receiver = await startReceiver(t);
  const daemon = await startTestDaemon(t, { toml });
  return { receiver, daemon };
}

clusterTest(
  "the request of each attempt is shown as its receiver got it, byte for byte",
  async (t) => {
    const { receiver, daemon } = await startPair(t);
    const url = receiver.url("/hook?x=%C3%A9");
    const input = { text: "é😀", secret: '"\\' };
    const id = await postOne(daemon, { input, postback_url: url, pingback_url: url, tag: "t" });
    await daemon.daemon.idle();
    await daemon.call(`/v1/tasks/redeliver/${id}`, { method: "POST" });
    await daemon.daemon.idle();

    const { deliveries, explanation, task } = await timelineOf(daemon, id);
    assert.equal(explanation, null);
    assert.deepEqual([task["ready"], task["login"], task["error"]], [true, "tester", null]);
    assert.equal(task["input_bytes"], Buffer.byteLength(JSON.stringify(input)));
    assert.equal(deliveries.length, 2);
    for (const { kind, request, attempts } of deliveries) {
      const method = kind === "postback" ? "POST" : "GET";
      const requests = receiver.requests.filter((each) => each.method === method);
      assert.equal(requests.length, 2);
      assert.equal(attempts.length, 2);
      for (const [index, received] of requests.entries()) {
        assert.deepEqual([request.method, request.target], [received.method, received.url]);
        assert.equal(request.body.text, received.rawBody.toString());
        assert.equal(request.body.bytes, received.rawBody.length);
        assert.equal(request.signature, received.headers["x-signature"]);
        const { request_headers = [] } = attempts[index] ?? {};
        assertReceived(received, [...request.headers, ...request_headers]);
      }
      assert.equal(request.message, kind === "postback" ? "body" : url);
      assert.equal(request.signature_next, null);
    }
    const text = await (await daemon.call(`/v1/tasks/task_get/${id}?collect=false`)).text();
    assert.equal(deliveries.find(({ kind }) => kind === "postback")?.request.body.text, text);
    assert.deepEqual(complaints(daemon), []);
  },
);

test("a failed attempt shows its Retry-After and the headers of its request", async (t) => {
  const { receiver, daemon } = await startPair(t, "webhooks.retry_after = []\n");
  receiver.answer({ kind: "status", status: 503, headers: { "retry-after": "7" } });
  const id = await postOne(daemon, { postback_url: receiver.url("/") });
  await daemon.daemon.idle();

  const [delivery] = (await timelineOf(daemon, id)).deliveries;
  assert.equal(delivery?.state, "given_up");
  const [attempt] = delivery.attempts;
  assert.match(attempt?.explanation ?? "", /503/);
  assert.equal(attempt?.retry_after, "7");
  const [received] = receiver.requests;
  assert(received !== undefined);
  assertReceived(received, [...delivery.request.headers, ...(attempt?.request_headers ?? [])]);
});

test("an attempt that was not sent has a signature and no headers of its own", async (t) => {
  const noServer = 'webhooks.retry_after = []\nwebhooks.dns_servers = ["127.0.0.1:9"]\n';
  const { daemon } = await startPair(t, noServer);
  const id = await postOne(daemon, { postback_url: "https://hooks.example.com/" });
  await daemon.daemon.idle();

  const [delivery] = (await timelineOf(daemon, id)).deliveries;
  assert.match(delivery?.explanation ?? "", /name server/);
  assert.deepEqual(delivery?.attempts[0]?.request_headers, []);
  assert.match(delivery?.request.signature ?? "", /^sha256=[0-9a-f]{64}$/);
});

clusterTest("a timeline shows a task in each state with its explanation and its run", async (t) => {
  const { daemon } = await startPair(
    t,
    '[types.echo]\nrunner = "echo"\n[types.gone]\nrunner = "worker"\n',
  );
  const later = { start_at: farStart() };
  const queued = await postOne(daemon, {
    type: "echo",
    ...later,
    postback_url: "http://127.0.0.1:9/",
  });
  const cancelled = await postOne(daemon, { type: "echo", ...later });
  await daemon.call(`/v1/tasks/task_cancel/${cancelled}`, { method: "POST" });
  const refused = await postOne(daemon, { type: "none" });
  const done = await postOne(daemon, { type: "echo" });
  const waiting = await postOne(daemon, { type: "gone" });
  await daemon.daemon.idle();
  const explanation = async (id: string) => (await timelineOf(daemon, id)).explanation ?? "";

  assert.match(await explanation(queued), /queued/);
  assert.match(await explanation(cancelled), /cancelled/);
  assert.match(await explanation(refused), /refused/);
  assert.match(await explanation(done), /postback_url and pingback_url/);
  const { task, run } = await timelineOf(daemon, refused);
  assert.equal((task["error"] as { readonly message: string }).message, task["status_message"]);
  assert.deepEqual(run.by, { kind: null, name: null });
  assert.deepEqual((await timelineOf(daemon, done)).run.by, { kind: "echo", name: null });
  assert.deepEqual((await timelineOf(daemon, waiting)).run.by, { kind: "worker", name: null });
});

test("a timeline names a command by its program and a service by its origin, and nothing more", async (t) => {
  const program = process.execPath;
  const { daemon } = await startPair(
    t,
    [
      `[types.run]\ncommand = [${JSON.stringify(program)}, "-e", "0", "--token=SECRET"]`,
      '[types.ask]\nurl = "http://127.0.0.1:9/SECRET/path?key=SECRET"\n',
    ].join("\n"),
  );
  const later = { start_at: farStart() };
  const shown = async (type: string) => {
    const timeline = await timelineOf(daemon, await postOne(daemon, { type, ...later }));
    assert.doesNotMatch(JSON.stringify(timeline), /SECRET/);
    return timeline.run.by;
  };

  assert.deepEqual(await shown("run"), { kind: "command", name: "node" });
  assert.deepEqual(await shown("ask"), { kind: "http", name: "http://127.0.0.1:9" });
});

test("a large body is not shown, and its attempts are signed as they were sent", async (t) => {
  const { receiver, daemon } = await startPair(t);
  const id = await postOne(daemon, { input: "x".repeat(70_000), postback_url: receiver.url("/") });
  await daemon.daemon.idle();

  const [delivery] = (await timelineOf(daemon, id)).deliveries;
  const [received] = receiver.requests;
  assert(received !== undefined && delivery !== undefined);
  assert.deepEqual(delivery.request.body, { bytes: received.rawBody.length, text: null });
  const headers = [...delivery.request.headers, ...(delivery.attempts[0]?.request_headers ?? [])];
  assertReceived(received, headers);
});

clusterTest(
  "a timeline collects nothing, and is visible to its account and the operator only",
  async (t) => {
    const { daemon } = await startPair(t);
    const id = await postOne(daemon, { input: 1 });
    await daemon.daemon.idle();
    const other = { account: await createTestAccount(daemon.file, "other") };
    const codeFor = async (who: Asker, of = id) =>
      (await ask(daemon.url, { target: `/v1/tasks/timeline/${of}`, headers: who })).code;

    assert.equal(await codeFor(byKey(daemon)), 20000);
    assert.equal(await codeFor(await byOperator(daemon)), 20000);
    assert.equal(await codeFor(byKey(other)), 40401);
    assert.equal(await codeFor([...(await byOperator(daemon)), "X-Account: other"]), 40401);
    assert.equal(await codeFor([]), 40100);
    for (const unknown of [newTaskId(Date.now()), "x", "%00", "..%2f"]) {
      assert.equal(await codeFor(byKey(daemon), unknown), 40401, unknown);
    }
    assert.equal(await codeFor(byKey(daemon), newTaskId(0)), 40403);
    assert.equal((await daemon.ready()).tasks.length, 1);
  },
);

test("the timeline explains a disabled account and a pause alike at each level", async (t) => {
  const { receiver, daemon } = await startPair(t);
  const operator = await byOperator(daemon);
  const headers = [...operator, "Content-Type: application/json"];
  const act = async (target: string): Promise<void> => {
    await asked(daemon, { method: "POST", target, headers, body: "{}" });
  };
  await act("/v1/operator/delivery_pauses");
  const id = await postOne(daemon, { postback_url: receiver.url() });
  await daemon.daemon.idle();
  const sentencesOf = async (): Promise<readonly (string | null | undefined)[]> => {
    const { explanation, deliveries } = await timelineOf(daemon, id, operator);
    const [delivery] = deliveries;
    return [explanation, delivery?.explanation, delivery?.attempts[0]?.explanation];
  };

  const paused = await sentencesOf();
  await act("/v1/operator/accounts/disable/tester");
  const suspended = await sentencesOf();

  for (const sentence of paused) assert.match(sentence ?? "", /^paused: .*; resume them$/);
  for (const sentence of suspended) {
    assert.match(sentence ?? "", /^suspended: .* 'postbackd admin account enable tester'$/);
  }
});

test("times in explanations are in the zone of the query, or in UTC", async (t) => {
  const { receiver, daemon } = await startPair(t);
  const id = await postOne(daemon, { input: 1, postback_url: receiver.url() });
  await receiver.waitFor(1);
  await daemon.daemon.idle();
  const explanationIn = async (query: string): Promise<string> => {
    const { deliveries } = await timelineOf(daemon, `${id}${query}`);
    const [delivery] = deliveries;
    assert.equal(delivery?.attempts[0]?.explanation, delivery?.explanation);
    return delivery?.explanation ?? "";
  };

  assert.match(await explanationIn(""), /204 .* UTC \(/);
  const zoned = await explanationIn("?time_zone=Asia/Kathmandu");
  assert.match(zoned, /204 .* UTC\+5:45 \(/);
  assert.doesNotMatch(zoned, /UTC \(/);
  const refused = await daemon.call(`/v1/tasks/timeline/${id}?time_zone=Europe/Atlantis`);
  assert.match(await refused.text(), /"status_code":40000.*'time_zone'/);
});

test("an explanation advises the account to ask the operator, and the operator to act", async (t) => {
  const receiver = await startReceiver(t, { reply: { kind: "status", status: 429 } });
  const daemon = await startTestDaemon(t);
  const id = await postOne(daemon, { input: 1, postback_url: receiver.url() });
  await receiver.waitFor(1);
  await daemon.daemon.idle();
  const explanationTo = async (who: Asker): Promise<string> =>
    (await timelineOf(daemon, id, who)).deliveries[0]?.explanation ?? "";

  const lower = "lower webhooks.max_in_flight_per_host";
  assert.match(await explanationTo(byKey(daemon)), new RegExp(`ask the operator to ${lower}`));
  const operators = await explanationTo(await byOperator(daemon));
  assert.match(operators, new RegExp(`, or ${lower}`));
  assert.doesNotMatch(operators, /the operator/);
});
