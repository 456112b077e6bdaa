import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { test, type TestContext } from "node:test";

import { startWithWorker } from "../flow/worker-client.ts";
import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { runProgram } from "../helpers/program.ts";
import { startReceiver } from "../helpers/receiver.ts";

const TOML =
  '[types.echo]\nrunner = "echo"\n[types.print]\nrunner = "worker"\n[types.scan]\nrunner = "worker"\n';
const UNKNOWN = "01890a5d-ac96-774b-bcce-b302099a8057";

/** Runs `admin task …` on the file of a daemon that serves. */
function task(t: TestContext, { file }: Pick<TestDaemon, "file">, words: string) {
  return runProgram(t, ["admin", "task", ...words.split(" "), "--db", file]);
}

async function answerOf(t: TestContext, daemon: TestDaemon, words: string): Promise<unknown> {
  const { code, stdout, stderr } = await task(t, daemon, `${words} --json`);
  assert.equal(code, 0, stderr);
  return JSON.parse(stdout);
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

test("cancels a task that waits while the daemon serves: it never runs, and a second time says so", async (t) => {
  const { daemon, worker } = await startWithWorker(t, { toml: TOML });
  const [id = ""] = await idsOf(daemon, [{ type: "print" }]);

  const first = await task(t, daemon, `cancel ${id}`);
  const second = await task(t, daemon, `cancel ${id}`);

  assert.deepEqual([first.code, first.stdout], [0, `Task ${id} is cancelled.\n`]);
  assert.deepEqual([second.code, second.stdout], [0, `Task ${id} was cancelled before.\n`]);
  assert.deepEqual(await statesOf(daemon, [id]), ["cancelled"]);
  assert.deepEqual(await worker.claim(), []);
});

test("cancels no task that has ended, and none that there is not", async (t) => {
  const daemon = await startTestDaemon(t);
  const [id = ""] = await idsOf(daemon, [{ input: 1 }]);
  await daemon.daemon.idle();

  const ended = await task(t, daemon, `cancel ${id}`);
  const unknown = await task(t, daemon, `cancel ${UNKNOWN}`);

  assert.equal(ended.code, 1);
  assert.match(ended.stderr, /the task has ended already/);
  assert.equal(unknown.code, 1);
  assert.match(unknown.stderr, /there is no task with this id/);
});

test("cancels all that wait of an account and pass a filter, and what runs only when told to", async (t) => {
  const { daemon, worker } = await startWithWorker(t, { toml: TOML });
  const of = (type: string, tag: string, count: number): object[] =>
    Array.from({ length: count }, () => ({ type, tag }));
  const [running = ""] = await idsOf(daemon, of("print", "a", 1));
  const lease = await worker.claimOne();
  const meant = (
    await Promise.all([0, 1, 2].map(() => idsOf(daemon, of("print", "a", 90))))
  ).flat();
  const start_at = new Date(Date.now() + 86_400_000).toISOString();
  const [delayed = ""] = await idsOf(daemon, [{ type: "print", tag: "a", start_at }]);
  const others = await idsOf(daemon, [...of("print", "b", 2), ...of("scan", "a", 2)]);
  const filter = "--account tester --type print --tag a";
  const counted = { login: "tester", queued: 271, running: 0 };

  assert.deepEqual(await answerOf(t, daemon, `cancel ${filter} --dry-run`), {
    ...counted,
    dry_run: true,
  });
  assert.deepEqual(await statesOf(daemon, meant.slice(0, 1)), ["queued"]);
  assert.deepEqual(await answerOf(t, daemon, `cancel ${filter}`), { ...counted, dry_run: false });

  const shown = await statesOf(daemon, [...meant, delayed]);
  assert.deepEqual(new Set(shown), new Set(["cancelled"]));
  assert.deepEqual(await statesOf(daemon, [...others, running]), [
    ...["queued", "queued", "queued", "queued"],
    "running",
  ]);
  assert.equal(await worker.heartbeat(lease), "ok");
  assert.deepEqual(await answerOf(t, daemon, "cancel --account tester --running"), {
    ...{ login: "tester", queued: 4, running: 1 },
    dry_run: false,
  });
  assert.equal(await worker.heartbeat(lease), "cancelled");
  const { tasks } = (await (await daemon.call("/v1/appendix/user_data")).json()) as {
    tasks: object;
  };
  assert.deepEqual(tasks, { queued: 0, running: 0, completed: 0, failed: 0, cancelled: 276 });
});

test("erases a task for good: it is unknown, counted no more, and stands nowhere in the files", async (t) => {
  const receiver = await startReceiver(t);
  const daemon = await startTestDaemon(t);
  const secret = "the-text-that-goes";
  const [id = "", kept = ""] = await idsOf(daemon, [
    { input: secret.repeat(500), tag: secret, postback_url: receiver.url(`/${secret}`) },
    { input: "kept" },
  ]);
  await daemon.daemon.idle();
  assert.equal(holds(daemon, secret), true);

  const { code, stdout } = await task(t, daemon, `erase ${id}`);

  assert.deepEqual([code, stdout], [0, `Task ${id} is erased.\n`]);
  assert.equal(holds(daemon, secret), false);
  assert.equal((await daemon.call(`/v1/tasks/task_get/${id}`)).status, 404);
  assert.deepEqual(
    (await daemon.ready()).tasks.map((each) => each.id),
    [kept],
  );
  const [next = ""] = await idsOf(daemon, [{ input: 2 }]);
  await daemon.daemon.idle();
  assert.deepEqual(await statesOf(daemon, [kept, next]), ["completed", "completed"]);
  const again = await task(t, daemon, `erase ${id}`);
  assert.deepEqual([again.code, /there is no task with this id/.test(again.stderr)], [1, true]);
});

test("erases no task that runs, and none whose webhook is still to be sent unless told to", async (t) => {
  const receiver = await startReceiver(t, { reply: { kind: "hang" } });
  const { daemon, worker } = await startWithWorker(t, { toml: TOML });
  const [running = ""] = await idsOf(daemon, [{ type: "print" }]);
  const lease = await worker.claimOne();
  const [sent = ""] = await idsOf(daemon, [{ type: "echo", postback_url: receiver.url() }]);
  await receiver.waitFor(1);

  const refused = await task(t, daemon, `erase ${running}`);
  const open = await task(t, daemon, `erase ${sent}`);

  assert.deepEqual([refused.code, open.code], [1, 1]);
  assert.match(refused.stderr, /the task runs; cancel it first/);
  assert.match(open.stderr, /a webhook of the task is still to be sent; --with-webhooks/);
  assert.deepEqual(await answerOf(t, daemon, `erase ${sent} --with-webhooks`), {
    task_id: sent,
    erased: true,
    wal_emptied: true,
  });
  await task(t, daemon, `cancel ${running}`);
  assert.deepEqual(await answerOf(t, daemon, `erase ${running}`), {
    task_id: running,
    erased: true,
    wal_emptied: true,
  });
  assert.equal(await worker.complete(lease), "lost");
});

test("what a task left running does not become the end of the one that has its place", async (t) => {
  const { daemon, worker } = await startWithWorker(t, { toml: TOML });
  const [id = ""] = await idsOf(daemon, [{ type: "print" }]);
  const lease = await worker.claimOne();
  await task(t, daemon, `cancel ${id}`);
  await task(t, daemon, `erase ${id}`);
  const [next = ""] = await idsOf(daemon, [{ type: "print" }]);
  await worker.claimOne();

  assert.equal(await worker.complete(lease), "lost");
  assert.deepEqual(await statesOf(daemon, [next]), ["running"]);
});

const WRONG: Readonly<Record<string, RegExp>> = {
  cancel: /give the id of a task, or --account LOGIN/,
  "cancel --type print": /give the id of a task, or --account LOGIN/,
  [`cancel ${UNKNOWN} --running`]: /not both: --running is about many/,
  "cancel --account -a": /--account needs a value/,
  erase: /TASK_ID is missing/,
};

for (const [words, said] of Object.entries(WRONG)) {
  test(`refuses 'admin task ${words}' with what would be right`, async (t) => {
    const { code, stderr } = await task(t, { file: "none.db" }, words);
    assert.equal(code, 2);
    assert.match(stderr, said);
  });
}
