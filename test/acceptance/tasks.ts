import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { DAY_MS } from "../../src/domain/clock/duration.ts";
import { createGate, startReceiver, type Receiver } from "../helpers/receiver.ts";
import { createAccount } from "./authentication.ts";
import { bearer, Client, idsOf, only, UUID_V7, type Answer, type Task } from "./client.ts";
import { PART, type Served, type Subject } from "./subject.ts";

// Posts its task to `input.url` and prints the answer: what a receiver does with the request, the task does.
const CALL = `
  let line = "";
  process.stdin.on("data", (part) => { line += part; }).on("end", async () => {
    const { input: { url } } = JSON.parse(line);
    const response = await fetch(url, { method: "POST", body: line });
    process.stdout.write(await response.text());
  });
`;

/** Types: `echo`; `fail`, which always fails; `call`, one at a time, which a receiver steers. */
export const TOML = `
[webhooks]
allow = ["127.0.0.1"]

[types.echo]
runner = "echo"

[types.fail]
command = ["sh", "-c", "cat > /dev/null; echo broken >&2; exit 3"]

[types.call]
command = [${JSON.stringify(process.execPath)}, "-e", ${JSON.stringify(CALL)}]
concurrency = 1

[[marketplaces]]
code = "de"
name = "Germany"
currency = "EUR"
`;

const NO_TASK = "01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6";

export interface Parts {
  readonly served: Served;
  readonly client: Client;
}

/** Contract §3, the operations on tasks. */
export function exerciseTasks(subject: Subject): void {
  test("contract §3, operations on tasks", PART, async (t) => {
    const served = await subject.serve(t, { toml: TOML });
    const client = new Client(served.url, bearer(served.account.key));
    await taskPost(t, client);
    await killed(t, subject);
    await taskGet(t, { served, client });
    await tasksReady(t, { served, client });
    await taskList(t, { served, client });
    await taskCancel(t, client);
  });
}

async function taskPost(t: TestContext, client: Client): Promise<void> {
  await t.test(
    "POST /v1/tasks/task_post: an array of tasks is accepted, in its order",
    async () => {
      const tasks = ["one", "two", "three"].map((tag) => ({ type: "echo", tag }));
      const { body } = await client.post(tasks);

      assert.deepEqual([body.status_code, body.status_message], [20000, "Ok."]);
      assert.deepEqual([body.tasks_count, body.tasks_error], [3, 0]);
      for (const { id, status_code, status_message } of body.tasks) {
        assert.match(id, UUID_V7);
        assert.deepEqual([status_code, status_message], [20100, "Task Created."]);
      }
      assert.deepEqual(
        body.tasks.map(({ data }) => data["tag"]),
        ["one", "two", "three"],
      );
    },
  );

  await t.test("POST /v1/tasks/task_post: a single object counts as one", async () => {
    assert.equal(only(await client.post({ type: "echo" })).status_code, 20100);
  });

  await t.test("POST /v1/tasks/task_post: 100 tasks are accepted and 101 are 40006", async () => {
    const tasks = Array.from({ length: 101 }, () => ({ type: "echo" }));
    const accepted = await client.post(tasks.slice(1));
    const refused = await client.send("/v1/tasks/task_post", { body: tasks });

    assert.deepEqual([accepted.body.tasks_count, accepted.body.tasks_error], [100, 0]);
    assert.deepEqual([refused.status, refused.body.status_code], [400, 40006]);
    assert.equal(refused.body.status_message, "Too Many Tasks.");
  });

  await t.test(
    "POST /v1/tasks/task_post: one bad task does not refuse its neighbours",
    async () => {
      const { body } = await client.post([
        { type: "echo", input: 1 },
        { type: "echo", postback_url: "http://10.0.0.1/" },
        { type: "echo", colour: "red" },
        { type: "echo", input: 2 },
      ]);

      assert.deepEqual([body.tasks_count, body.tasks_error], [4, 2]);
      assert.deepEqual(
        body.tasks.map(({ status_code }) => status_code),
        [20100, 40501, 40506, 20100],
      );
      assert.match(body.tasks[1]?.status_message ?? "", /^Invalid Field: 'postback_url'\. ./);
      assert.equal(body.tasks[2]?.status_message, "Unknown Field: 'colour'.");
      const last = body.tasks[3]?.id ?? "";
      assert.equal(only(await client.finished(last)).result, 2);
    },
  );
}

