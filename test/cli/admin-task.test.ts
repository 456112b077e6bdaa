import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { test, type TestContext } from "node:test";

import { startWithWorker } from "../flow/worker-client.ts";
import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { columns, documentOf, runHere } from "./in-process.ts";

const TOML =
  '[types.echo]\nrunner = "echo"\n[types.print]\nrunner = "worker"\n[types.scan]\nrunner = "worker"\n';

/** Runs `admin task …` on the file of a daemon that serves. */
function task(t: TestContext, { file }: Pick<TestDaemon, "file">, words: string) {
  return runHere(t, ["admin", "task", ...words.split(" "), "--db", file]);
}

function answerOf(t: TestContext, { file }: Pick<TestDaemon, "file">, words: string) {
  return documentOf(t, ["admin", "task", ...words.split(" "), "--db", file]);
}

async function idsOf(daemon: TestDaemon, tasks: readonly object[]): Promise<readonly string[]> {
  return (await daemon.post(tasks)).tasks.map(({ id }) => id);
}

async function statesOf(daemon: TestDaemon, ids: readonly string[]): Promise<readonly string[]> {
  return Promise.all(ids.map(async (id) => (await daemon.get(id)).state));
}

function holds({ file }: TestDaemon, text: string): boolean {
  const files = [file, `${file}-wal`].filter((each) => existsSync(each));
  return files.some((each) => readFileSync(each).includes(text));
}

test("cancel ends a queued task once, and no finished task", async (t) => {
  const { daemon, worker } = await startWithWorker(t, { toml: TOML });
  const [id = "", ended = ""] = await idsOf(daemon, [{ type: "print" }, { type: "echo" }]);
  await daemon.daemon.idle();

  const first = await answerOf(t, daemon, `cancel ${id}`);
  const second = await answerOf(t, daemon, `cancel ${id}`);
  const late = await task(t, daemon, `cancel ${ended}`);

  const about = { task_id: id, login: "tester" };
  assert.deepEqual(first, { ...about, cancelled: true });
  assert.deepEqual(second, { ...about, cancelled: false });
  assert.equal(late.code, 1);
  assert.match(late.stderr, /has ended/);
  assert.deepEqual(await statesOf(daemon, [id]), ["cancelled"]);
  assert.deepEqual(await worker.claim(), []);
});

test("cancel with a filter cancels queued tasks, and running ones with --running", async (t) => {
  const { daemon, worker } = await startWithWorker(t, { toml: TOML });
  const [running = ""] = await idsOf(daemon, [{ type: "print", tag: "a" }]);
  const lease = await worker.claimOne();
  const start_at = new Date(Date.now() + 86_400_000).toISOString();
  const meant = [
    { type: "print", tag: "a" },
    { type: "print", tag: "a", start_at },
  ];
  const others = [
    { type: "print", tag: "b" },
    { type: "scan", tag: "a" },
  ];
  const ids = await idsOf(daemon, [...meant, ...others]);
  const cancel = (words: string) => answerOf(t, daemon, `cancel --account tester ${words}`);
  const counted = { login: "tester", queued: 2, running: 0 };

  const dry = await cancel("--type print --tag a --dry-run");
  const before = await statesOf(daemon, ids);
  const done = await cancel("--type print --tag a");

  assert.deepEqual(dry, { ...counted, dry_run: true });
  assert.deepEqual(before, ["queued", "queued", "queued", "queued"]);
  assert.deepEqual(done, { ...counted, dry_run: false });
  const states = await statesOf(daemon, [...ids, running]);
  assert.deepEqual(states, ["cancelled", "cancelled", "queued", "queued", "running"]);
  assert.equal(await worker.heartbeat(lease), "ok");
  const rest = await cancel("--running");
  assert.deepEqual(rest, { ...counted, running: 1, dry_run: false });
  assert.equal(await worker.heartbeat(lease), "cancelled");
});

