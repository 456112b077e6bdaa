import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { clusterTest } from "../helpers/cluster-test.ts";
import {
  createTestAccount,
  startTestDaemon,
  type Envelope,
  type TestDaemon,
} from "../helpers/daemon.ts";
import { createFakeClock, type FakeClock } from "../helpers/fake-clock.ts";
import { headerOf, openRaw } from "../helpers/raw-http.ts";
import { ask, askOn, bearer, TASKS_READY } from "./answer.ts";
import { cancelPath, openHeldTasks } from "./task-requests.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const TASKS = "/v1/tasks";
const ECHO_TYPES = '[types.a]\nrunner = "echo"\n[types.b]\nrunner = "echo"\n';

/** What the test knows of a task that the daemon has. */
interface Known {
  readonly id: string;
  readonly state: string;
  readonly type: string;
  readonly tag: string | undefined;
  readonly createdAt: number;
}

async function list(daemon: TestDaemon, query = ""): Promise<Envelope> {
  const { code, body, response } = await ask(daemon.url, {
    target: `${TASKS}${query}`,
    headers: [bearer(daemon)],
  });
  assert.equal(code, 20000, `${query}: ${response.body.toString()}`);
  const { status_code, tasks_count, tasks_error, tasks, next_cursor } = body;
  assert(status_code !== undefined && tasks !== undefined && next_cursor !== undefined);
  assert(tasks_count !== undefined && tasks_error !== undefined);
  assert.equal(tasks_count, tasks.length);
  return { status_code, tasks_count, tasks_error, tasks, next_cursor };
}

/** Walks through all pages; `between` happens after each. */
async function allPages(
  daemon: TestDaemon,
  query: string,
  between: () => Promise<unknown> = () => Promise.resolve(),
): Promise<readonly string[]> {
  const ids: string[] = [];
  for (let cursor: string | null | undefined = ""; cursor !== null;) {
    const page = await list(daemon, `?${query}${cursor === "" ? "" : `&cursor=${cursor}`}`);
    ids.push(...page.tasks.map(({ id }) => id));
    cursor = page.next_cursor;
    await between();
  }
  return ids;
}

async function postMany(daemon: TestDaemon, count: number): Promise<readonly string[]> {
  const { tasks } = await daemon.post(Array.from({ length: count }, (_, i) => ({ input: i })));
  return tasks.map(({ id }) => id);
}

async function cancel(daemon: TestDaemon, id: string): Promise<void> {
  const request = { method: "POST", target: cancelPath(id), headers: [bearer(daemon)] };
  assert.equal((await ask(daemon.url, request)).code, 20000);
}

/** A daemon with tasks in every state, one a second, oldest first. */
async function startWorld(
  t: TestContext,
): Promise<{ daemon: TestDaemon; clock: FakeClock; known: readonly Known[] }> {
  const clock = createFakeClock({ now: NOW });
  const held = await openHeldTasks(t);
  const daemon = await startTestDaemon(t, { clock, toml: ECHO_TYPES + held.toml });
  const known: Known[] = [];
  const put = async (state: string, task: { type: string; tag?: string; start_at?: string }) => {
    const { type, tag } = task;
    const body = state === "refused" ? { ...task, colour: "red" } : { input: "IN", ...task };
    const id = (await daemon.post(body)).tasks[0]?.id ?? "";
    if (state === "cancelled") await cancel(daemon, id);
    const shown = state === "refused" ? "failed" : state;
    known.push({ id, state: shown, type, tag, createdAt: clock.now() });
    clock.advance(1000);
  };
  const later = new Date(NOW + 3_600_000).toISOString();
  for (const tag of ["x", "y"]) {
    for (const type of ["a", "b"]) await put("completed", { type, tag });
    await put("refused", { type: "a", tag });
    await put("queued", { type: "b", tag, start_at: later });
    await put("cancelled", { type: "a", tag, start_at: later });
  }
  await put("completed", { type: "b" });
  await put("running", { type: "hold", tag: "x" });
  await held.next();
  await put("queued", { type: "hold", tag: "x" });
  await put("cancelled", { type: "hold", tag: "y" });
  await put("failed", { type: "fail", tag: "y" });
  await put("refused", { type: "b" });
  // Echoes and failures end by themselves; one task is held.
  while ((await list(daemon, "?type=fail&state=failed")).tasks_count === 0) continue;
  while ((await list(daemon, "?state=completed")).tasks_count < 5) continue;
  return { daemon, clock, known };
}

/** Filters of the list; null for one that is not asked for. */
interface Filters {
  readonly state: string | null;
  readonly type: string | null;
  readonly tag: string | null;
  readonly after: number | null;
  readonly before: number | null;
}