async function killed(t: TestContext, subject: Subject): Promise<void> {
  await t.test("POST /v1/tasks/task_post: what was answered outlives the process", async (t) => {
    const args = ["start", "--port", "0"];
    const first = subject.launch(t, args);
    const { url } = await first.ready;
    const { cwd } = first;
    const made = await subject.run(t, ["admin", "account", "create", "a", "--json"], { cwd });
    const authorization = bearer(JSON.parse(made.stdout).key.key);
    const start_at = new Date(Date.now() + DAY_MS).toISOString();
    const { id } = only(await new Client(url, authorization).post({ start_at, input: "kept" }));
    first.kill("SIGKILL");
    await first.exit;

    const again = await subject.launch(t, args, { cwd }).ready;
    const task = only(await new Client(again.url, authorization).get(id));
    assert.deepEqual([task.state, task.data["input"]], ["queued", "kept"]);
  });
}

async function taskGet(t: TestContext, { served, client }: Parts): Promise<void> {
  await t.test("GET /v1/tasks/task_get/{id}: the envelope with one task", async () => {
    const { id } = only(await client.run({ type: "echo", input: "x" }));
    const answer = await client.get(id);
    const { status_code, status_message, tasks_count, tasks_error } = answer.body;

    assert.deepEqual([answer.status, status_code, status_message], [200, 20000, "Ok."]);
    assert.deepEqual([tasks_count, tasks_error], [1, 0]);
    assert.deepEqual([only(answer).id, only(answer).result], [id, "x"]);
    assert.match(answer.headers.get("content-type") ?? "", /^application\/json\b/);
    assert.ok((answer.headers.get("x-request-id") ?? "") !== "");
  });

  await t.test(
    "GET /v1/tasks/task_get/{id}: the first 200 for a finished task collects",
    async () => {
      const { id } = only(await client.run({ type: "echo", tag: "collected" }));

      assert.deepEqual(await client.ready("?tag=collected"), [id]);
      const first = await client.get(id);
      assert.deepEqual(await client.ready("?tag=collected"), []);
      assert.deepEqual((await client.get(id)).text, first.text);
    },
  );

  await t.test("GET /v1/tasks/task_get/{id}: ?collect=false and HEAD do not collect", async () => {
    const { id } = only(await client.run({ type: "echo", tag: "left" }));
    const head = await client.send(`/v1/tasks/task_get/${id}`, { method: "HEAD" });
    const get = await client.get(id, "?collect=false");

    assert.deepEqual([head.status, head.text, get.status], [200, "", 200]);
    assert.equal(head.headers.get("etag"), get.headers.get("etag"));
    assert.deepEqual(await client.ready("?tag=left"), [id]);
  });

  await t.test("GET /v1/tasks/task_get/{id}: Prefer: wait=N holds until it finishes", async (t) => {
    const { receiver, gate } = await startHeld(t, '"done"');
    const { id } = only(await client.post({ type: "call", input: { url: receiver.url() } }));
    await receiver.next();
    const running = only(await client.get(id, "?collect=false"));
    const waiting = client.send(`/v1/tasks/task_get/${id}`, { headers: { prefer: "wait=60" } });
    const short = { headers: { prefer: "wait=1" } };
    const early = await client.send(`/v1/tasks/task_get/${id}`, short);
    gate.open();

    assert.deepEqual([running.state, running.status_code], ["running", 40601]);
    assert.equal(running.status_message, "Task In Progress.");
    assert.equal(only(early).state, "running");
    const task = only(await waiting);
    assert.deepEqual([task.state, task.result], ["completed", "done"]);
  });

  await t.test("GET /v1/tasks/task_get/{id}: a finished task has an ETag", async () => {
    const start_at = new Date(Date.now() + DAY_MS).toISOString();
    const queued = only(await client.post({ type: "echo", start_at }));
    const { id } = only(await client.run({ type: "echo" }));
    const finished = await client.get(id);
    const etag = finished.headers.get("etag") ?? "";
    const same = await client.send(`/v1/tasks/task_get/${id}`, {
      headers: { "if-none-match": etag },
    });

    assert.match(etag, /^(W\/)?".+"$/);
    assert.deepEqual([same.status, same.text], [304, ""]);
    assert.equal((await client.get(queued.id)).headers.get("etag"), null);
  });

  await t.test(
    "GET /v1/tasks/task_get/{id}: unknown, malformed and another's are alike",
    async () => {
      const { key } = await createAccount(served, "neighbour");
      const theirs = only(await new Client(served.url, bearer(key.key)).post({ type: "echo" }));
      const fresh = `${theirs.id.slice(0, -4)}0000`;
      const texts = new Set<string>();
      for (const id of [theirs.id, fresh, "nonsense", "1", theirs.id.toUpperCase()]) {
        const { status, body, text } = await client.get(id);
        assert.deepEqual([status, body.status_code], [404, 40401], id);
        texts.add(text);
      }
      assert.equal(texts.size, 1);
      const { status, body } = await client.get(NO_TASK);
      assert.deepEqual([status, body.status_code], [410, 40403]);
    },
  );
}

