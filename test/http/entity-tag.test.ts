import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { clusterTest } from "../helpers/cluster-test.ts";
import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { openRaw, toBytes } from "../helpers/raw-http.ts";
import { bearer, taskGet } from "./answer.ts";
import { NOW, postOne } from "./at-nine.ts";
import { cancelPath, openHeldTasks, request, toPlainAnswer } from "./task-requests.ts";

const LATER = "2030-01-31T10:00:00Z";

async function tagOf(daemon: TestDaemon, id: string, method = "GET"): Promise<string | null> {
  const target = taskGet(id, "?collect=false");
  const { status, header } = await request(daemon, { method, target });
  assert.equal(status, 200);
  return header("etag");
}

/** A finished task that was not collected, and its tag. */
async function startFinished(
  t: TestContext,
): Promise<{ daemon: TestDaemon; id: string; tag: string }> {
  const daemon = await startTestDaemon(t);
  const id = await postOne(daemon, { input: [1.5] });
  await daemon.daemon.idle();
  const tag = await tagOf(daemon, id);
  assert(tag !== null);
  return { daemon, id, tag };
}

function ifNoneMatch(...values: readonly string[]): readonly string[] {
  return values.map((value) => `If-None-Match: ${value}`);
}

test("each finished task has a strong tag of its own, an unfinished task has none", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const held = await openHeldTasks(t);
  const toml = `${held.toml}[types.echo]\nrunner = "echo"\n`;
  const daemon = await startTestDaemon(t, { clock, toml });
  const cancelled = await postOne(daemon, { type: "echo", start_at: LATER });
  const finished = [
    await postOne(daemon, { type: "echo" }),
    await postOne(daemon, { type: "echo" }),
    await postOne(daemon, { type: "fail" }),
    await postOne(daemon, { typo: 1 }),
    cancelled,
  ];
  await daemon.daemon.idle();
  assert.equal(
    (await request(daemon, { method: "POST", target: cancelPath(cancelled) })).status,
    200,
  );
  const tags = await Promise.all(finished.map((id) => tagOf(daemon, id)));
  for (const tag of tags) assert.match(tag ?? "", /^"[\x21\x23-\x7e]{20,}"$/);
  assert.equal(new Set(tags).size, finished.length);

  const delayed = await postOne(daemon, { type: "echo", start_at: LATER });
  const running = await postOne(daemon, { type: "hold" });
  const queued = await postOne(daemon, { type: "hold" });
  await held.next();
  for (const id of [delayed, running, queued]) {
    assert.equal(await tagOf(daemon, id), null);
    const known = await request(daemon, { target: taskGet(id), headers: ifNoneMatch("*") });
    assert.equal(known.status, 200);
  }
});

clusterTest(
  "a tag is the same for GET and HEAD, before and after collecting, and after a restart",
  async (t) => {
    const { daemon, id, tag } = await startFinished(t);
    assert.equal(await tagOf(daemon, id, "HEAD"), tag);
    const collected = await request(daemon, { target: taskGet(id) });
    assert.equal(collected.header("etag"), tag);
    assert.equal(await tagOf(daemon, id), tag);
    await daemon.daemon.stop();
    const { folder, account } = daemon;
    const second = await startTestDaemon(t, { folder, account });
    assert.equal(await tagOf(second, id), tag);
  },
);

clusterTest("a 304 collects nothing", async (t) => {
  const { daemon, id, tag } = await startFinished(t);
  const connection = await openRaw(t, daemon.url);
  for (const [method, known] of [
    ["GET", tag],
    ["HEAD", "*"],
  ] as const) {
    const headers = [bearer(daemon), ...ifNoneMatch(known)];
    connection.send(toBytes({ method, target: taskGet(id), headers }));
    assert.equal((await connection.next()).status, 304, method);
  }
  assert.equal((await daemon.ready()).tasks_count, 1);
  // The connection goes on, and a 200 collects.
  connection.send(toBytes({ target: taskGet(id), headers: [bearer(daemon)] }));
  assert.equal(toPlainAnswer(await connection.next()).code, 20000);
  assert.equal((await daemon.ready()).tasks_count, 0);
});

clusterTest("a wait with the task's tag is 304", async (t) => {
  const { daemon, id, tag } = await startFinished(t);
  const headers = ["Prefer: wait=60", ...ifNoneMatch(tag)];
  const got = await request(daemon, { target: taskGet(id), headers });
  assert.deepEqual([got.status, got.header("preference-applied")], [304, "wait=60"]);
});