/** Every way to ask for some of these values, or for none. */
function allFilters(): readonly Filters[] {
  const times = [null, NOW + 3000, NOW + 8000];
  let all: readonly Filters[] = [{ state: null, type: null, tag: null, after: null, before: null }];
  const add = (name: keyof Filters, values: readonly unknown[]) => {
    all = all.flatMap((filters) => values.map((value) => ({ ...filters, [name]: value })));
  };
  add("state", [null, "queued", "running", "completed", "failed", "cancelled"]);
  add("type", [null, "a", "b", "hold", "nothing"]);
  add("tag", [null, "x", "y", "nobody"]);
  add("after", times);
  add("before", times);
  return all;
}

function toQuery({ state, type, tag, after, before }: Filters): string {
  const query = new URLSearchParams();
  if (state !== null) query.set("state", state);
  if (type !== null) query.set("type", type);
  if (tag !== null) query.set("tag", tag);
  if (after !== null) query.set("created_after", new Date(after).toISOString());
  if (before !== null) query.set("created_before", new Date(before).toISOString());
  return query.toString();
}

function passes(task: Known, { state, type, tag, after, before }: Filters): boolean {
  return (
    (state === null || task.state === state) &&
    (type === null || task.type === type) &&
    (tag === null || task.tag === tag) &&
    (after === null || task.createdAt >= after) &&
    (before === null || task.createdAt < before)
  );
}

test("each filter and all of them together give what passes them, newest first, on one page and on many", async (t) => {
  const { daemon, known } = await startWorld(t);
  const everything = allFilters();
  assert.equal(everything.length, 6 * 5 * 4 * 3 * 3);
  for (const filters of everything) {
    const wanted = known.filter((task) => passes(task, filters)).map(({ id }) => id);
    const query = toQuery(filters);
    assert.deepEqual(await allPages(daemon, `limit=1000&${query}`), wanted.toReversed(), query);
    assert.deepEqual(await allPages(daemon, `limit=2&${query}`), wanted.toReversed(), query);
  }
});

test("a task is listed as task_get shows it, without input, result and error", async (t) => {
  const { daemon, known } = await startWorld(t);
  const { tasks, tasks_error: errors } = await list(daemon);
  assert.equal(tasks.length, known.length);
  for (const task of tasks) {
    const { result: _result, error: _error, data, ...head } = await daemon.get(task.id);
    const { input: _input, ...rest } = data;
    assert.deepEqual(task, { ...head, data: rest });
  }
  const codes = tasks.map(({ status_code: code }) => code);
  for (const code of [20000, 40506, 40601, 40602, 40901, 50010]) assert.ok(codes.includes(code));
  // Refused, failed and cancelled tasks are errors; what waits or runs is none.
  const bad = known.filter(({ state }) => state === "failed" || state === "cancelled");
  assert.equal(errors, bad.length);
  assert.equal((await list(daemon, "?state=queued")).tasks_error, 0);
  assert.equal((await list(daemon, "?state=running")).tasks_error, 0);
  assert.equal((await list(daemon, "?state=cancelled&limit=1")).tasks_error, 1);
});

clusterTest("listing collects nothing", async (t) => {
  const daemon = await startTestDaemon(t);
  await postMany(daemon, 3);
  await daemon.daemon.idle();
  await list(daemon);
  await list(daemon, "?state=completed&limit=1");
  assert.equal((await daemon.ready()).tasks_count, 3);
});

test("an account without tasks has an empty list, byte for byte", async (t) => {
  const daemon = await startTestDaemon(t);
  const expected =
    '{"status_code":20000,"status_message":"Ok.","tasks_count":0,"tasks_error":0,"next_cursor":null,"tasks":[]}';
  for (const query of ["", "?", "?state=failed", "?tag=x&type=y&limit=1"]) {
    assert.equal(await (await daemon.call(TASKS + query)).text(), expected);
  }
});

test("created_after is inclusive and created_before is exclusive, to the millisecond", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock });
  const [id = ""] = await postMany(daemon, 1);
  const time = (ms: number) => new Date(NOW + ms).toISOString();
  const count = async (query: string) => (await list(daemon, query)).tasks_count;

  assert.equal(await count(`?created_after=${time(0)}`), 1);
  assert.equal(await count(`?created_after=${time(1)}`), 0);
  assert.equal(await count(`?created_before=${time(0)}`), 0);
  assert.equal(await count(`?created_before=${time(1)}`), 1);
  assert.equal(await count(`?created_after=${time(0)}&created_before=${time(1)}`), 1);
  assert.equal(await count(`?created_after=${time(0)}&created_before=${time(0)}`), 0);
  assert.equal(await count(`?created_after=${time(1)}&created_before=${time(-1)}`), 0);
  assert.equal(await count("?created_after=0000-01-01T00:00:00Z"), 1);
  assert.equal(await count("?created_before=9999-12-31T23:59:59.999Z"), 1);
  assert.equal(await count("?created_before=0000-01-01T00:00:00Z"), 0);
  assert.deepEqual(await allPages(daemon, `created_after=${time(0)}&limit=1`), [id]);
});

