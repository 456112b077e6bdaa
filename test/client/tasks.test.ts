import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { PostbackdError, createClient } from "../../src/client/client.ts";
import { createTestAccount } from "../helpers/daemon.ts";
import { farStart } from "../helpers/far-start.ts";
import { findFreePort } from "../helpers/port.ts";
import { type Program, startProgram, temporaryFolder } from "../helpers/program.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { all, startClient } from "./calls.ts";

interface Work {
  readonly echo: {
    readonly input: { readonly n: number };
    readonly result: { readonly n: number };
  };
  readonly fails: { readonly input: null; readonly result: never };
}

const TOML = '[types.echo]\nrunner = "echo"\n[types.fails]\ncommand = ["false"]\n';

test("run posts a task, waits for its end and returns its result", async (t) => {
  const { client } = await startClient<Work>(t, { toml: TOML });

  const task = await client.tasks.run({ type: "echo", input: { n: 7 }, tag: "a" });

  assert.deepEqual([task.state, task.result.n, task.data.tag], ["completed", 7, "a"]);
  // It was collected.
  assert.deepEqual(await all(client.tasks.ready()), []);
});

test("run rejects with the code and the task when it fails", async (t) => {
  const { client } = await startClient<Work>(t, { toml: TOML });

  const error: unknown = await client.tasks.run({ type: "fails", input: null }).catch((e) => e);

  assert(error instanceof PostbackdError);
  assert.deepEqual([error.code, error.status, error.task?.state], [50010, null, "failed"]);
  assert.ok(error.message.includes(error.task?.id ?? "?"), error.message);
});

test("post rejects a refused task with the code and pointer of its field", async (t) => {
  const { client } = await startClient(t);

  await assert.rejects(client.tasks.post({ input: 1, priority: 10 }), (error) => {
    assert(error instanceof PostbackdError);
    const pointers = error.errors.map(({ pointer }) => pointer);
    assert.deepEqual([error.code, pointers], [40501, ["/priority"]]);
    return true;
  });
});

test("get, wait and cancel return the task; with collect: false it stays ready", async (t) => {
  const { client } = await startClient(t);
  const { id } = await client.tasks.post({ input: "x" });
  const later = await client.tasks.post({ input: "y", start_at: farStart() });

  const waited = await client.tasks.wait(id, { collect: false });
  const got = await client.tasks.get(id, { collect: false });
  const ready = await all(client.tasks.ready());
  const cancelled = await client.tasks.cancel(later.id);
  const again = await client.tasks.cancel(later.id);

  assert.deepEqual([waited.state, waited.result], ["completed", "x"]);
  assert.deepEqual(got, waited);
  assert.deepEqual(
    ready.map((task) => task.id),
    [id],
  );
  assert.deepEqual([cancelled.state, again.state], ["cancelled", "cancelled"]);
  await assert.rejects(client.tasks.cancel(id), { code: 40902, status: 409 });
});

test("list, ready and search read all pages, and stop with the loop", async (t) => {
  const { client, sent } = await startClient(t);
  const tasks = Array.from({ length: 250 }, (_, n) => ({ input: n, tag: `n${n % 2}` }));
  const posted = await client.tasks.postMany(tasks);
  await Promise.all(posted.map(({ id }) => client.tasks.wait(id, { collect: false })));
  const before = sent.length;

  const listed = await all(client.tasks.list());
  const odd = await all(client.tasks.list({ tag: "n1", state: "completed" }));
  const ready = await all(client.tasks.ready());
  const found = await all(client.tasks.search("state:completed tag:n0"));
  const requests = sent.length - before;
  for await (const task of client.tasks.list()) {
    assert.equal(task.state, "completed");
    break;
  }

  const ids = posted.map(({ id }) => id);
  assert.deepEqual(
    listed.map(({ id }) => id),
    ids.toReversed(),
  );
  assert.deepEqual(new Set(ready.map(({ id }) => id)), new Set(ids));
  assert.deepEqual([ready.length, odd.length, found.length], [250, 125, 125]);
  assert.ok(requests >= 3 + 2 + 3 + 3, String(requests));
  assert.equal(sent.length - before - requests, 1);
});

