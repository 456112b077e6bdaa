import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { DAY_MS } from "../../src/domain/clock/duration.ts";
import { createGate, startReceiver, type Receiver } from "../helpers/receiver.ts";
import { createAccount } from "./account.ts";
import { bearer, Client, idsOf, only, TIME, UUID_V7, type Task } from "./client.ts";
import { PART, TOML, type Served, type Subject } from "./subject.ts";

const SHOWN = [
  ...["id", "status_code", "status_message", "state", "type", "created_at", "started_at"],
  ...["completed_at", "expires_at", "runs", "progress", "data", "result", "error"],
];

/** A start time after the end of the test. */
const later = (): string => new Date(Date.now() + DAY_MS).toISOString();

export interface Parts {
  readonly served: Served;
  readonly client: Client;
}

/** The operations of http-api.md on tasks. */
export function exerciseTasks(subject: Subject): void {
  test("tasks, as in http-api.md", PART, async (t) => {
    const served = await subject.serve(t, { toml: TOML });
    const client = new Client(served.url, bearer(served.account.key));
    await taskPost(t, client);
    await killed(t, subject);
    await taskGet(t, client);
    await lists(t, served);
    await taskCancel(t, client);
  });
}

async function taskPost(t: TestContext, client: Client): Promise<void> {
  await t.test("task_post takes an array in its order, and refuses bad tasks alone", async () => {
    const { body } = await client.post([
      { type: "echo", tag: "one", input: 1 },
      { type: "echo", postback_url: "http://10.0.0.1/" },
      { type: "echo", colour: "red" },
      { type: "fail", tag: "two" },
    ]);

    assert.deepEqual([body.status_code, body.status_message], [20000, "Ok."]);
    assert.deepEqual([body.tasks_count, body.tasks_error], [4, 2]);
    assert.deepEqual(
      body.tasks.map(({ status_code, data }) => [status_code, data["tag"]]),
      [
        [20100, "one"],
        [40501, undefined],
        [40506, undefined],
        [20100, "two"],
      ],
    );
    for (const { id } of body.tasks) assert.match(id, UUID_V7);
    assert.equal(body.tasks[2]?.status_message, "Unknown Field: 'colour'.");
  });

  await t.test("a task is shown queued, completed and failed with the same fields", async () => {
    const given = { type: "echo", tag: "t", priority: 3, marketplace: "de", input: { a: 1 } };
    const { id } = only(await client.post({ ...given, start_at: later() }));
    const queued = only(await client.get(id));
    const completed = only(await client.run(given));
    const failed = only(await client.run({ type: "fail" }));
    await client.send(`/v1/tasks/task_cancel/${id}`, { method: "POST" });

    for (const task of [queued, completed, failed]) {
      assert.deepEqual(Object.keys(task).toSorted(), SHOWN.toSorted());
    }
    assert.deepEqual(outcome(queued), ["queued", 40602, "Task In Queue.", 0]);
    assert.deepEqual(outcome(completed), ["completed", 20000, "Ok.", 1]);
    assert.deepEqual(outcome(failed), ["failed", 50010, "Task Execution Failed.", 1]);
    for (const [name, value] of Object.entries(given)) {
      if (name !== "type") assert.deepEqual(completed.data[name], value, name);
    }
    const times = [completed.created_at, completed.started_at ?? "", completed.completed_at ?? ""];
    for (const time of times) assert.match(time, TIME);
    assert.deepEqual(times, times.toSorted());
    assert.equal(
      Date.parse(completed.expires_at ?? ""),
      Date.parse(completed.completed_at ?? "") + 30 * DAY_MS,
    );
    assert.deepEqual([completed.result, failed.result], [{ a: 1 }, null]);
    assert.match(JSON.stringify(failed.error), /"message":.*broken/);
  });

  await t.test("priority orders the queue, and start_at delays a task", async (t) => {
    const { receiver, gate } = await startHeld(t, "1");
    const call = (tag: string, priority?: number): object => {
      return { type: "call", tag, priority, input: { url: receiver.url() } };
    };
    await client.post(call("first"));
    await receiver.next();
    const { body } = await client.post([call("none"), call("five", 5), call("nine", 9)]);
    gate.open();
    const requests = await receiver.waitFor(4);
    const order = requests.map(({ rawBody }) => JSON.parse(String(rawBody)).tag);
    assert.deepEqual(order, ["first", "nine", "five", "none"]);
    for (const { id } of body.tasks) await client.finished(id);

    const start_at = new Date(Date.now() + 600).toISOString();
    const { started_at } = only(await client.run({ type: "echo", start_at }));
    assert.ok((started_at ?? "") >= start_at);
  });

  await t.test("an Idempotency-Key replays the response to the byte", async () => {
    const headers = { "idempotency-key": "5b6a-1" };
    const body = '[{"type":"echo","tag":"once"},{"type":"echo","colour":1}]';
    const first = await client.post(body, headers);
    const second = await client.post(body, headers);
    const other = await client.send("/v1/tasks/task_post", { body: `${body} `, headers });

    assert.equal(first.headers.get("idempotent-replayed"), null);
    assert.equal(second.headers.get("idempotent-replayed"), "true");
    assert.equal(second.text, first.text);
    assert.deepEqual([other.status, other.body.status_code], [422, 42200]);
    assert.equal((await client.send("/v1/tasks?tag=once")).body.tasks.length, 1);
  });
}

