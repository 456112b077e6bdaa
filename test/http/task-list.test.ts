import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";

import { clusterTest } from "../helpers/cluster-test.ts";
import {
  type Envelope,
  type TestDaemon,
  createTestAccount,
  startTestDaemon,
} from "../helpers/daemon.ts";
import { type FakeClock, createFakeClock } from "../helpers/fake-clock.ts";
import { NOW, startAt9 } from "./account.ts";
import { ask, bearer, taskGet } from "./answer.ts";
import { cancelPath, openHeldTasks } from "./task-requests.ts";

const TASKS = "/v1/tasks";
const ECHO_TYPES = '[types.a]\nrunner = "echo"\n[types.b]\nrunner = "echo"\n';

/** A posted task. */
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

/** The ids of all pages. */
async function allPages(
  daemon: TestDaemon,
  query: string,
  read: (
    query: string,
  ) => Promise<{ tasks: readonly { id: string }[]; next_cursor?: string | null }> = (more) =>
    list(daemon, more),
): Promise<readonly string[]> {
  const ids: string[] = [];
  for (let cursor: string | null | undefined = ""; cursor !== null;) {
    const page = await read(`?${query}${cursor === "" ? "" : `&cursor=${cursor}`}`);
    ids.push(...page.tasks.map(({ id }) => id));
    cursor = page.next_cursor;
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

/** A daemon with tasks in every state, one per second, oldest first. */
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
  // One task is held, the others end.
  while ((await list(daemon, "?type=fail&state=failed")).tasks_count === 0) continue;
  while ((await list(daemon, "?state=completed")).tasks_count < 5) continue;
  return { daemon, clock, known };
}

/** Filters of the list; null if absent. */
interface Filters {
  readonly state: string | null;
  readonly type: string | null;
  readonly tag: string | null;
  readonly after: number | null;
  readonly before: number | null;
}

const VALUES = {
  state: ["queued", "running", "completed", "failed", "cancelled"],
  type: ["a", "b", "hold", "nothing"],
  tag: ["x", "y", "nobody"],
  after: [NOW + 3000, NOW + 8000],
  before: [NOW + 3000, NOW + 8000],
};

/** No filter, each value alone, and all filters together. */
function someFilters(): readonly Filters[] {
  const none = { state: null, type: null, tag: null, after: null, before: null };
  const single = Object.entries(VALUES).flatMap(([name, values]) =>
    values.map((value) => ({ ...none, [name]: value })),
  );
  const between = { tag: "x", after: NOW + 3000, before: NOW + 8000 };
  const all = VALUES.state.flatMap((state) =>
    VALUES.type.map((type) => ({ ...between, state, type })),
  );
  return [none, ...single, ...all];
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

test("each filter alone and all of them together select tasks, newest first, on one page and on many", async (t) => {
  const { daemon, known } = await startWorld(t);
  for (const filters of someFilters()) {
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
  // Refused, failed and cancelled tasks are errors; queued and running ones are not.
  const bad = known.filter(({ state }) => state === "failed" || state === "cancelled");
  assert.equal(errors, bad.length);
  assert.equal((await list(daemon, "?state=queued")).tasks_error, 0);
  assert.equal((await list(daemon, "?state=running")).tasks_error, 0);
  assert.equal((await list(daemon, "?state=cancelled&limit=1")).tasks_error, 1);
});

clusterTest("a list collects no task", async (t) => {
  const daemon = await startTestDaemon(t);
  await postMany(daemon, 3);
  await daemon.daemon.idle();
  await list(daemon);
  await list(daemon, "?state=completed&limit=1");
  assert.equal((await daemon.ready()).tasks_count, 3);
});

clusterTest("a page has 100 tasks by default, and at most 1000", async (t) => {
  const daemon = await startTestDaemon(t);
  for (let i = 0; i < 11; i++) await postMany(daemon, 100);
  assert.equal((await list(daemon)).tasks_count, 100);
  const large = await list(daemon, "?limit=1000");
  assert.equal(large.tasks_count, 1000);
  const last = await list(daemon, `?limit=1000&cursor=${large.next_cursor}`);
  assert.deepEqual([last.tasks_count, last.next_cursor], [100, null]);
  assert.equal((await list(daemon, `?limit=100&cursor=${large.next_cursor}`)).next_cursor, null);
});

clusterTest("an account lists its own tasks only, with any filter", async (t) => {
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

const DAY = 86_400_000;

/** The id of no task, of a time. */
function idOf(timeMs: number): string {
  const time = timeMs.toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7abc-8def-0123456789ab`;
}

test("an unknown id from before the retention is 40403, a later one 40401", async (t) => {
  const { daemon } = await startAt9(t);
  const cases = [
    [410, 40403, 0],
    [410, 40403, NOW - 30 * DAY - 1],
    [404, 40401, NOW - 30 * DAY],
    [404, 40401, NOW],
    [404, 40401, NOW + 30 * DAY],
    [404, 40401, 2 ** 48 - 1],
  ] as const;
  for (const [status, code, timeMs] of cases) {
    const target = taskGet(idOf(timeMs));
    const got = await ask(daemon.url, { target, headers: [bearer(daemon)] });
    assert.deepEqual([got.response.status, got.code], [status, code], String(timeMs));
  }
});

test("only GET with collect collects a task: neither HEAD nor collect=false does", async (t) => {
  const daemon = await startTestDaemon(t);
  const { tasks } = await daemon.post([{}]);
  await daemon.daemon.idle();
  const id = tasks[0]?.id ?? "";
  const headers = [bearer(daemon)];
  for (const method of ["HEAD", "GET"]) {
    await ask(daemon.url, { method, target: taskGet(id, "?collect=false"), headers });
  }
  await ask(daemon.url, { method: "HEAD", target: taskGet(id, "?collect=true"), headers });
  assert.equal((await daemon.ready()).tasks_count, 1);
  await ask(daemon.url, { target: taskGet(id, "?collect=true"), headers });
  assert.equal((await daemon.ready()).tasks_count, 0);
});

clusterTest("concurrent requests that collect one task get the same response", async (t) => {
  const daemon = await startTestDaemon(t);
  const { tasks } = await daemon.post([{ input: [1.5] }]);
  await daemon.daemon.idle();
  const target = taskGet(tasks[0]?.id ?? "");
  const answers = await Promise.all(Array.from({ length: 30 }, () => daemon.call(target)));
  const bodies = await Promise.all(answers.map((answer) => answer.text()));

  assert.equal(new Set(bodies).size, 1);
  assert.equal((await daemon.ready()).tasks_count, 0);
});

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
  const readyIds = (query: string) => allPages(daemon, query, (page) => daemon.ready(page));
  const tags = ["x", "", "a b&c=d", "é😀", "%41"];
  const posted = await daemon.post(
    ["a", "b"].flatMap((type) => [...tags, ...tags].map((tag) => ({ type, tag }))),
  );
  await daemon.post([{ type: "a" }, { type: "b" }]);
  await daemon.daemon.idle();
  for (const tag of tags) {
    const wanted = posted.tasks.filter((task) => task.type === "a" && task.data["tag"] === tag);
    const seen = await readyIds(`limit=1&type=a&tag=${encodeURIComponent(tag)}`);
    assert.deepEqual(seen.toSorted(), wanted.map(({ id }) => id).toSorted(), tag);
  }
  assert.equal((await readyIds("limit=5&type=b")).length, 11);
  assert.equal((await readyIds("limit=3&tag=x")).length, 4);
  assert.equal((await daemon.ready("?tag=nobody")).tasks_count, 0);
  assert.equal((await daemon.ready("?type=nothing")).tasks_count, 0);
});
