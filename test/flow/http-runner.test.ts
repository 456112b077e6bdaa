import assert from "node:assert/strict";
import { test } from "node:test";

import { startTestDaemon } from "../helpers/daemon.ts";
import { startReceiver, type Receiver } from "../helpers/receiver.ts";
import { openPlace } from "./place.ts";

/** The configuration of a type whose tasks go to a service, secrets included. */
function httpType(service: Receiver): string {
  const url = service.url("/resize?token=hunter2");
  return `[types.resize]\nurl = "${url}"\nheaders = { X-Key = "s3cret" }\n`;
}

test("a task is posted to the operator's service, and the response is its result", async (t) => {
  const reply = { kind: "status", status: 200, body: '{"width":1.10}' } as const;
  const service = await startReceiver(t, { reply });
  // The allow list of webhooks does not apply to services.
  const toml = `${httpType(service)}[webhooks]\nallow = []\n`;
  const { post, call, daemon, logLines } = await startTestDaemon(t, { toml });

  const posted = await post('{"type":"resize","tag":"a","input":{"n":1.0}}');
  const id = posted.tasks[0]?.id ?? assert.fail();
  await daemon.idle();

  const answer = await (await call(`/v1/tasks/task_get/${id}`)).text();
  assert.match(answer, /"result":\{"width":1\.10\}/);
  const request = await service.next();
  assert.equal(request.url, "/resize?token=hunter2");
  assert.deepEqual([request.headers["x-key"], request.headers["idempotency-key"]], ["s3cret", id]);
  const body = `{"id":"${id}","type":"resize","tag":"a","marketplace":null,"input":{"n":1.0}}`;
  assert.equal(request.rawBody.toString(), body);
  assert.doesNotMatch(logLines.join(""), /hunter2|s3cret/);
});

test("a request that kill -9 of the daemon interrupts is sent again with the same idempotency key", async (t) => {
  const service = await startReceiver(t, { reply: { kind: "status", status: 200, body: "7" } });
  const place = await openPlace(t, httpType(service));
  const first = await place.start();
  service.answerNext({ kind: "hang" });
  const id = await first.client.post({});
  await service.next();
  await first.kill();

  const second = await place.start();
  const task = await second.client.ended(id);

  assert.deepEqual([task.state, task.runs, task.result], ["completed", 2, 7]);
  assert.deepEqual(
    service.requests.map(({ headers }) => headers["idempotency-key"]),
    [id, id],
  );
  assert.equal((await second.program.stop()).code, 0);
  assert.doesNotMatch(first.program.stderr + second.program.stderr, /hunter2|s3cret/);
});
