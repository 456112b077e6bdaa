import assert from "node:assert/strict";
import { test } from "node:test";

import { clusterTest } from "../helpers/cluster-test.ts";
import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { openRaw } from "../helpers/raw-http.ts";
import { ask, askOn, bearer, TASKS_READY } from "./answer.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");

/** Walks through all pages; `between` happens after each. */
async function allPages(
  daemon: TestDaemon,
  query: string,
  between: () => Promise<unknown> = () => Promise.resolve(),
): Promise<readonly string[]> {
  const ids: string[] = [];
  for (let cursor: string | null | undefined = ""; cursor !== null;) {
    const page = await daemon.ready(cursor === "" ? `?${query}` : `?${query}&cursor=${cursor}`);
    ids.push(...page.tasks.map(({ id }) => id));
    cursor = page.next_cursor;
    assert.notEqual(cursor, undefined);
    await between();
  }
  return ids;
}

async function postMany(daemon: TestDaemon, count: number): Promise<readonly string[]> {
  const { tasks } = await daemon.post(Array.from({ length: count }, (_, i) => ({ input: i })));
  return tasks.map(({ id }) => id);
}

clusterTest(
  "lists finished tasks without input, result and error, and an empty list the same way",
  async (t) => {
    const daemon = await startTestDaemon(t);
    const empty = { status_code: 20000, status_message: "Ok.", tasks_count: 0, tasks_error: 0 };
    assert.deepEqual(await daemon.ready(), { ...empty, next_cursor: null, tasks: [] });
    await daemon.post({ input: "IN", tag: "t" });
    await daemon.daemon.idle();
    const [task] = (await daemon.ready()).tasks;

    assert.deepEqual(task?.data, { tag: "t" });
    assert.ok(!("result" in task) && !("error" in task));
  },
);

test("a query that says anything but what is known, once and in range, is 40000 and never clamped", async (t) => {
  const daemon = await startTestDaemon(t);
  const connection = await openRaw(t, daemon.url);
  const malformed = [
    ["limit=0", "limit=1001", "limit=-1", "limit=1.0", "limit=1e2", "limit=0x10", "limit=+1"],
    ["limit=", "limit", "limit=%20", "limit=1%00", "limit=ten", "limit=9999999999999999999999"],
    ["limit=1&limit=1", "limit=1&limit=2", "tag=a&tag=b", "tag=a&tag=a", "type=a&type=", "tag&tag"],
    ["Limit=1", "LIMIT=1", "offset=1", "page=2", "state=completed", "nonsense", "limit[]=1", "=1"],
    ["__proto__=1", "constructor=1", "toString", "hasOwnProperty=x", "collect=true", "limit%00=1"],
    [`tag=${"x".repeat(511)}`, `type=${"x".repeat(65)}`, "limit=１０", "limit=%EF%BC%91", "%zz=1"],
  ].flat();
  for (const query of malformed) {
    const target = `${TASKS_READY}?${encodeURI(query).replaceAll("%25", "%")}`;
    const { code, body } = await askOn(connection, { target, headers: [bearer(daemon)] });
    assert.equal(code, 40000, query);
    assert.equal(body.errors?.length, 1);
  }
  for (const query of [
    "",
    "?",
    "?&",
    "?&&limit=1&",
    "?limit=1000",
    "?limit=001",
    "?tag=",
    "?type=",
  ]) {
    const { code } = await ask(daemon.url, {
      ...{ target: TASKS_READY + query, headers: [bearer(daemon)] },
    });
    assert.equal(code, 20000, query);
  }
});

test("what is repeated of an unknown parameter's name is cut and harmless", async (t) => {
  const daemon = await startTestDaemon(t);
  const target = `${TASKS_READY}?${"x".repeat(5000)}=${"SECRET".repeat(100)}`;
  const { code, body, response } = await ask(daemon.url, { target, headers: [bearer(daemon)] });
  assert.equal(code, 40000);
  assert.ok((body.errors?.[0]?.detail.length ?? 0) < 200);
  assert.doesNotMatch(response.body.toString() + daemon.logLines.join(""), /SECRET/);
});