test("cancelMany counts with dry_run, and cancels the matching tasks", async (t) => {
  const { client } = await startClient(t);
  const start_at = farStart();
  const tasks = ["a", "a", "b"].map((tag) => ({ input: null, tag, start_at }));
  await client.tasks.postMany(tasks);

  const counted = await client.tasks.cancelMany({ tag: "a", dry_run: true });
  const cancelled = await client.tasks.cancelMany({ tag: "a" });
  const left = await all(client.tasks.list({ state: "queued" }));

  assert.deepEqual([counted, cancelled, left.length], [cancelled, { queued: 2, running: 0 }, 1]);
});

test("deliveries, timeline and redeliver show webhooks and send them again", async (t) => {
  const receiver = await startReceiver(t);
  const { client } = await startClient(t);
  const { id } = await client.tasks.run({ input: 1, postback_url: receiver.url("/done") });
  await receiver.waitFor(1);

  const again = await client.tasks.redeliver(id, { kind: "postback" });
  await receiver.waitFor(2);
  const deliveries = await client.tasks.deliveries(id);
  const timeline = await client.tasks.timeline(id, { time_zone: "Europe/Berlin" });

  assert.deepEqual([again.length, deliveries[0]?.kind], [1, "postback"]);
  assert.equal(timeline.task.id, id);
  assert.equal(timeline.deliveries.length, 1);
  assert.equal("status_code" in timeline, false);
});

test("postMany returns each task in order, and nothing for an empty list", async (t) => {
  const { client, sent } = await startClient(t);
  async function* tasks() {
    for (let n = 0; n < 101; n++) yield n === 50 ? { input: n, priority: 99 } : { input: n };
  }

  const posted = await client.tasks.postMany(tasks());
  const none = await client.tasks.postMany([]);

  assert.deepEqual(
    posted.map(({ data, state }) => [data["input"], state]),
    Array.from({ length: 101 }, (_, n) => [n, n === 50 ? "failed" : "queued"]),
  );
  assert.equal(posted[50]?.status_code, 40501);
  assert.deepEqual(none, []);
  const posts = sent.filter((request) => request.startsWith("POST "));
  assert.equal(posts.length, 2);
});

test("postMany keeps its pages within the daemon's limit of bytes", async (t) => {
  const { client, sent } = await startClient(t, { toml: '[limits]\nbody = "64KiB"\n' });
  const input = "ü".repeat(10_000);

  const posted = await client.tasks.postMany(Array.from({ length: 10 }, () => ({ input })));

  assert.ok(posted.every(({ state }) => state === "queued"));
  const posts = sent.filter((request) => request.startsWith("POST "));
  assert.equal(posts.length, 4);
});

for (const [raised, small, large] of [
  ["tasks", "tasks_per_post = 10", ""],
  ["bytes", 'body = "16KiB"', 'body = "256KiB"'],
] as const) {
  test(`postMany creates no task twice when it is repeated after a raise of the limit of ${raised}`, async (t) => {
    const folder = temporaryFolder(t);
    const { key } = await createTestAccount(join(folder, "postbackd.db"));
    const inputs = Array.from({ length: 120 }, (_, n) => `${n} ${"x".repeat(n * 10)}`);
    const post = async (limits: string, count: number) => {
      writeFileSync(join(folder, "postbackd.toml"), `[limits]\n${limits}\n`);
      const program = startProgram(t, ["start", "--port", "0"], { cwd: folder });
      const { url } = await program.ready;
      const { tasks } = createClient({ url, key });
      const read = function* () {
        for (const input of inputs.slice(0, count)) yield { input };
        if (count < inputs.length) throw new Error("ended in between");
      };
      const posted = await tasks
        .postMany(read(), { idempotencyKey: "import" })
        .catch((error: unknown) => {
          assert.ok(error instanceof Error && error.message === "ended in between", String(error));
          return [];
        });
      const listed = await all(tasks.list());
      program.kill("SIGTERM");
      await program.exit;
      return { posted: posted.map(({ data }) => data["input"]), listed: listed.length };
    };

    const { listed: before } = await post(small, 100);
    const { posted, listed } = await post(large, inputs.length);

    assert.ok(before >= 50 && before < 100, String(before));
    assert.deepEqual([posted, listed], [inputs, inputs.length]);
  });
}

