import assert from "node:assert/strict";
import { type TestContext } from "node:test";

import { clusterTest } from "../helpers/cluster-test.ts";
import { createTestAccount, startTestDaemon } from "../helpers/daemon.ts";
import { farStart } from "../helpers/far-start.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { ask, complaints } from "./answer.ts";
import { byKey, byOperator, search } from "./search-requests.ts";

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

clusterTest(
  "a search continues at its cursor and refuses the cursor of another list",
  async (t) => {
    const { daemon } = await startSearched(t);
    const found: (string | null)[] = [];
    let cursor: string | null = null;
    do {
      const query: Record<string, string> =
        cursor === null ? { limit: "1" } : { limit: "1", cursor };
      const page = await search(daemon, byKey(daemon), query);
      found.push(...page.tasks.map(({ tag }) => tag));
      cursor = page.next_cursor;
    } while (cursor !== null);

    assert.deepEqual(found, ["refused", "later", "bad", "good one"]);
    const list = await daemon.call("/v1/tasks?limit=1");
    const { next_cursor } = (await list.json()) as { readonly next_cursor: string };
    const target = `/v1/tasks/search?cursor=${next_cursor}`;
    assert.equal((await ask(daemon.url, { target, headers: byKey(daemon) })).code, 40000);
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