test("a time may have an offset, whose + is written %2B; a bare + is a space and 40000", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock });
  await postMany(daemon, 1);
  const spellings = ["2030-01-31T11:00:00%2B02:00", "2030-01-31T07:30:00-01:30"];
  for (const time of [...spellings, "2030-01-31t09:00:00z", "2030-01-31T09:00:00.000000000Z"]) {
    assert.equal((await list(daemon, `?created_after=${time}`)).tasks_count, 1, time);
    assert.equal((await list(daemon, `?created_before=${time}`)).tasks_count, 0, time);
  }
  const target = `${TASKS}?created_after=2030-01-31T11:00:00+02:00`;
  assert.equal((await ask(daemon.url, { target, headers: [bearer(daemon)] })).code, 40000);
});

test("a query that says anything but what is known, once and in range, is 40000 and never clamped", async (t) => {
  const daemon = await startTestDaemon(t);
  const connection = await openRaw(t, daemon.url);
  const malformed = [
    ["limit=0", "limit=1001", "limit=-1", "limit=abc", "limit=1.0", "limit=", "limit", "limit=１"],
    ["state=", "state", "state=Queued", "state=delayed", "state=ready", "state=queued,running"],
    ["state=queued&state=running", "state=failed&state=failed", "state=__proto__", "state=all"],
    ["created_after=", "created_after=0", "created_after=now", "created_after=2030-01-31"],
    ["created_before=2030-02-30T00:00:00Z", "created_before=2030-01-31T24:00:00Z"],
    ["created_after=1893456000000", "created_after=2030-01-31T09:00:00", "created_after=%00"],
    ["created_after=2030-01-31T09:00:00Z&created_after=2030-01-31T09:00:00Z", "created_at=2030"],
    ["created_before=12030-01-31T09:00:00Z", "created_before=-2030-01-31T09:00:00Z"],
    ["State=queued", "status=queued", "filter=x", "offset=1", "page=2", "sort=asc", "order=asc"],
    [
      "marketplace=x",
      "priority=1",
      "id=1",
      "collect=true",
      "wait=1",
      "tag[]=x",
      "__proto__=1",
      "=1",
    ],
    ["tag=a&tag=b", "type=a&type=a", `tag=${"x".repeat(256)}`, `type=${"x".repeat(65)}`],
    [`tag=${"😀".repeat(256)}`, "cursor=x&cursor=x", "limit=9999999999999999999999", "limit=1%00"],
  ].flat();
  for (const query of malformed) {
    const target = `${TASKS}?${encodeURI(query).replaceAll("%25", "%")}`;
    const { code, body } = await askOn(connection, { target, headers: [bearer(daemon)] });
    assert.equal(code, 40000, query);
    assert.match(
      body.errors?.[0]?.detail ?? "",
      /^It (takes \S.+|is not known here( \(the nearest is '[a-z_]+'\))?|may stand only once): the query parameter|^A percent escape/,
    );
    assert.equal(body.errors?.length, 1, query);
  }
  const fine = [
    "limit=1",
    "limit=1000",
    `tag=${encodeURIComponent("😀".repeat(255))}`,
    "tag=",
    "type=",
  ];
  for (const query of fine) {
    const { code } = await askOn(connection, {
      ...{ target: `${TASKS}?${query}`, headers: [bearer(daemon)] },
    });
    assert.equal(code, 20000, query);
  }
});

clusterTest("a page holds 100 tasks unless asked otherwise, and at most 1000", async (t) => {
  const daemon = await startTestDaemon(t);
  for (let i = 0; i < 11; i++) await postMany(daemon, 100);
  assert.equal((await list(daemon)).tasks_count, 100);
  const large = await list(daemon, "?limit=1000");
  assert.equal(large.tasks_count, 1000);
  const last = await list(daemon, `?limit=1000&cursor=${large.next_cursor}`);
  assert.deepEqual([last.tasks_count, last.next_cursor], [100, null]);
  assert.equal((await list(daemon, `?limit=100&cursor=${large.next_cursor}`)).next_cursor, null);
});

const TAKES: readonly [query: string, detail: string][] = [
  ["limit=0", "It takes a whole number from 1 to 1000"],
  ["state=done", "It takes one of queued, running, completed, failed, cancelled"],
  [
    "created_after=now",
    "It takes an RFC 3339 time, such as 2030-01-31T09:00:00.000Z, where + is %2B",
  ],
  ["cursor=x", "It takes the next_cursor of an earlier page of this list"],
];

