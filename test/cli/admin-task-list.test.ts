import assert from "node:assert/strict";
import { test } from "node:test";

import { startTestDaemon } from "../helpers/daemon.ts";
import { runProgram } from "../helpers/program.ts";
import { startReceiver } from "../helpers/receiver.ts";

interface Listed {
  readonly tasks: readonly {
    readonly id: string;
    readonly login: string;
    readonly state: string;
    readonly deliveries: readonly { readonly state: string }[];
  }[];
  readonly has_more: boolean;
}

test("lists and shows the tasks of a file that is served, without what was posted", async (t) => {
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
    const command = ["admin", "task", ...words.split(" "), "--db", daemon.file];
    const { code, stdout, stderr } = await runProgram(t, command);
    assert.equal(code, 0, stderr);
    assert.doesNotMatch(stdout, /PRIVATE/);
    return stdout;
  };
  const list = async (words: string) => JSON.parse(await run(`list ${words} --json`)) as Listed;

  const all = await list("--account tester");
  const failed = await list("--state failed");
  const tagged = await list("--tag a --limit 1");
  const shown = await run(`show ${second}`);

  assert.deepEqual(new Set(all.tasks.map(({ id }) => id)), new Set([first, second, refused]));
  assert.deepEqual([all.has_more, failed.tasks.map(({ id }) => id)], [false, [refused]]);
  assert.deepEqual(
    tagged.tasks.map(({ id, login, state }) => [id, login, state]),
    [[first, "tester", "completed"]],
  );
  const posted = all.tasks.find(({ id }) => id === second);
  assert.deepEqual(
    posted?.deliveries.map(({ state }) => state),
    ["delivered"],
  );
  assert.match(shown, /^state +completed$/m);
  assert.match(shown, /^postback +delivered: 127\.0\.0\.1:\d+ answered 204/m);
});

test("a task or an account that there is not is said to be none", async (t) => {
  const daemon = await startTestDaemon(t);
  const run = (words: string) =>
    runProgram(t, ["admin", "task", ...words.split(" "), "--db", daemon.file]);

  const task = await run("show 01890a5d-ac96-774b-bcce-b302099a8057");
  const account = await run("list --account nobody");
  const none = await run("list");

  assert.deepEqual([task.code, account.code, none.code], [1, 1, 0]);
  assert.match(task.stderr, /there is no task with this id/);
  assert.match(account.stderr, /there is no account nobody/);
  assert.equal(none.stdout, "No task passes.\n");
});