async function tasksReady(t: TestContext, { served }: Parts): Promise<void> {
  const { key } = await createAccount(served, "reader");
  const client = new Client(served.url, bearer(key.key));
  const ids: string[] = [];
  for (const task of [
    { type: "echo", tag: "a", input: "secret of a" },
    { type: "fail", tag: "b" },
    { type: "echo", tag: "a" },
    { type: "echo", tag: "ü & +" },
  ]) {
    ids.push(only(await client.run(task)).id);
  }
  const [first = "", failed = "", third = "", last = ""] = ids;

  await t.test(
    "GET /v1/tasks/tasks_ready: oldest completion first, collected ones left out",
    async () => {
      const collected = only(await client.run({ type: "echo" }));
      await client.get(collected.id);
      assert.deepEqual(await client.ready(), ids);
    },
  );

  await t.test(
    "GET /v1/tasks/tasks_ready: limit, cursor and next_cursor walk through all",
    async () => {
      assert.deepEqual(await walk(client, "/v1/tasks/tasks_ready"), [
        [first, failed, third],
        [last],
      ]);
    },
  );

  await t.test("GET /v1/tasks/tasks_ready: filters tag and type", async () => {
    assert.deepEqual(await client.ready("?tag=a"), [first, third]);
    assert.deepEqual(await client.ready("?type=fail"), [failed]);
    assert.deepEqual(await client.ready("?type=fail&tag=a"), []);
    assert.deepEqual(await client.ready(`?tag=${encodeURIComponent("ü & +")}`), [last]);
  });

  await t.test(
    "GET /v1/tasks/tasks_ready: a task comes without input, result and error",
    async () => {
      const { body, text } = await client.send("/v1/tasks/tasks_ready");
      for (const task of body.tasks) assertShort(task);
      assert.ok(!text.includes("secret of a"));
      assert.deepEqual([body.tasks_count, body.tasks_error], [4, 1]);
    },
  );

  await t.test("GET /v1/tasks/tasks_ready: out of range or unknown is 40000", async () => {
    await refusesQueries(client, "/v1/tasks/tasks_ready", [
      ...["limit=0", "limit=1001", "limit=x", "limit=", "cursor=nonsense", "state=completed"],
      ...["limit=1&limit=2", "color=red"],
    ]);
    assert.equal((await client.ready("?limit=1000")).length, ids.length);
  });

  await t.test("GET /v1/tasks/tasks_ready: listing never collects", async () => {
    assert.deepEqual(await client.ready(), ids);
  });
}

async function taskList(t: TestContext, { served }: Parts): Promise<void> {
  const { key } = await createAccount(served, "lister");
  const client = new Client(served.url, bearer(key.key));
  const start_at = new Date(Date.now() + DAY_MS).toISOString();
  const done = only(await client.run({ type: "echo", tag: "a" }));
  const failed = only(await client.run({ type: "fail", tag: "a" }));
  const refused = only(await client.post({ type: "echo", tag: "b", postback_url: "ftp://x.y/" }));
  const queued = only(await client.post({ type: "echo", tag: "b", start_at }));
  await client.get(done.id);
  const list = async (query: string) => idsOf(await client.send(`/v1/tasks${query}`));

  await t.test("GET /v1/tasks: all tasks of the account, newest first", async () => {
    assert.deepEqual(await list(""), [queued.id, refused.id, failed.id, done.id]);
    const { key: other } = await createAccount(served, "poster");
    const poster = new Client(served.url, bearer(other.key));
    const together = idsOf(
      await poster.post([{ type: "echo" }, { type: "echo" }, { type: "fail" }]),
    );
    assert.deepEqual(idsOf(await poster.send("/v1/tasks")), together.toReversed());
  });

  await t.test("GET /v1/tasks: filters state, type and tag", async () => {
    assert.deepEqual(await list("?state=queued"), [queued.id]);
    assert.deepEqual(await list("?state=completed"), [done.id]);
    assert.deepEqual(await list("?state=failed"), [refused.id, failed.id]);
    assert.deepEqual(await list("?state=running"), []);
    assert.deepEqual(await list("?state=cancelled"), []);
    assert.deepEqual(await list("?type=fail"), [failed.id]);
    assert.deepEqual(await list("?tag=a"), [failed.id, done.id]);
    assert.deepEqual(await list("?tag=a&state=completed&type=echo"), [done.id]);
  });

  await t.test("GET /v1/tasks: created_after is inclusive, created_before exclusive", async () => {
    const time = encodeURIComponent(failed.created_at);
    assert.deepEqual(await list(`?created_after=${time}`), [queued.id, refused.id, failed.id]);
    assert.deepEqual(await list(`?created_before=${time}`), [done.id]);
    assert.deepEqual(await list(`?created_after=${time}&created_before=${time}`), []);
  });

  await t.test("GET /v1/tasks: limit, cursor and next_cursor walk through all", async () => {
    const pages = [[queued.id, refused.id, failed.id], [done.id]];
    assert.deepEqual(await walk(client, "/v1/tasks"), pages);
  });

  await t.test("GET /v1/tasks: a task comes without input, result and error", async () => {
    const { tasks } = (await client.send("/v1/tasks")).body;
    assert.equal(tasks.length, 4);
    for (const task of tasks) assertShort(task);
  });

  await t.test("GET /v1/tasks: out of range or unknown is 40000", async () => {
    const queries = ["state=done", "limit=0", "limit=1001", "created_after=today", "cursor=x"];
    await refusesQueries(client, "/v1/tasks", queries);
  });
}

