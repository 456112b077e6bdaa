import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { DAY_MS } from "../../src/domain/clock/duration.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { createAccount } from "./authentication.ts";
import { bearer, Client, only, TIME, type Task } from "./client.ts";
import { PART, type Subject } from "./subject.ts";
import { startHeld, TOML, type Parts } from "./tasks.ts";

const SHOWN = [
  ...["id", "status_code", "status_message", "state", "type", "created_at", "started_at"],
  ...["completed_at", "expires_at", "runs", "progress", "data", "result", "error"],
];

/** Contract §3, the sentences below the table: what a task is as posted and as shown. */
export function exerciseTaskFields(subject: Subject): void {
  test("contract §3, what tasks are", PART, async (t) => {
    const served = await subject.serve(t, { toml: TOML });
    const client = new Client(served.url, bearer(served.account.key));
    await simplest(t, subject);
    await posted(t, client);
    await places(t, client);
    await shown(t, { served, client });
    await values(t, client);
    await idempotency(t, { served, client });
  });
}

async function simplest(t: TestContext, subject: Subject): Promise<void> {
  await t.test("task as posted, type: optional when only one is configured", async (t) => {
    const { url, account } = await subject.serve(t, { toml: "" });
    const task = only(await new Client(url, bearer(account.key)).run({ input: "x" }));
    assert.deepEqual([task.type, task.state, task.result], ["echo", "completed", "x"]);
  });
}

async function posted(t: TestContext, client: Client): Promise<void> {
  const field = async (task: object, name: string): Promise<void> => {
    const { status_code, status_message, state } = only(
      await client.post({ type: "echo", ...task }),
    );
    assert.deepEqual([status_code, state], [40501, "failed"], JSON.stringify(task));
    assert.ok(status_message.startsWith(`Invalid Field: '${name}'. `), status_message);
  };

  await t.test("task as posted, type: an unknown or a missing one is 40501", async () => {
    await field({ type: "no-such-type" }, "type");
    await field({ type: undefined }, "type");
    await field({ type: 1 }, "type");
  });

  await t.test("task as posted, input: any JSON, null when absent", async () => {
    for (const input of [null, false, 0, "", [], {}, { a: [{ b: null }] }]) {
      assert.deepEqual(only(await client.run({ type: "echo", input })).result, input);
    }
    assert.equal(only(await client.run({ type: "echo" })).result, null);
  });

  await t.test(
    "task as posted, tag: 255 well-formed code points, no control characters",
    async () => {
      for (const tag of ["", "😀".repeat(255), "ü \u00a0"]) {
        const task = only(await client.post({ type: "echo", tag }));
        assert.deepEqual([task.status_code, task.data["tag"]], [20100, tag]);
      }
      for (const tag of ["x".repeat(256), "a\u0000", "a\nb", "\u007f", "\ud800", 1, {}]) {
        await field({ tag }, "tag");
      }
    },
  );

  await t.test(
    "task as posted, postback_url and pingback_url: at most 2048 bytes, encoded",
    async () => {
      for (const name of ["postback_url", "pingback_url"]) {
        const url = `https://example.com/${"ü".repeat(300)}`;
        const room = 2048 - encodeURI(url).length;
        const accepted = await client.post({
          ...{ type: "echo", start_at: new Date(Date.now() + DAY_MS).toISOString() },
          [name]: url + "x".repeat(room),
        });
        assert.equal(only(accepted).status_code, 20100);
        await client.send(`/v1/tasks/task_cancel/${only(accepted).id}`, { method: "POST" });
        await field({ [name]: `${url}${"x".repeat(room + 1)}` }, name);
        for (const bad of ["", "/x", "http://localhost/", "http://u:p@example.com/", 1]) {
          await field({ [name]: bad }, name);
        }
      }
    },
  );

  await t.test("task as posted, marketplace: a configured code", async () => {
    const task = only(await client.post({ type: "echo", marketplace: "de" }));
    assert.deepEqual([task.status_code, task.data["marketplace"]], [20100, "de"]);
    for (const marketplace of ["fr", "DE", "", 1]) await field({ marketplace }, "marketplace");
  });

  await t.test("task as posted: an unknown field is 40506", async () => {
    for (const name of ["colour", "Tag", "id", "toString"]) {
      const { status_code, status_message } = only(
        await client.post({ type: "echo", [name]: "x" }),
      );
      assert.deepEqual([status_code, status_message], [40506, `Unknown Field: '${name}'.`]);
    }
  });
}

