import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import {
  createTestAccount,
  startTestDaemon,
  type ShownTask,
  type TestAccount,
} from "../helpers/daemon.ts";
import { startProgram, temporaryFolder, type Program } from "../helpers/program.ts";
import { startReceiver, type Receiver } from "../helpers/receiver.ts";

/** The configuration of a type whose tasks go to a service, secrets included. */
function httpType(service: Receiver, more = ""): string {
  const url = service.url("/resize?token=hunter2");
  return `[types.resize]\nurl = "${url}"\nheaders = { X-Key = "s3cret" }\n${more}\n`;
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

interface Place {
  readonly cwd: string;
  readonly account: TestAccount;
}

async function makePlace(t: TestContext, toml: string): Promise<Place> {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, "postbackd.toml"), toml);
  return { cwd, account: await createTestAccount(join(cwd, "postbackd.db")) };
}

/** Makes a request of the account and returns its first task. */
async function ask(
  { program, place }: { readonly program: Program; readonly place: Place },
  path: string,
  init: RequestInit,
): Promise<ShownTask> {
  const { url } = await program.ready;
  const headers = { authorization: `Bearer ${place.account.key}`, ...init.headers };
  const answer = await fetch(`${url}/v1/tasks/${path}`, { ...init, headers });
  assert.equal(answer.status, 200);
  const { tasks } = (await answer.json()) as { readonly tasks: readonly ShownTask[] };
  return tasks[0] ?? assert.fail();
}

function postTask(program: Program, place: Place): Promise<ShownTask> {
  const headers = { "content-type": "application/json" };
  const body = '{"type":"resize"}';
  return ask({ program, place }, "task_post", { method: "POST", headers, body });
}

/** Waits for the end of the task. */
function whenEnded(program: Program, place: Place, id: string): Promise<ShownTask> {
  const headers = { prefer: "wait=30" };
  return ask({ program, place }, `task_get/${id}?collect=false`, { headers });
}

test("a request that kill -9 of the daemon interrupts is sent again with the same idempotency key", async (t) => {
  const service = await startReceiver(t, { reply: { kind: "status", status: 200, body: "7" } });
  const place = await makePlace(t, httpType(service));
  const first = startProgram(t, ["start", "--port", "0"], { cwd: place.cwd });
  service.answerNext({ kind: "hang" });
  const { id } = await postTask(first, place);
  await service.next();
  first.kill("SIGKILL");
  await first.exit;

  const second = startProgram(t, ["start", "--port", "0"], { cwd: place.cwd });
  const task = await whenEnded(second, place, id);

  assert.deepEqual([task.state, task.runs, task.result], ["completed", 2, 7]);
  assert.deepEqual(
    service.requests.map(({ headers }) => headers["idempotency-key"]),
    [id, id],
  );
  assert.equal((await second.stop()).code, 0);
  assert.doesNotMatch(first.stderr + second.stderr, /hunter2|s3cret/);
});