test("erase leaves nothing of a task in the API and in the files", async (t) => {
  const receiver = await startReceiver(t);
  const daemon = await startTestDaemon(t);
  const secret = "the-text-that-goes";
  const [id = "", kept = ""] = await idsOf(daemon, [
    { input: secret.repeat(500), tag: secret, postback_url: receiver.url(`/${secret}`) },
    { input: "kept" },
  ]);
  await daemon.daemon.idle();
  assert.equal(holds(daemon, secret), true);

  assert.equal((await task(t, daemon, `erase ${id}`)).code, 0);

  assert.equal(holds(daemon, secret), false);
  assert.equal((await daemon.call(`/v1/tasks/task_get/${id}`)).status, 404);
  assert.deepEqual(
    (await daemon.ready()).tasks.map((each) => each.id),
    [kept],
  );
  const [next = ""] = await idsOf(daemon, [{ input: 2 }]);
  await daemon.daemon.idle();
  assert.deepEqual(await statesOf(daemon, [kept, next]), ["completed", "completed"]);
  assert.equal((await task(t, daemon, `erase ${id}`)).code, 1);
});

test("erase refuses a running task, and one with an unsent webhook without --with-webhooks", async (t) => {
  const receiver = await startReceiver(t, { reply: { kind: "hang" } });
  const { daemon, worker } = await startWithWorker(t, { toml: TOML });
  const [running = ""] = await idsOf(daemon, [{ type: "print" }]);
  const lease = await worker.claimOne();
  const [sent = ""] = await idsOf(daemon, [{ type: "echo", postback_url: receiver.url() }]);
  await receiver.waitFor(1);

  const refused = await task(t, daemon, `erase ${running}`);
  const open = await task(t, daemon, `erase ${sent}`);

  assert.deepEqual([refused.code, open.code], [1, 1]);
  assert.match(refused.stderr, /runs; cancel it first/);
  assert.match(open.stderr, /--with-webhooks/);
  const erased = { erased: true, wal_emptied: true };
  const webhooks = await answerOf(t, daemon, `erase ${sent} --with-webhooks`);
  assert.deepEqual(webhooks, { task_id: sent, ...erased });
  await task(t, daemon, `cancel ${running}`);
  const cancelled = await answerOf(t, daemon, `erase ${running}`);
  assert.deepEqual(cancelled, { task_id: running, ...erased });
  assert.equal(await worker.complete(lease), "lost");
});

test("list and show print tasks of a served file, without the posted data", async (t) => {
  const receiver = await startReceiver(t);
  const daemon = await startTestDaemon(t);
  const { tasks } = await daemon.post([
    { input: "PRIVATE", tag: "a" },
    { input: "PRIVATE", postback_url: receiver.url("/PRIVATE") },
    { type: "nowhere" },
  ]);
  await daemon.daemon.idle();
  const [first, second, refused] = tasks.map(({ id }) => id);
  const run = async (words: string) => {
    const { code, stdout, stderr } = await task(t, daemon, words);
    assert.equal(code, 0, stderr);
    assert.doesNotMatch(stdout, /PRIVATE/);
    return stdout;
  };
  const list = async (words: string) => JSON.parse(await run(`list ${words} --json`));

  const all = await list("--account tester");
  const failed = await list("--state failed");
  const tagged = await list("--tag a --limit 1");
  const shown = await run(`show ${second}`);

  const ids = columns(all.tasks, "id").flat();
  assert.deepEqual(new Set(ids), new Set([first, second, refused]));
  assert.deepEqual([all.has_more, columns(failed.tasks, "id")], [false, [[refused]]]);
  const rows = columns(tagged.tasks, "id", "login", "state");
  assert.deepEqual(rows, [[first, "tester", "completed"]]);
  const { deliveries } = all.tasks[ids.indexOf(second)];
  assert.deepEqual(columns(deliveries, "state"), [["delivered"]]);
  assert.match(shown, /^state +completed$/m);
  assert.match(shown, /^postback +delivered: 127\.0\.0\.1:\d+ /m);
});