test("a refused value of a query is told what the parameter takes", async (t) => {
  const daemon = await startTestDaemon(t);

  for (const [query, detail] of TAKES) {
    const target = `${TASKS}?${query}`;
    const { body } = await ask(daemon.url, { target, headers: [bearer(daemon)] });
    assert.equal(
      body.errors?.[0]?.detail,
      `${detail}: the query parameter '${query.split("=")[0]}'.`,
    );
  }
});

test("a cursor that this list did not give out is 40000", async (t) => {
  const daemon = await startTestDaemon(t);
  await postMany(daemon, 3);
  await daemon.daemon.idle();
  const { next_cursor: cursor } = await list(daemon, "?limit=1");
  const { next_cursor: foreign } = await daemon.ready("?limit=1");
  assert(cursor && foreign);
  const made = (text: string) => Buffer.from(text).toString("base64url");
  const forged = [
    [foreign, "", "x", "null", "0", "AAAA", cursor.slice(1), cursor.slice(0, -1), `${cursor}A`],
    [`${cursor}=`, ` ${cursor}`, `${cursor} `, cursor.toUpperCase(), "%00", "x".repeat(8000)],
    [made("1-2"), made("tasks-1"), made("tasks--1-2"), made("tasks-1-2-3"), made("tasks-01-2")],
    [made("tasks-1e3-2"), made("tasks-1-2\n"), made("Tasks-1-2"), made("tasks-9999999999999999-1")],
  ].flat();
  for (const text of forged) {
    const target = `${TASKS}?cursor=${encodeURIComponent(text)}`;
    const { code } = await ask(daemon.url, { target, headers: [bearer(daemon)] });
    assert.equal(code, 40000, text);
  }
  const target = `${TASKS_READY}?cursor=${cursor}`;
  assert.equal((await ask(daemon.url, { target, headers: [bearer(daemon)] })).code, 40000);
});

test("pages of tasks that were made in one millisecond lose none and repeat none", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock });
  const ids = [await postMany(daemon, 40), await postMany(daemon, 20)].flat().toReversed();
  for (const limit of [1, 7, 59, 60, 61]) {
    assert.deepEqual(await allPages(daemon, `limit=${limit}`), ids, String(limit));
  }
  const window = "created_after=2030-01-31T09:00:00Z&created_before=2030-01-31T09:00:00.001Z";
  assert.deepEqual(await allPages(daemon, `limit=7&${window}`), ids);
});

test("what was there when the paging began comes once, while tasks are posted, finish and are cancelled", async (t) => {
  const daemon = await startTestDaemon(t);
  const ids: string[] = [];
  for (let i = 0; i < 3; i++) ids.push(...(await postMany(daemon, 50)));
  const later = new Date(Date.now() + 3_600_000).toISOString();
  const delayed = (await daemon.post(Array.from({ length: 50 }, () => ({ start_at: later }))))
    .tasks;
  ids.push(...delayed.map(({ id }) => id));

  const toCancel = delayed.map(({ id }) => id);
  const seen = await allPages(daemon, "limit=7", async () => {
    const id = toCancel.pop();
    await Promise.all([postMany(daemon, 3), id === undefined ? null : cancel(daemon, id)]);
  });
  assert.deepEqual(seen, ids.toReversed());
});

clusterTest("another account sees its own tasks alone, with any filter", async (t) => {
  const daemon = await startTestDaemon(t);
  const account = await createTestAccount(daemon.file, "other");
  const later = new Date(Date.now() + 3_600_000).toISOString();
  await daemon.post([{ tag: "x" }, { tag: "x", start_at: later }, { tag: "x", typo: 1 }]);
  await daemon.daemon.idle();
  const other = { ...daemon, account };
  const queries = ["", "?tag=x", "?type=echo", "?state=queued", "?state=completed&type=echo"];
  for (const query of [...queries, "?state=failed&tag=x"]) {
    assert.equal((await list(other, query)).tasks_count, 0, query);
  }
  assert.equal((await list(daemon)).tasks_count, 3);
});

test("the list is for accounts, by GET and HEAD alone", async (t) => {
  const daemon = await startTestDaemon(t);
  await postMany(daemon, 1);
  const headers = [bearer(daemon)];
  assert.equal((await ask(daemon.url, { target: TASKS })).code, 40100);
  assert.equal((await ask(daemon.url, { target: `${TASKS}?limit=0` })).code, 40100);
  const { response, code } = await ask(daemon.url, { method: "POST", target: TASKS, headers });
  assert.equal(code, 40500);
  assert.equal(headerOf(response, "allow"), "GET, HEAD");
  const connection = await openRaw(t, daemon.url);
  const head = await askOn(connection, { method: "HEAD", target: TASKS, headers });
  assert.equal(head.response.status, 200);
  const got = await askOn(connection, { target: `${TASKS}/`, headers });
  assert.equal(got.body.tasks_count, 1);
});