async function places(t: TestContext, client: Client): Promise<void> {
  await t.test("task as posted, priority: 0 to 9, higher first, 0 when absent", async (t) => {
    const { receiver, gate } = await startHeld(t, "1");
    const call = (tag: string, priority?: number): object => {
      return { type: "call", tag, priority, input: { url: receiver.url() } };
    };
    await client.post(call("first"));
    await receiver.next();
    const tasks = [call("none"), call("zero", 0), call("five", 5), call("nine", 9)];
    const { body } = await client.post(tasks);
    gate.open();

    const requests = await receiver.waitFor(5);
    const order = requests.map(({ rawBody }) => JSON.parse(String(rawBody)).tag);
    assert.deepEqual(order, ["first", "nine", "five", "none", "zero"]);
    for (const { id } of body.tasks) await client.finished(id);
    for (const priority of [-1, 10, 1.5, "5"]) {
      assert.equal(only(await client.post({ type: "echo", priority })).status_code, 40501);
    }
  });

  await t.test("task as posted, start_at: it does not start before", async () => {
    const start_at = new Date(Date.now() + 600).toISOString();
    const queued = only(await client.post({ type: "echo", start_at }));
    const task = only(await client.finished(queued.id));

    assert.ok((task.started_at ?? "") >= start_at, `${task.started_at} is not before ${start_at}`);
    for (const bad of ["tomorrow", 1, "2026-02-30T00:00:00Z"]) {
      assert.equal(only(await client.post({ type: "echo", start_at: bad })).status_code, 40501);
    }
  });
}

async function shown(t: TestContext, { served, client }: Parts): Promise<void> {
  await t.test("task as shown: queued", async () => {
    const start_at = new Date(Date.now() + DAY_MS).toISOString();
    const { id } = only(await client.post({ type: "echo", start_at }));
    const task = only(await client.get(id));

    assert.deepEqual(Object.keys(task).toSorted(), SHOWN.toSorted());
    assert.match(task.created_at, TIME);
    assert.deepEqual(outcome(task), ["queued", 40602, "Task In Queue.", 0]);
    const { started_at, completed_at, expires_at, progress, result, error } = task;
    const absent = [started_at, completed_at, expires_at, progress, result, error];
    assert.deepEqual(absent, Array(6).fill(null));
  });

  await t.test("task as shown: completed", async () => {
    const given = { type: "echo", tag: "t", priority: 3, marketplace: "de", input: { a: 1 } };
    const task = only(await client.run(given));

    assert.deepEqual(Object.keys(task).toSorted(), SHOWN.toSorted());
    assert.deepEqual(outcome(task), ["completed", 20000, "Ok.", 1]);
    assert.deepEqual([task.type, task.result, task.error], ["echo", { a: 1 }, null]);
    for (const [name, value] of Object.entries(given)) {
      if (name !== "type") assert.deepEqual(task.data[name], value, name);
    }
    const times = [task.created_at, task.started_at ?? "", task.completed_at ?? ""];
    for (const time of times) assert.match(time, TIME);
    assert.deepEqual(times, times.toSorted());
  });

  await t.test("task as shown: failed, with the runner's error", async () => {
    const task = only(await client.run({ type: "fail", input: 1 }));

    assert.deepEqual(outcome(task), ["failed", 50010, "Task Execution Failed.", 1]);
    assert.equal(task.result, null);
    assert.deepEqual(Object.keys(task.error ?? {}), ["message", "detail"]);
    assert.match(JSON.stringify(task.error), /broken/);
  });

  await t.test(
    "task as shown, expires_at: 30 days after completion, cancellation or refusal",
    async () => {
      const start_at = new Date(Date.now() + DAY_MS).toISOString();
      const completed = only(await client.run({ type: "echo" }));
      const { id } = only(await client.post({ type: "echo", start_at }));
      const before = Date.now();
      const options = { method: "POST" };
      const cancelled = only(await client.send(`/v1/tasks/task_cancel/${id}`, options));
      const refused = only(await client.post({ type: "echo", pingback_url: "x" }));
      const after = Date.now();

      assert.equal(timeOf(completed.expires_at), timeOf(completed.completed_at) + 30 * DAY_MS);
      for (const { expires_at } of [cancelled, refused]) {
        const time = timeOf(expires_at) - 30 * DAY_MS;
        assert.ok(time >= before && time <= after, String(expires_at));
      }
    },
  );

  await t.test(
    "a refused task: stored as failed, never runs, sends nothing, is never ready",
    async (t) => {
      const receiver = await startReceiver(t);
      const postback_url = receiver.url();
      const given = {
        type: "echo",
        tag: "refused",
        postback_url,
        pingback_url: "http://10.0.0.1/",
      };
      const answered = only(await client.post(given));
      const task = only(await client.get(answered.id));
      // What comes after it was sent after it would have been.
      await client.run({ type: "echo", postback_url: receiver.url("/later") });

      assert.deepEqual([task.state, task.status_code, task.runs], ["failed", 40501, 0]);
      assert.equal(task.status_message, answered.status_message);
      assert.match(task.status_message, /webhooks\.allow/);
      assert.equal((await receiver.next()).url, "/later");
      assert.deepEqual(await client.ready("?tag=refused"), []);
    },
  );

  await t.test("a cancelled task: never ready and sends nothing", async (t) => {
    const receiver = await startReceiver(t);
    const start_at = new Date(Date.now() + DAY_MS).toISOString();
    const given = { type: "echo", tag: "cancelled", postback_url: receiver.url(), start_at };
    const { id } = only(await client.post(given));
    await client.send(`/v1/tasks/task_cancel/${id}`, { method: "POST" });
    await client.run({ type: "echo", postback_url: receiver.url("/later") });

    assert.equal((await receiver.next()).url, "/later");
    assert.deepEqual(await client.ready("?tag=cancelled"), []);
  });

  await t.test("a failed task: ready, and sends its webhooks like a completed one", async (t) => {
    const { key } = await createAccount(served, "failing");
    const owner = new Client(served.url, bearer(key.key));
    const receiver = await startReceiver(t);
    const urls = { postback_url: receiver.url("/post"), pingback_url: receiver.url("/ping/$id") };
    const { id } = only(await owner.run({ type: "fail", ...urls }));

    const requests = await receiver.waitFor(2);
    const targets = requests.map(({ method, url }) => `${method} ${url}`);
    assert.deepEqual(targets.toSorted(), [`GET /ping/${id}`, "POST /post"]);
    assert.deepEqual(await owner.ready(), [id]);
  });
}

