import assert from "node:assert/strict";
import { test } from "node:test";

import type { FieldsOf } from "../../src/api/operations.ts";
import { startWithWorker } from "../flow/worker-client.ts";
import { clusterTest } from "../helpers/cluster-test.ts";
import { createTestAccount, startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { farStart } from "../helpers/far-start.ts";
import { ask, JSON_TYPE } from "./answer.ts";
import { NOW, startAt9 } from "./at-nine.ts";
import { asked, byKey, postJson, type Asker } from "./search-requests.ts";
import { request } from "./task-requests.ts";

const PATH = "/v1/tasks/cancel";
const WORKER =
  '[types.echo]\nrunner = "echo"\n[types.print]\nrunner = "worker"\n[types.scan]\nrunner = "worker"\n';
const PORTION = 1000;

type Cancelled = FieldsOf<"POST /v1/tasks/cancel">;

async function cancelOnce(
  daemon: TestDaemon,
  filter: object,
  who: Asker = byKey(daemon),
): Promise<Cancelled> {
  const { queued, running, dry_run, next_cursor } = await asked<Cancelled>(
    daemon,
    postJson(PATH, who, filter),
  );
  return { queued, running, dry_run, next_cursor };
}

/** Goes on until nothing is left; how many there were, and how many requests it took. */
async function cancelAll(daemon: TestDaemon, filter: object = {}) {
  const total = { queued: 0, running: 0, requests: 0 };
  let cursor: string | null = null;
  do {
    const page: Cancelled = await cancelOnce(daemon, { ...filter, cursor });
    total.queued += page.queued;
    total.running += page.running;
    total.requests++;
    assert(page.queued + page.running <= PORTION, "more than a portion was cancelled at once");
    cursor = page.next_cursor;
  } while (cursor !== null);
  return total;
}

async function post(daemon: TestDaemon, tasks: readonly object[]): Promise<readonly string[]> {
  const ids: string[] = [];
  for (let at = 0; at < tasks.length; at += 100) {
    ids.push(...(await daemon.post(tasks.slice(at, at + 100))).tasks.map(({ id }) => id));
  }
  return ids;
}

async function statesOf(daemon: TestDaemon, ids: readonly string[]): Promise<readonly string[]> {
  return Promise.all(ids.map(async (id) => (await daemon.get(id)).state));
}

function many(count: number, task: object): readonly object[] {
  return Array.from({ length: count }, () => task);
}

clusterTest(
  "queued and running tasks of the account are cancelled, ended and foreign ones are not",
  async (t) => {
    const { daemon, worker } = await startWithWorker(t, { toml: WORKER });
    const other = { ...daemon, account: await createTestAccount(daemon.file, "other") };
    const [ended = ""] = await post(daemon, [{ type: "echo" }]);
    await daemon.daemon.idle();
    const own = await post(daemon, [
      ...many(3, { type: "print" }),
      { type: "scan", start_at: farStart() },
    ]);
    const lease = await worker.claimOne();
    const body = JSON.stringify({ type: "print" });
    const theirs = await fetch(`${daemon.url}/v1/tasks/task_post`, {
      method: "POST",
      headers: { authorization: `Bearer ${other.account.key}`, "content-type": "application/json" },
      body,
    });
    assert.equal(theirs.status, 200);

    const done = { queued: 3, running: 1, dry_run: false, next_cursor: null };
    assert.deepEqual(await cancelOnce(daemon, {}), done);

    assert.deepEqual(await statesOf(daemon, own), Array(4).fill("cancelled"));
    assert.equal(await worker.heartbeat(lease), "cancelled");
    assert.equal((await daemon.get(ended)).state, "completed");
    assert.deepEqual(await cancelOnce(daemon, {}), { ...done, queued: 0, running: 0 });
    assert.equal((await cancelOnce(daemon, { dry_run: true }, byKey(other))).queued, 1);
  },
);

test("tasks that pass all filters are cancelled, and no others", async (t) => {
  const { clock, daemon } = await startAt9(t, WORKER);
  const meant = { type: "print", tag: "a" };
  const [early = ""] = await post(daemon, [meant]);
  clock.advance(60_000);
  const [first = "", otherTag = "", noTag = "", otherType = ""] = await post(daemon, [
    ...[meant, { type: "print", tag: "b" }, { type: "print" }, { type: "scan", tag: "a" }],
  ]);
  clock.advance(60_000);
  const [late = ""] = await post(daemon, [meant]);
  const at = (ms: number): string => new Date(NOW + ms).toISOString();

  const filter = { ...meant, created_after: at(60_000), created_before: at(120_000) };
  assert.equal((await cancelOnce(daemon, { ...filter, state: "running" })).queued, 0);
  assert.equal((await cancelOnce(daemon, { ...filter, state: "queued" })).queued, 1);

  assert.deepEqual(await statesOf(daemon, [first]), ["cancelled"]);
  const kept = [early, late, otherTag, noTag, otherType];
  assert.deepEqual(await statesOf(daemon, kept), Array(5).fill("queued"));
});

clusterTest("dry_run counts tasks and cancels none", async (t) => {
  const daemon = await startTestDaemon(t, { toml: WORKER });
  const ids = await post(daemon, many(120, { type: "print" }));

  const counted = { queued: 120, running: 0, dry_run: true, next_cursor: null };
  assert.deepEqual(await cancelOnce(daemon, { dry_run: true }), counted);

  assert.deepEqual(new Set(await statesOf(daemon, ids)), new Set(["queued"]));
});

clusterTest(
  "many tasks are cancelled in portions, and a task posted between two portions stays",
  async (t) => {
    const daemon = await startTestDaemon(t, { toml: WORKER });
    await post(daemon, many(PORTION + 350, { type: "print" }));
    const first = await cancelOnce(daemon, {});
    const [later = ""] = await post(daemon, [{ type: "print" }]);

    assert.deepEqual([first.queued, first.running], [PORTION, 0]);
    const { queued, next_cursor } = await cancelOnce(daemon, { cursor: first.next_cursor });

    assert.deepEqual([queued, next_cursor], [350, null]);
    assert.deepEqual(await statesOf(daemon, [later]), ["queued"]);
    assert.deepEqual(await cancelAll(daemon), { queued: 1, running: 0, requests: 1 });
  },
);

clusterTest("a few tasks among many are found in several requests", async (t) => {
  const daemon = await startTestDaemon(t, { toml: WORKER });
  // No index knows both; each portion of the walk looks at some thousands.
  await post(daemon, [{ type: "scan", tag: "b" }]);
  await post(daemon, many(2600, { type: "print", tag: "b" }));
  await post(daemon, many(2600, { type: "scan", tag: "a" }));

  const { queued } = await cancelAll(daemon, { type: "scan", tag: "b" });

  assert.equal(queued, 1);
});

clusterTest("concurrent requests of one account cancel each task once", async (t) => {
  const daemon = await startTestDaemon(t, { toml: WORKER });
  await post(daemon, many(700, { type: "print" }));

  const answers = await Promise.all(Array.from({ length: 8 }, () => cancelOnce(daemon, {})));

  assert.equal(
    answers.reduce((sum, { queued }) => sum + queued, 0),
    700,
  );
});

test("a cursor of another filter, another account or another list is refused", async (t) => {
  const daemon = await startTestDaemon(t, { toml: WORKER });
  const other = { ...daemon, account: await createTestAccount(daemon.file, "other") };
  await post(daemon, many(PORTION + 1, { type: "print" }));
  const { next_cursor: cursor } = await cancelOnce(daemon, {});
  assert.notEqual(cursor, null);
  const refused = [
    { state: "completed" },
    { tags: "a" },
    { tag: 1 },
    { created_before: "tomorrow" },
    { dry_run: "yes" },
    { cursor: "x" },
    { cursor, state: "running" },
  ];

  for (const body of refused) {
    const { code } = await ask(daemon.url, postJson(PATH, byKey(daemon), body));
    assert.equal(code, 40501, JSON.stringify(body));
  }
  const stolen = await ask(daemon.url, postJson(PATH, byKey(other), { cursor }));
  assert.equal(stolen.code, 40501);
  const list = await request(daemon, { target: `/v1/tasks?cursor=${cursor}` });
  assert.equal(list.code, 40000);
  const headers = [JSON_TYPE];
  const empty = await request(daemon, { method: "POST", target: PATH, headers });
  assert.equal(empty.code, 40502);
});