async function killed(t: TestContext, subject: Subject): Promise<void> {
  await t.test("an acknowledged task survives SIGKILL of the process", async (t) => {
    const args = ["start", "--port", "0"];
    const first = subject.launch(t, args);
    const { url } = await first.ready;
    const { cwd } = first;
    const made = await subject.run(t, ["admin", "account", "create", "a", "--json"], { cwd });
    const authorization = bearer(JSON.parse(made.stdout).key.key);
    const task = { start_at: later(), input: "kept" };
    const { id } = only(await new Client(url, authorization).post(task));
    first.kill("SIGKILL");
    await first.exit;

    const again = await subject.launch(t, args, { cwd }).ready;
    const { state, data } = only(await new Client(again.url, authorization).get(id));
    assert.deepEqual([state, data["input"]], ["queued", "kept"]);
  });
}

async function taskGet(t: TestContext, client: Client): Promise<void> {
  await t.test("Prefer: wait=N holds task_get until the task finishes", async (t) => {
    const { receiver, gate } = await startHeld(t, '"done"');
    const { id } = only(await client.post({ type: "call", input: { url: receiver.url() } }));
    await receiver.next();
    const running = only(await client.get(id, "?collect=false"));
    const waiting = client.send(`/v1/tasks/task_get/${id}`, { headers: { prefer: "wait=60" } });
    gate.open();

    assert.deepEqual(outcome(running), ["running", 40601, "Task In Progress.", 1]);
    const task = only(await waiting);
    assert.deepEqual([task.state, task.result], ["completed", "done"]);
  });

  await t.test("the first GET collects a finished task, and HEAD does not", async () => {
    const { id } = only(await client.run({ type: "echo", tag: "left" }));
    const head = await client.send(`/v1/tasks/task_get/${id}`, { method: "HEAD" });
    assert.deepEqual(await client.ready("?tag=left"), [id]);
    const get = await client.get(id);
    const etag = get.headers.get("etag") ?? "";
    const path = `/v1/tasks/task_get/${id}`;
    const same = await client.send(path, { headers: { "if-none-match": etag } });

    assert.deepEqual([head.status, head.text, head.headers.get("etag")], [200, "", etag]);
    assert.deepEqual([same.status, same.text], [304, ""]);
    assert.deepEqual(await client.ready("?tag=left"), []);
    assert.equal((await client.get(id)).text, get.text);
  });
}

async function lists(t: TestContext, served: Served): Promise<void> {
  const { key } = await createAccount(served, "reader");
  const client = new Client(served.url, bearer(key.key));
  const ids: string[] = [];
  for (const task of [
    { type: "echo", tag: "a", input: "secret of a" },
    { type: "fail", tag: "b" },
    { type: "echo", tag: "ü & +" },
    { type: "echo", tag: "a" },
  ]) {
    ids.push(only(await client.run(task)).id);
  }
  const [first = "", second = "", third = "", last = ""] = ids;

  await t.test("tasks_ready walks through finished tasks, oldest first", async () => {
    assert.deepEqual(await walk(client, "/v1/tasks/tasks_ready"), [[first, second, third], [last]]);
    assert.deepEqual(await client.ready(`?tag=${encodeURIComponent("ü & +")}`), [third]);
  });

  await t.test("/v1/tasks walks through all tasks, newest first, by a filter", async () => {
    const queued = only(await client.post({ type: "echo", start_at: later() })).id;
    const all = [queued, last, third, second, first];
    assert.deepEqual(await walk(client, "/v1/tasks"), [all.slice(0, 3), all.slice(3)]);
    const { body } = await client.send("/v1/tasks?tag=a&state=completed&type=echo");
    assert.deepEqual(idsOf({ body }), [last, first]);
    for (const task of body.tasks) {
      const names = [...Object.keys(task), ...Object.keys(task.data)];
      for (const name of ["input", "result", "error"]) assert.ok(!names.includes(name), name);
    }
  });
}

async function taskCancel(t: TestContext, client: Client): Promise<void> {
  await t.test(
    "task_cancel ends a queued task, and stops the command of a running one",
    async (t) => {
      const { receiver } = await startHeld(t, "1");
      const queued = only(await client.post({ type: "echo", start_at: later() }));
      const running = only(await client.post({ type: "call", input: { url: receiver.url() } }));
      await receiver.next();

      for (const [id, runs] of [
        [queued.id, 0],
        [running.id, 1],
      ] as const) {
        const cancel = () => client.send(`/v1/tasks/task_cancel/${id}`, { method: "POST" });
        const cancelled = await cancel();
        assert.deepEqual(outcome(only(cancelled)), ["cancelled", 40901, "Task Cancelled.", runs]);
        assert.equal((await cancel()).text, cancelled.text);
      }
      // Its connection ends with the command.
      await receiver.whenDisconnected();
      const { id } = only(await client.run({ type: "echo" }));
      const { body } = await client.send(`/v1/tasks/task_cancel/${id}`, { method: "POST" });
      assert.equal(body.status_code, 40902);
    },
  );
}

/** A receiver for a task of the type `call`; it sends the result when the gate opens. */
async function startHeld(t: TestContext, result: string) {
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

function outcome({ state, status_code, status_message, runs }: Task): readonly unknown[] {
  return [state, status_code, status_message, runs];
}