test("a cursor that was not given out is 40000", async (t) => {
  const daemon = await startTestDaemon(t);
  await postMany(daemon, 3);
  await daemon.daemon.idle();
  const { next_cursor: cursor } = await daemon.ready("?limit=1");
  assert.ok(cursor);
  const made = (text: string) => Buffer.from(text).toString("base64url");
  const plain = Buffer.from(cursor, "base64url").toString();
  const forged = [
    ["", "x", "null", "0", "-", "AAAA", cursor.slice(1), cursor.slice(0, -1), `${cursor}A`],
    [`${cursor}=`, `${cursor}==`, ` ${cursor}`, `${cursor} `, cursor.toLowerCase(), `${cursor}.`],
    [
      plain,
      made("ready-1-"),
      made("ready--1"),
      made("ready-1"),
      made("ready-1-2-3"),
      made("ready--1-2"),
      made("ready-1--2"),
    ],
    [
      made("ready-01-2"),
      made("ready-1-02"),
      made("ready-1.0-2"),
      made("ready-1e3-2"),
      made("ready- 1-2"),
      made(" ready-1-2"),
      made("1-2"),
      made("tasks-1-2"),
      made("ready-1-2\n"),
    ],
    [
      made("ready-1-2 OR 1=1"),
      made("ready-9999999999999999-1"),
      made("ready-NaN-NaN"),
      made("ready-1-2\u0000"),
    ],
    [Buffer.from("1-2").toString("base64").concat("=="), "%00", "../../x", "x".repeat(8000)],
  ].flat();
  for (const text of forged) {
    const target = `${TASKS_READY}?cursor=${encodeURIComponent(text)}`;
    const { code } = await ask(daemon.url, { target, headers: [bearer(daemon)] });
    assert.equal(code, 40000, text);
  }
  const repeated = `${TASKS_READY}?cursor=${cursor}&cursor=${cursor}`;
  assert.equal(
    (await ask(daemon.url, { target: repeated, headers: [bearer(daemon)] })).code,
    40000,
  );
});

clusterTest("pages are complete and without doubles, whatever their size", async (t) => {
  const daemon = await startTestDaemon(t);
  const ids = await postMany(daemon, 60);
  await daemon.daemon.idle();
  const whole = (await daemon.ready()).tasks.map(({ id }) => id);
  assert.deepEqual(whole.toSorted(), ids.toSorted());
  for (const limit of [1, 7, 59, 60, 61, 1000]) {
    assert.deepEqual(await allPages(daemon, `limit=${limit}`), whole);
  }
});

test("pages are complete when every task finished in the same millisecond", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock });
  const ids = await postMany(daemon, 50);
  await daemon.daemon.idle();
  assert.deepEqual((await allPages(daemon, "limit=3")).toSorted(), ids.toSorted());
});

clusterTest(
  "what was ready when the paging began comes once, while other tasks finish and are collected",
  async (t) => {
    const daemon = await startTestDaemon(t);
    const ids = await postMany(daemon, 100);
    await daemon.daemon.idle();
    const first = (await daemon.ready("?limit=20")).tasks.map(({ id }) => id);
    let isBusy = true;
    const busy = (async () => {
      for (let i = 0; isBusy && i < 200; i++) {
        await postMany(daemon, 3);
        // What was seen already may go; what comes after it must not move because of that.
        const id = first[i];
        if (id !== undefined) await (await daemon.call(`/v1/tasks/task_get/${id}`)).text();
      }
    })();
    const seen = await allPages(daemon, "limit=7", async () => {
      if (isBusy) await postMany(daemon, 1);
      const { tasks } = await daemon.ready("?limit=1000");
      if (tasks.length > 200) isBusy = false;
    });
    isBusy = false;
    await busy;

    assert.equal(new Set(seen).size, seen.length);
    const collected = new Set(first);
    const missed = ids.filter((id) => !seen.includes(id) && !collected.has(id));
    assert.deepEqual(missed, []);
  },
);

clusterTest("filters by tag and by type, alone, together and across pages", async (t) => {
  const toml = '[types.a]\nrunner = "echo"\n[types.b]\nrunner = "echo"\n';
  const daemon = await startTestDaemon(t, { toml });
  const tags = ["x", "y", "", "a b&c=d", "é😀", "%41"];
  const posted = await daemon.post(
    ["a", "b"].flatMap((type) =>
      tags.flatMap((tag) => [
        { type, tag },
        { type, tag },
      ]),
    ),
  );
  await daemon.post([{ type: "a" }, { type: "b" }]);
  await daemon.daemon.idle();
  for (const type of ["a", "b"]) {
    for (const tag of tags) {
      const wanted = posted.tasks.filter((task) => task.type === type && task.data["tag"] === tag);
      const query = `limit=1&type=${type}&tag=${encodeURIComponent(tag)}`;
      const seen = await allPages(daemon, query);
      assert.deepEqual(seen.toSorted(), wanted.map(({ id }) => id).toSorted(), `${type} ${tag}`);
    }
    assert.equal((await allPages(daemon, `limit=5&type=${type}`)).length, 13);
  }
  assert.equal((await allPages(daemon, "limit=3&tag=x")).length, 4);
  assert.equal((await daemon.ready("?tag=nobody")).tasks_count, 0);
  assert.equal((await daemon.ready("?type=nothing")).tasks_count, 0);
});

test("HEAD is answered like GET, without a body and on a connection that goes on", async (t) => {
  const daemon = await startTestDaemon(t);
  await postMany(daemon, 2);
  await daemon.daemon.idle();
  const connection = await openRaw(t, daemon.url);
  const headers = [bearer(daemon)];
  for (const [target, status] of [
    [TASKS_READY, 200],
    [`${TASKS_READY}?limit=0`, 400],
    ["/livez", 200],
    ["/nothing", 404],
  ] as const) {
    const { response } = await askOn(connection, { method: "HEAD", target, headers });
    assert.equal(response.status, status);
    assert.equal((await askOn(connection, { target, headers })).response.status, status);
  }
  assert.equal((await daemon.ready()).tasks_count, 2);
});
