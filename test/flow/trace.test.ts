import assert from "node:assert/strict";
import { test } from "node:test";

import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { startWithWorker } from "./worker-client.ts";

const TRACE = {
  traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  tracestate: "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
};
const PRINT = '[types.print]\nrunner = "worker"\n';
const SHOW = `[types.show]\ncommand = ["node", "-e", "const { TRACEPARENT, TRACESTATE } = process.env; process.stdout.write(JSON.stringify({ TRACEPARENT, TRACESTATE }))"]\n`;

async function postTraced(
  daemon: TestDaemon,
  task: unknown,
  headers: Readonly<Record<string, string>> = TRACE,
): Promise<string> {
  const response = await daemon.call("/v1/tasks/task_post", {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(task),
  });
  const { tasks } = (await response.json()) as { readonly tasks: readonly { id: string }[] };
  return tasks[0]?.id ?? assert.fail();
}

function traceOf(headers: Readonly<Record<string, unknown>>) {
  return { traceparent: headers["traceparent"], tracestate: headers["tracestate"] };
}

test("each webhook of a task has the trace of its post, and a task without a valid trace has none", async (t) => {
  const receiver = await startReceiver(t);
  const daemon = await startTestDaemon(t);
  const webhooks = { postback_url: receiver.url("/a"), pingback_url: receiver.url("/b") };
  await postTraced(daemon, webhooks);
  await daemon.daemon.idle();
  // Large: another thread makes the request.
  await postTraced(daemon, { input: "x".repeat(400_000), postback_url: receiver.url("/c") });
  await daemon.daemon.idle();

  assert.equal(receiver.requests.length, 3);
  for (const { headers } of receiver.requests) assert.deepEqual(traceOf(headers), TRACE);

  await postTraced(daemon, webhooks, {});
  await postTraced(daemon, webhooks, { ...TRACE, traceparent: "00-broken" });
  await daemon.daemon.idle();
  const others = receiver.requests.slice(3);
  assert.equal(others.length, 4);
  const none = { traceparent: undefined, tracestate: undefined };
  for (const { headers } of others) assert.deepEqual(traceOf(headers), none);
});

test("a command has the trace in its environment, and a service in its request", async (t) => {
  const service = await startReceiver(t, { reply: { kind: "status", status: 200, body: "1" } });
  const toml = `[types.call]\nurl = "${service.url("/")}"\n${SHOW}`;
  const daemon = await startTestDaemon(t, { toml });
  const shown = await postTraced(daemon, { type: "show" });
  const plain = await postTraced(daemon, { type: "show" }, {});
  await postTraced(daemon, { type: "call" });
  await daemon.daemon.idle();

  const { traceparent: TRACEPARENT, tracestate: TRACESTATE } = TRACE;
  assert.deepEqual((await daemon.get(shown)).result, { TRACEPARENT, TRACESTATE });
  assert.deepEqual((await daemon.get(plain)).result, {});
  const [request] = service.requests;
  assert.deepEqual(traceOf(request?.headers ?? {}), TRACE);
});

test("a claimed task has the trace of its post", async (t) => {
  const { daemon, worker } = await startWithWorker(t, { toml: PRINT });
  await postTraced(daemon, { type: "print" });
  await postTraced(daemon, { type: "print" }, {});

  const traced = await worker.claimOne();
  const plain = await worker.claimOne();

  assert.deepEqual(traceOf({ ...traced }), TRACE);
  assert.deepEqual(traceOf({ ...plain }), { traceparent: null, tracestate: null });
});
