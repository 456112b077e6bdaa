import assert from "node:assert/strict";

import { clusterTest } from "../helpers/cluster-test.ts";
import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";

/** The ids of all pages. */
async function allPages(daemon: TestDaemon, query: string): Promise<readonly string[]> {
  const ids: string[] = [];
  for (let cursor: string | null | undefined = ""; cursor !== null;) {
    const page = await daemon.ready(cursor === "" ? `?${query}` : `?${query}&cursor=${cursor}`);
    ids.push(...page.tasks.map(({ id }) => id));
    cursor = page.next_cursor;
    assert.notEqual(cursor, undefined);
  }
  return ids;
}

clusterTest("finished tasks are listed without input, result and error", async (t) => {
  const daemon = await startTestDaemon(t);
  const empty = { status_code: 20000, status_message: "Ok.", tasks_count: 0, tasks_error: 0 };
  assert.deepEqual(await daemon.ready(), { ...empty, next_cursor: null, tasks: [] });
  await daemon.post({ input: "IN", tag: "t" });
  await daemon.daemon.idle();
  const [task] = (await daemon.ready()).tasks;

  assert.deepEqual(task?.data, { tag: "t" });
  assert.ok(!("result" in task) && !("error" in task));
});

clusterTest("ready tasks are filtered by tag, by type and by both", async (t) => {
  const toml = '[types.a]\nrunner = "echo"\n[types.b]\nrunner = "echo"\n';
  const daemon = await startTestDaemon(t, { toml });
  const tags = ["x", "", "a b&c=d", "é😀", "%41"];
  const posted = await daemon.post(
    ["a", "b"].flatMap((type) => [...tags, ...tags].map((tag) => ({ type, tag }))),
  );
  await daemon.post([{ type: "a" }, { type: "b" }]);
  await daemon.daemon.idle();
  for (const tag of tags) {
    const wanted = posted.tasks.filter((task) => task.type === "a" && task.data["tag"] === tag);
    const seen = await allPages(daemon, `limit=1&type=a&tag=${encodeURIComponent(tag)}`);
    assert.deepEqual(seen.toSorted(), wanted.map(({ id }) => id).toSorted(), tag);
  }
  assert.equal((await allPages(daemon, "limit=5&type=b")).length, 11);
  assert.equal((await allPages(daemon, "limit=3&tag=x")).length, 4);
  assert.equal((await daemon.ready("?tag=nobody")).tasks_count, 0);
  assert.equal((await daemon.ready("?type=nothing")).tasks_count, 0);
});