async function taskCancel(t: TestContext, client: Client): Promise<void> {
  const cancel = (id: string): Promise<Answer> =>
    client.send(`/v1/tasks/task_cancel/${id}`, { method: "POST" });

  await t.test("POST /v1/tasks/task_cancel/{id}: a queued task never runs", async () => {
    const start_at = new Date(Date.now() + DAY_MS).toISOString();
    const { id } = only(await client.post({ type: "echo", start_at }));
    const answer = await cancel(id);
    const task = only(answer);

    assert.deepEqual([answer.status, task.state, task.runs], [200, "cancelled", 0]);
    assert.deepEqual([task.status_code, task.status_message], [40901, "Task Cancelled."]);
    assert.deepEqual(only(await client.get(id)), task);
  });

  await t.test(
    "POST /v1/tasks/task_cancel/{id}: a running task's runner is told to stop",
    async (t) => {
      const { receiver } = await startHeld(t, "1");
      const input = { url: receiver.url() };
      const { id } = only(await client.post({ type: "call", input }));
      await receiver.next();
      const task = only(await cancel(id));

      // Its connection ends with the program.
      await receiver.whenDisconnected();
      assert.deepEqual([task.state, task.status_code, task.runs], ["cancelled", 40901, 1]);
      assert.equal(only(await client.get(id)).state, "cancelled");
    },
  );

  await t.test("POST /v1/tasks/task_cancel/{id}: a finished task is 40902", async () => {
    for (const type of ["echo", "fail"]) {
      const { id } = only(await client.run({ type }));
      const { status, body } = await cancel(id);
      assert.deepEqual([status, body.status_code], [409, 40902], type);
      assert.equal(body.status_message, "Task Not Cancellable.");
    }
  });

  await t.test(
    "POST /v1/tasks/task_cancel/{id}: a cancelled task answers 200 the same",
    async () => {
      const start_at = new Date(Date.now() + DAY_MS).toISOString();
      const { id } = only(await client.post({ type: "echo", start_at }));
      const [first, second] = [await cancel(id), await cancel(id)];
      assert.deepEqual([second.status, second.text], [200, first.text]);
    },
  );

  await t.test("POST /v1/tasks/task_cancel/{id}: an unknown task is 40401", async () => {
    assert.deepEqual((await cancel("nonsense")).body.status_code, 40401);
    const { status, body } = await cancel(NO_TASK);
    assert.deepEqual([status, body.status_code], [410, 40403]);
  });
}

/** Where a task of the type `call` goes: it is told the result when the gate opens. */
export async function startHeld(t: TestContext, result: string) {
  const gate = createGate();
  const reply = { kind: "status", status: 200, body: result } as const;
  const receiver: Receiver = await startReceiver(t, {
    reply: { kind: "held", until: gate.opened, reply },
  });
  return { receiver, gate };
}

/** Ids page by page, three on each, until there is no next cursor. */
async function walk(client: Client, path: string): Promise<readonly (readonly string[])[]> {
  const pages: (readonly string[])[] = [];
  let query = "?limit=3";
  for (;;) {
    const answer = await client.send(path + query);
    assert.equal(answer.status, 200, answer.text);
    pages.push(idsOf(answer));
    const { next_cursor } = answer.body;
    if (next_cursor === null) return pages;
    assert.ok(pages.length < 10, "the walk ends");
    query = `?limit=3&cursor=${encodeURIComponent(next_cursor)}`;
  }
}

/** A task of a list has neither what went in nor what came out. */
function assertShort(task: Task): void {
  const names = [...Object.keys(task), ...Object.keys(task.data)];
  for (const name of ["input", "result", "error"]) assert.ok(!names.includes(name), name);
}

async function refusesQueries(
  client: Client,
  path: string,
  queries: readonly string[],
): Promise<void> {
  for (const query of queries) {
    const { status, body } = await client.send(`${path}?${query}`);
    assert.deepEqual([status, body.status_code], [400, 40000], query);
  }
}
