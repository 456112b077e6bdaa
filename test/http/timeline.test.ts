import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { clusterTest } from "../helpers/cluster-test.ts";
import { createTestAccount, startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { farStart } from "../helpers/far-start.ts";
import { startReceiver, type ReceivedRequest } from "../helpers/receiver.ts";
import { newTaskId } from "../helpers/store.ts";
import { ask, complaints } from "./answer.ts";
import { asked, byKey, byOperator, type Asker } from "./search-requests.ts";

type Header = readonly [name: string, value: string];

interface Attempt {
  readonly number: number;
  readonly outcome: string | null;
  readonly explanation: string;
  readonly retry_after: string | null;
  readonly request_headers: readonly Header[];
}

interface Timeline {
  readonly task: Readonly<Record<string, unknown>>;
  readonly run: {
    readonly by: { readonly kind: string | null; readonly name: string | null };
    readonly lease_expires_at: string | null;
  };
  readonly explanation: string | null;
  readonly deliveries: readonly {
    readonly delivery_id: string;
    readonly kind: string;
    readonly state: string;
    readonly explanation: string;
    readonly host: string;
    readonly next_attempt_at: string | null;
    readonly request: {
      readonly method: string;
      readonly target: string;
      readonly headers: readonly Header[];
      readonly body: { readonly bytes: number; readonly text: string | null };
      readonly message: string;
      readonly signature: string;
      readonly signature_next: string | null;
    };
    readonly attempts: readonly Attempt[];
  }[];
}

function timelineOf(daemon: TestDaemon, id: string, who: Asker = byKey(daemon)): Promise<Timeline> {
  return asked(daemon, { target: `/v1/tasks/timeline/${id}`, headers: who });
}

async function postOne(daemon: TestDaemon, task: object): Promise<string> {
  const { tasks } = await daemon.post([task]);
  return tasks[0]?.id ?? assert.fail();
}

/** Every header that is shown is one that was received, as it was written, and none is missing. */
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
  "what is shown of a request is what its receiver got, byte for byte, at each attempt",
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

test("a timeline has an explanation at the task, its deliveries and their attempts, and no story", async (t) => {
  const { receiver, daemon } = await startPair(t);
  const id = await postOne(daemon, { postback_url: receiver.url("/") });
  await daemon.daemon.idle();

  const timeline = await timelineOf(daemon, id);
  const [delivery] = timeline.deliveries;
  assert(delivery !== undefined);
  for (const each of [timeline, delivery, delivery.attempts[0] ?? {}]) {
    assert.deepEqual(["explanation" in each, "story" in each], [true, false]);
  }
});

const FAILURES = [
  ["status", { kind: "status", status: 503, headers: { "retry-after": "7" } }, /^failed: .*503/],
  ["redirect", { kind: "status", status: 302 }, /redirects are not followed/],
  ["close", { kind: "close" }, /closed the connection without an answer/],
  ["nonsense", { kind: "raw", bytes: "SSH-2.0-x\r\n\r\n", end: true }, /not valid HTTP/],
  ["silence", { kind: "hang" }, /^timed out: the time was up before/],
] as const;

for (const [name, reply, explanation] of FAILURES) {
  test(`a failure by ${name} is explained, and so is where its delivery stands`, async (t) => {
    // Real time: what fails in another way has to do so before it is up, on a busy machine too.
    const timeout = name === "silence" ? "1s" : "30s";
    const { receiver, daemon } = await startPair(
      t,
      `webhooks.retry_after = []\nwebhooks.timeout = "${timeout}"\n`,
    );
    receiver.answer(reply);
    const id = await postOne(daemon, { postback_url: receiver.url("/") });
    await daemon.daemon.idle();

    const [delivery] = (await timelineOf(daemon, id)).deliveries;
    assert.equal(delivery?.state, "given_up");
    assert.match(
      delivery.explanation,
      /^given up after 1 attempt, with no retry left; the last one /,
    );
    const [attempt] = delivery.attempts;
    assert.match(attempt?.explanation ?? "", explanation);
    assert.equal(attempt?.retry_after, name === "status" ? "7" : null);
    const [received] = receiver.requests;
    assert(received !== undefined);
    assertReceived(received, [...delivery.request.headers, ...(attempt?.request_headers ?? [])]);
  });
}

test("where nothing went out there is a signature to compare with, and no header of an attempt", async (t) => {
  // No name server answers there.
  const nobody = 'webhooks.retry_after = []\nwebhooks.dns_servers = ["127.0.0.1:9"]\n';
  const { daemon } = await startPair(t, nobody);
  const id = await postOne(daemon, { postback_url: "https://hooks.example.com/" });
  await daemon.daemon.idle();

  const [delivery] = (await timelineOf(daemon, id)).deliveries;
  assert.match(
    delivery?.explanation ?? "",
    /no name server could be reached|no name server answered/,
  );
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

  assert.match(await explanation(queued), /^not sent yet: the task, posted at .*, is queued/);
  assert.match(await explanation(cancelled), /^nothing is sent: the task was cancelled/);
  assert.match(await explanation(refused), /^nothing is sent: task_post refused the task/);
  assert.match(await explanation(done), /posted without postback_url and pingback_url/);
  const { task, run } = await timelineOf(daemon, refused);
  assert.equal((task["error"] as { readonly message: string }).message, task["status_message"]);
  assert.deepEqual(run.by, { kind: null, name: null });
  assert.deepEqual((await timelineOf(daemon, done)).run.by, { kind: "echo", name: null });
  assert.deepEqual((await timelineOf(daemon, waiting)).run.by, { kind: "worker", name: null });
});

test("a command is named by its program and a service by its origin, and nothing more of them", async (t) => {
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

test("a large body is measured and not shown, and its attempts are signed as they were", async (t) => {
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
  "a timeline collects nothing, and is its account's and the operator's alone",
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

test("times in sentences are those of the zone that is named, and of UTC where none is", async (t) => {
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

  assert.match(await explanationIn(""), / answered 204 at [\d-]+ [\d:]+ UTC \(/);
  const zoned = await explanationIn("?time_zone=Asia/Kathmandu");
  assert.match(zoned, / answered 204 at [\d-]+ [\d:]+ UTC\+5:45 \(/);
  assert.doesNotMatch(zoned, /UTC \(/);
  const refused = await daemon.call(`/v1/tasks/timeline/${id}?time_zone=Europe/Atlantis`);
  assert.match(await refused.text(), /"status_code":40000.*IANA.*'time_zone'/);
});

test("an account is told what to ask the operator for, who is told what to do", async (t) => {
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
