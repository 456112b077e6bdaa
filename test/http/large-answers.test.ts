import assert from "node:assert/strict";
import { test } from "node:test";

import { clusterTest } from "../helpers/cluster-test.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { taskGet } from "./answer.ts";
import { request } from "./task-requests.ts";

// More than is answered from the main thread.
const LARGE = "\u4e2d\u{1f600}x".repeat(40_000);

clusterTest(
  "a large task has length, tag, HEAD and 304 as a small one, and is collected once",
  async (t) => {
    const daemon = await startTestDaemon(t);
    const { tasks } = await daemon.post({ type: "echo", input: { LARGE } });
    const [posted] = tasks;
    assert(posted !== undefined);
    await daemon.daemon.idle();
    const target = taskGet(posted.id);

    const head = await request(daemon, { method: "HEAD", target });
    const known = await request(daemon, {
      target,
      headers: [`If-None-Match: ${head.header("etag")}`],
    });
    assert.deepEqual([head.status, known.status, known.text], [200, 304, ""]);
    assert.equal((await daemon.ready()).tasks_count, 1);

    const got = await request(daemon, { target });
    assert.equal(got.status, 200);
    assert.equal(got.header("content-type"), "application/json");
    assert.equal(got.header("content-length"), String(Buffer.byteLength(got.text)));
    assert.equal(head.header("content-length"), got.header("content-length"));
    assert.equal(head.header("etag"), got.header("etag"));
    const {
      tasks: [task],
    } = JSON.parse(got.text);
    // Compared here, because a failure would print them.
    assert(task.result.LARGE === LARGE && task.data.input.LARGE === LARGE);
    assert.equal((await daemon.ready()).tasks_count, 0);
  },
);

test("a constant response is whole for each request, with its length and its tag", async (t) => {
  const daemon = await startTestDaemon(t);
  for (const target of [
    "/openapi.json",
    "/v1/appendix/status_codes",
    "/v1/appendix/marketplaces",
  ]) {
    const first = await request(daemon, { target });
    const tag = first.header("etag");
    assert.equal(first.header("content-length"), String(Buffer.byteLength(first.text)), target);
    const again = await request(daemon, { target });
    assert.deepEqual([again.text, again.header("etag")], [first.text, tag], target);
    const head = await request(daemon, { method: "HEAD", target });
    assert.equal(head.header("content-length"), first.header("content-length"), target);
    const known = await request(daemon, { target, headers: [`If-None-Match: ${tag}`] });
    assert.deepEqual([known.status, known.text], [304, ""], target);
  }
});
