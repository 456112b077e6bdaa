import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";

import type { FieldsOf } from "../../src/api/operations.ts";
import { startWithWorker } from "../flow/worker-client.ts";
import { clusterTest } from "../helpers/cluster-test.ts";
import { type TestDaemon, createTestAccount, startTestDaemon } from "../helpers/daemon.ts";
import { farStart } from "../helpers/far-start.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { NOW, startAt9 } from "./account.ts";
import { ask, complaints } from "./answer.ts";
import {
  type Asker,
  asked,
  byKey,
  byOperator,
  postJson,
  request,
  search,
} from "./task-requests.ts";

const LATER = farStart();
const ONE_ATTEMPT = "webhooks.retry_after = []\n";

/** A daemon with two accounts: one has tasks of all sorts, the other one. */
async function startSearched(t: TestContext) {
  const receiver = await startReceiver(t);
  receiver.answer(({ url }) => ({ kind: "status", status: url === "/bad" ? 500 : 204 }));
  const daemon = await startTestDaemon(t, { toml: ONE_ATTEMPT });
  const other = { account: await createTestAccount(daemon.file, "other") };
  await daemon.post([
    { type: "echo", tag: "good one", postback_url: receiver.url("/good") },
    { type: "echo", tag: "bad", postback_url: receiver.url("/bad") },
    { type: "echo", tag: "later", start_at: LATER },
    { type: "none", tag: "refused" },
  ]);
  await daemon.daemon.idle();
  const headers = { authorization: `Bearer ${other.account.key}`, ...JSON_HEADER };
  const body = JSON.stringify([{ type: "echo", tag: "bad", start_at: LATER }]);
  await daemon.call("/v1/tasks/task_post", { method: "POST", headers, body });
  return { daemon, other };
}

const JSON_HEADER = { "content-type": "application/json" };

clusterTest(
  "an account finds its tasks by each word, newest first, with the state of their webhooks",
  async (t) => {
    const { daemon } = await startSearched(t);
    const tags = async (q: string) => {
      const { tasks, next_cursor } = await search(daemon, byKey(daemon), { q });
      assert.equal(next_cursor, null);
      return tasks.map(({ tag }) => tag);
    };

    assert.deepEqual(await tags(""), ["refused", "later", "bad", "good one"]);
    assert.deepEqual(await tags("state:queued"), ["later"]);
    assert.deepEqual(await tags("state:ready,failed"), ["refused", "bad", "good one"]);
    assert.deepEqual(await tags('tag:"good one"'), ["good one"]);
    assert.deepEqual(await tags("delivery:given_up"), ["bad"]);
    assert.deepEqual(await tags("delivery:delivered host:127.0.0.1"), ["good one"]);
    assert.deepEqual(await tags("host:elsewhere.example"), []);
    assert.deepEqual(await tags("code:40501"), ["refused"]);
    assert.deepEqual(await tags("after:1h state:failed"), ["refused"]);
    assert.deepEqual(await tags("before:1h"), []);
    const [bad] = (await search(daemon, byKey(daemon), { q: "bad" })).tasks;
    assert.deepEqual(bad?.deliveries[0]?.last, {
      ...{ outcome: "failed", http_status: 500, error: "status is not 2xx" },
      ended_at: (bad?.deliveries[0]?.last as { ended_at?: string } | null)?.ended_at,
    });
    assert.equal(bad?.deliveries[0]?.attempts, 1);
    assert.deepEqual(complaints(daemon), []);
  },
);

clusterTest("the operator finds the tasks of all accounts, or of one", async (t) => {
  const { daemon, other } = await startSearched(t);
  const operator = await byOperator(daemon);
  const found = async (who: readonly string[], q: string) =>
    (await search(daemon, who, { q })).tasks.map(({ login, tag }) => `${login} ${tag}`).toSorted();

  assert.deepEqual(await found(operator, "bad"), ["other bad", "tester bad"]);
  assert.deepEqual(await found(operator, "bad account:other"), ["other bad"]);
  assert.deepEqual(await found(operator, "account:nobody"), []);
  assert.deepEqual(await found([...operator, "X-Account: other"], ""), ["other bad"]);
  assert.deepEqual(await found(byKey(other), ""), ["other bad"]);
});

clusterTest("no search shows an account a task of another account", async (t) => {
  const { daemon, other } = await startSearched(t);
  const { tasks } = await search(daemon, byKey(daemon), {});
  const nothing = { tasks: [], next_cursor: null, examined_until: null };
  for (const q of [...tasks.flatMap(({ id }) => [id, `id:${id}`]), "account:tester"]) {
    const { tasks: found, next_cursor, examined_until } = await search(daemon, byKey(other), { q });
    assert.deepEqual({ tasks: found, next_cursor, examined_until }, nothing, q);
  }
});

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
  for (const body of [
    { created_before: "tomorrow" },
    { cursor: "x" },
    { cursor, state: "running" },
  ]) {
    const { code } = await ask(daemon.url, postJson(PATH, byKey(daemon), body));
    assert.equal(code, 40501, JSON.stringify(body));
  }
  const stolen = await ask(daemon.url, postJson(PATH, byKey(other), { cursor }));
  assert.equal(stolen.code, 40501);
  const list = await request(daemon, { target: `/v1/tasks?cursor=${cursor}` });
  assert.equal(list.code, 40000);
});
