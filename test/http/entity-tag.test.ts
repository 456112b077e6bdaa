import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { clusterTest } from "../helpers/cluster-test.ts";
import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { openRaw, toBytes } from "../helpers/raw-http.ts";
import { bearer, taskGet, TASKS_READY } from "./answer.ts";
import { cancelPath, openHeldTasks, request, toPlainAnswer } from "./task-requests.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const LATER = "2030-01-31T10:00:00Z";

async function postOne(daemon: TestDaemon, task: object): Promise<string> {
  const [posted] = (await daemon.post(task)).tasks;
  assert(posted !== undefined);
  return posted.id;
}

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

test("every finished task has a strong tag of its own, and an unfinished one has none", async (t) => {
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
    // What a client knows of an unfinished task is never up to date.
    const known = await request(daemon, { target: taskGet(id), headers: ifNoneMatch("*") });
    assert.equal(known.status, 200);
  }
});

clusterTest(
  "a tag stays the same: for GET and HEAD, before and after collecting, over a restart",
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

clusterTest(
  "a client that has the task already gets 304: no body, no media type, and nothing is collected",
  async (t) => {
    const { daemon, id, tag } = await startFinished(t);
    const connection = await openRaw(t, daemon.url);
    const forms: readonly (readonly string[])[] = [
      [tag],
      [`W/${tag}`],
      ["*"],
      [`"x", ${tag}`],
      [`"x",W/"y",${tag},"z"`],
      [`  ${tag}  `],
      ['"x"', tag],
      ['"x"', `"y", W/${tag}`],
    ];
    for (const form of forms) {
      for (const method of ["GET", "HEAD"]) {
        const headers = [bearer(daemon), ...ifNoneMatch(...form)];
        connection.send(toBytes({ method, target: taskGet(id), headers }));
        const got = toPlainAnswer(await connection.next());
        assert.deepEqual([got.status, got.text], [304, ""], `${method} ${form.join("|")}`);
        assert.equal(got.header("etag"), tag);
        for (const name of ["content-type", "content-length", "transfer-encoding"]) {
          assert.equal(got.header(name), null, name);
        }
        assert.notEqual(got.header("x-request-id"), null);
      }
    }
    assert.equal((await daemon.ready()).tasks_count, 1);
    // The connection goes on, and a 200 collects.
    connection.send(toBytes({ target: taskGet(id), headers: [bearer(daemon)] }));
    assert.equal(toPlainAnswer(await connection.next()).code, 20000);
    assert.equal((await daemon.ready()).tasks_count, 0);
  },
);

test("a tag that is not the task's is no reason for 304: the answer is whole and collects", async (t) => {
  const { daemon, id, tag } = await startFinished(t);
  const inside = tag.slice(1, -1);
  const others = [
    ['"x"', inside, `"${inside}`, `${inside}"`, tag.toLowerCase(), `"${inside}x"`, `"W/${inside}"`],
    ["", ",", '""', "W/", '"*"', "**", `w/${tag}`, `X/${tag}`, `'${inside}'`],
  ].flat();
  for (const other of others) {
    if (other === tag) continue;
    const target = taskGet(id, "?collect=false");
    const got = await request(daemon, { target, headers: ifNoneMatch(other) });
    assert.deepEqual([got.status, got.code, got.header("etag")], [200, 20000, tag], other);
  }
  assert.equal((await daemon.ready()).tasks_count, 1);
  await request(daemon, { target: taskGet(id), headers: ifNoneMatch('"x"') });
  assert.equal((await daemon.ready()).tasks_count, 0);
});

test("a 304 needs the task as any answer does: no key is 40100, another's task is 40401", async (t) => {
  const { daemon, id } = await startFinished(t);
  const headers = ifNoneMatch("*");
  const stranger = { ...daemon, account: { ...daemon.account, key: "nonsense" } };
  assert.equal((await request(stranger, { target: taskGet(id), headers })).code, 40100);
  const unknown = id.replace(/.$/, (last) => (last === "0" ? "1" : "0"));
  const none = await request(daemon, { target: taskGet(unknown), headers });
  assert.deepEqual([none.code, none.header("etag")], [40401, null]);
  assert.equal((await request(daemon, { target: TASKS_READY, headers })).status, 200);
});

clusterTest(
  "a client that waits with a tag is answered 304 where the task is as it knows it",
  async (t) => {
    const { daemon, id, tag } = await startFinished(t);
    const headers = ["Prefer: wait=60", ...ifNoneMatch(tag)];
    const got = await request(daemon, { target: taskGet(id), headers });
    assert.deepEqual([got.status, got.header("preference-applied")], [304, "wait=60"]);
  },
);