test("postMany with another task under its key rejects with 42200 and posts nothing", async (t) => {
  const { client } = await startClient(t);
  const idempotencyKey = "import";
  await client.tasks.postMany([{ input: 1 }, { input: 2 }], { idempotencyKey });

  const changed = client.tasks.postMany([{ input: 1 }, { input: 3 }], { idempotencyKey });

  await assert.rejects(changed, { name: "PostbackdError", code: 42200, idempotencyKey });
  assert.equal((await all(client.tasks.list())).length, 2);
});

test("postMany that failed continues with its key, and creates no task twice", async (t) => {
  const { client } = await startClient(t, { toml: '[limits]\nbody = "64KiB"\n' });
  const small = Array.from({ length: 100 }, (_, n) => ({ input: String(n) }));
  const failed = await client.tasks
    .postMany([...small, { input: "x".repeat(70_000) }])
    .catch((error: unknown) => error);
  assert(failed instanceof PostbackdError);
  assert.deepEqual([failed.code, failed.status], [41300, 413]);
  assert(failed.idempotencyKey !== null);

  const { idempotencyKey } = failed;
  const posted = await client.tasks.postMany([...small, { input: "x" }], { idempotencyKey });

  const listed = await all(client.tasks.list());
  assert.deepEqual([posted.length, listed.length], [101, 101]);
});

const TASKS = 3000;
const KILLS = 5;
/** The pages of 100 tasks between two kills. */
const EACH = 6;

test("postMany posts 3,000 tasks exactly once although the daemon is killed and restarted five times", async (t) => {
  const cwd = temporaryFolder(t);
  const { key } = await createTestAccount(join(cwd, "postbackd.db"));
  const port = await findFreePort();
  const start = (): Program => startProgram(t, ["start", "--port", String(port)], { cwd });
  let program = start();
  await program.ready;
  const restart = async (): Promise<void> => {
    program.kill("SIGKILL");
    await program.exit;
    program = start();
  };
  let posts = 0;
  let kills = 0;
  const client = createClient({
    url: `http://127.0.0.1:${port}`,
    key,
    retries: 12,
    async fetch(input, init) {
      const answer = fetch(input, init);
      // In the middle of each fifth of the pages; no retry after a kill is cut off.
      if (init?.method !== "POST" || ++posts % EACH !== EACH / 2 || kills === KILLS) return answer;
      kills++;
      // Before every other kill the page is committed, and its response is lost.
      const isCommitted = kills % 2 === 0;
      if (isCommitted) await answer;
      void restart();
      if (isCommitted) throw new TypeError("the response is lost");
      return answer;
    },
  });
  const tasks = Array.from({ length: TASKS }, (_, n) => ({ input: n }));

  const posted = await client.tasks.postMany(tasks);

  await program.ready;
  const listed = await all(client.tasks.list());
  assert.equal(kills, KILLS);
  assert.deepEqual(
    posted.map(({ data }) => data["input"]),
    Array.from({ length: TASKS }, (_, n) => n),
  );
  assert.deepEqual(listed.map(({ id }) => id).toSorted(), posted.map(({ id }) => id).toSorted());
  assert.equal(new Set(posted.map(({ id }) => id)).size, TASKS);
});