async function values(t: TestContext, client: Client): Promise<void> {
  await t.test(
    "input and result: numbers keep every digit and strings every character",
    async () => {
      const texts = [
        "[12345678901234567890123456789,0.1000000000000000055511151231257827,1e400,-0.0,1E-7,1.0]",
        JSON.stringify(['\u2028 \u0000 ü 😀 \\ " / \ud800', "<script>"]),
        '{"__proto__":{"constructor":1},"":[]}',
      ];
      for (const input of texts) {
        const id = only(await client.post(`[{"type":"echo","input":${input}}]`)).id;
        const { text } = await client.finished(id);
        if (input.startsWith("[1")) {
          assert.ok(text.includes(`"input":${input}`) && text.includes(`"result":${input}`), text);
        }
        assert.deepEqual(JSON.parse(text).tasks[0].result, JSON.parse(input));
      }
    },
  );

  await t.test("input and result: up to depth 64", async () => {
    const nested = (depth: number): string => "[".repeat(depth) + "]".repeat(depth);
    const body = (depth: number): string => `[{"type":"echo","input":${nested(depth)}}]`;
    const { id } = only(await client.post(body(64)));
    const { text } = await client.finished(id);
    const { body: refused } = await client.send("/v1/tasks/task_post", { body: body(65) });

    assert.ok(text.includes(`"result":${nested(64)}`));
    assert.notEqual(refused.tasks?.[0]?.status_code ?? refused.status_code, 20100);
  });

  await t.test("data: URLs in encoded form, $id and $tag left literal", async () => {
    const given = {
      type: "echo",
      start_at: new Date(Date.now() + DAY_MS).toISOString(),
      postback_url: "HTTP://BÜCHER.example:80/a b/ü?q=é#part",
      pingback_url: "https://Example.COM:443/ü $id/$tag?x=%24id",
    };
    const { id } = only(await client.post(given));
    const { data } = only(await client.get(id));

    assert.equal(data["postback_url"], "http://xn--bcher-kva.example/a%20b/%C3%BC?q=%C3%A9");
    assert.equal(data["pingback_url"], "https://example.com/%C3%BC%20$id/$tag?x=%24id");
  });
}

async function idempotency(t: TestContext, { served, client }: Parts): Promise<void> {
  const headers = { "idempotency-key": "5b6a-1" };
  const body = '[{"type":"echo","tag":"once"},{"type":"echo","colour":1}]';

  await t.test("Idempotency-Key: the same key and body answer as the first time", async () => {
    const first = await client.post(body, headers);
    const second = await client.post(body, headers);

    assert.equal(first.headers.get("idempotent-replayed"), null);
    assert.equal(second.headers.get("idempotent-replayed"), "true");
    assert.equal(second.text, first.text);
    const { body: list } = await client.send("/v1/tasks?tag=once");
    assert.equal(list.tasks.length, 1);
  });

  await t.test("Idempotency-Key: another body, to the byte, is 42200", async () => {
    for (const other of [`${body} `, '[{"type":"echo"}]']) {
      const answer = await client.send("/v1/tasks/task_post", { body: other, headers });
      assert.deepEqual([answer.status, answer.body.status_code], [422, 42200]);
    }
  });

  await t.test("Idempotency-Key: another account's key is another key", async () => {
    const { key } = await createAccount(served, "idempotent");
    const other = await new Client(served.url, bearer(key.key)).post('{"type":"echo"}', headers);
    assert.equal(other.headers.get("idempotent-replayed"), null);
  });

  await t.test("Idempotency-Key: only answers with HTTP 200 are kept", async () => {
    const options = { headers: { "idempotency-key": "fails-first" } };
    const refused = await client.send("/v1/tasks/task_post", { body: "[", ...options });
    const accepted = await client.post('{"type":"echo"}', options.headers);

    assert.equal(refused.status, 400);
    assert.deepEqual([only(accepted).status_code], [20100]);
    assert.equal(accepted.headers.get("idempotent-replayed"), null);
  });
}

function outcome({ state, status_code, status_message, runs }: Task): readonly unknown[] {
  return [state, status_code, status_message, runs];
}

function timeOf(time: string | null): number {
  return Date.parse(time ?? "");
}
