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
import { createFakeClock } from "../helpers/fake-clock.ts";
import { startProgram, temporaryFolder, type Program } from "../helpers/program.ts";
import { startReceiver, type Receiver } from "../helpers/receiver.ts";
import { startTrap } from "../helpers/trap.ts";
import { drive } from "../run/command-run.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");

/** The configuration of a type whose tasks go to a service, secrets included. */
function httpType(service: Receiver, more = ""): string {
  const url = service.url("/resize?token=hunter2");
  return `[types.resize]\nurl = "${url}"\nheaders = { X-Key = "s3cret" }\n${more}\n`;
}

test("a task is posted to the operator's own service, and the answer is its result", async (t) => {
  const reply = { kind: "status", status: 200, body: '{"width":1.10}' } as const;
  const service = await startReceiver(t, { reply });
  // Where no webhook may go, a service may be.
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

test("a service that fails makes a task 50010, again as often as retries say, and nothing tells its secrets", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const reply = { kind: "status", status: 500, body: "no hunter2 here, s3cret" } as const;
  const service = await startReceiver(t, { reply });
  const toml = httpType(service, "retries = 1");
  const { post, get, daemon, logLines } = await startTestDaemon(t, { toml, clock });

  const posted = await post({ type: "resize" });
  const id = posted.tasks[0]?.id ?? assert.fail();
  await daemon.idle();
  clock.advance(1000);
  await daemon.idle();

  const task = await get(id);
  assert.deepEqual([task.state, task.status_code, task.runs], ["failed", 50010, 2]);
  const response_excerpt = "no [hidden] here, [hidden]";
  const detail = { attempts: 1, http_status: 500, error: null, response_excerpt };
  assert.deepEqual(task.error, { message: "The service answered 500.", detail });
  assert.doesNotMatch(logLines.join(""), /hunter2|s3cret/);
});

test("a service that is down until the timeout makes a task 50401", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const service = await startReceiver(t);
  await service.close();
  const toml = httpType(service, 'timeout = "200ms"');
  const { post, get, daemon } = await startTestDaemon(t, { toml, clock });

  const posted = await post({ type: "resize" });
  const id = posted.tasks[0]?.id ?? assert.fail();
  await drive(clock, daemon.idle());

  const task = await get(id);
  assert.deepEqual([task.state, task.status_code], ["failed", 50401]);
  assert.match(
    task.error?.message ?? "",
    /within the timeout of 0\.2 s: connection was refused\.$/,
  );
});

test("a service that is down for long is told in the log, in one line, and so is its return", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const service = await startReceiver(t, { reply: { kind: "status", status: 503 } });
  const toml = httpType(service, 'timeout = "365d"');
  const { post, daemon, logLines } = await startTestDaemon(t, { toml, clock });
  await post([{ type: "resize" }, { type: "resize" }, { type: "resize" }]);
  const turn = (): Promise<unknown> => new Promise((resolve) => setImmediate(resolve));
  while (!logLines.some((line) => line.includes("has given no result"))) {
    clock.advance(10);
    await turn();
  }
  const seen = service.requests.length;
  while (service.requests.length < seen + 10) {
    clock.advance(10);
    await turn();
  }
  service.answer({ kind: "status", status: 204 });
  await drive(clock, daemon.idle());

  const told = logLines.filter((line) => /"resize".*service/.test(line));
  assert.deepEqual(
    told.map((line) => /"level":"(\w+)"/.exec(line)?.[1]),
    ["warn", "info"],
  );
  assert.match(told[0] ?? "", /"reason":"it answered 503"/);
  assert.doesNotMatch(told.join(""), /hunter2|s3cret/);
});

test("a task that is cancelled breaks its request off, and its place is free", async (t) => {
  const service = await startReceiver(t);
  const toml = httpType(service, "concurrency = 1");
  const { post, get, call, daemon } = await startTestDaemon(t, { toml });
  service.answerNext({ kind: "hang" });

  const posted = await post([{ type: "resize" }, { type: "resize" }]);
  const [first, second] = posted.tasks;
  assert.equal((await service.next()).headers["idempotency-key"], first?.id);
  const cancelled = await call(`/v1/tasks/task_cancel/${first?.id}`, { method: "POST" });
  assert.equal(cancelled.status, 200);
  await service.waitFor(2);
  await daemon.idle();

  assert.equal(service.connectionsSeen, 2);
  assert.equal((await get(first?.id ?? "")).state, "cancelled");
  assert.equal((await get(second?.id ?? "")).state, "completed");
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

/** The first task that a request of the account is answered with. */
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

/** The task when it has ended. */
function whenEnded(program: Program, place: Place, id: string): Promise<ShownTask> {
  const headers = { prefer: "wait=30" };
  return ask({ program, place }, `task_get/${id}?collect=false`, { headers });
}

test("a daemon that is killed during a request asks again when it is back, with the same key", async (t) => {
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

test("an environment that names proxies sends no task through one", async (t) => {
  const proxy = await startTrap(t);
  const service = await startReceiver(t, { reply: { kind: "status", status: 200, body: "7" } });
  const place = await makePlace(t, httpType(service));
  const proxyUrl = `http://127.0.0.1:${proxy.port}`;
  const names = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"];
  const variables = Object.fromEntries(names.map((name) => [name, proxyUrl]));
  const env = { ...variables, NODE_USE_ENV_PROXY: "1", NO_PROXY: "", no_proxy: "" };
  const program = startProgram(t, ["start", "--port", "0"], { cwd: place.cwd, env });

  const { id } = await postTask(program, place);
  assert.equal((await whenEnded(program, place, id)).result, 7);
  assert.equal(proxy.connections, 0);
  assert.equal((await program.stop()).code, 0);
});
