import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { TestContext } from "node:test";

import { runProgram, temporaryFolder } from "../helpers/program.ts";
import { NEW_TASK_BYTES, newPost, newTask, openTestStore, seedAccount } from "../helpers/store.ts";

const NAME = ["admin", "account", "limit"];

/** A folder whose configuration says what every account may have; one account in it has a task. */
async function accountFolder(t: TestContext): Promise<string> {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, "postbackd.toml"), "[limits.account]\nopen_tasks = 50\n");
  const store = await openTestStore(t, { file: join(cwd, "postbackd.db") });
  await store.insertTasks(newPost(await seedAccount(store, "ada"), [newTask()]));
  await store.close();
  return cwd;
}

function run(t: TestContext, cwd: string, words: readonly string[]) {
  return runProgram(t, [...NAME, ...words], { cwd });
}

test("shows each limit with what is used of it and where it comes from, changes some, and takes them back", async (t) => {
  const cwd = await accountFolder(t);
  const file = `file ${join(cwd, "postbackd.toml")}`;
  const shown = async (...words: readonly string[]) => {
    const { code, stdout, stderr } = await run(t, cwd, ["ada", "--json", ...words]);
    assert.deepEqual({ code, stderr }, { code: 0, stderr: "" });
    return JSON.parse(stdout) as unknown;
  };
  const standard = [
    { limit: "bytes", value: 10 * 1024 ** 3, used: NEW_TASK_BYTES, source: "default" },
    { limit: "open_tasks", value: 50, used: 1, source: file },
    { limit: "requests_per_minute", value: 0, used: null, source: "default" },
    { limit: "tasks_per_minute", value: 0, used: null, source: "default" },
  ];
  const [bytes, openTasks, requests, tasks] = standard;

  assert.deepEqual(await shown(), { login: "ada", limits: standard });
  const own = [
    { ...bytes, value: 2 * 1024 ** 3, source: "account" },
    { ...openTasks, value: 0, source: "account" },
    { ...requests, value: 600, source: "account" },
    tasks,
  ];
  const changed = await shown("--bytes=2GiB", "--open-tasks=0", "--requests-per-minute=600");
  assert.deepEqual(changed, { login: "ada", limits: own });
  assert.deepEqual(await shown(), changed);

  const table = await run(t, cwd, ["ada", "--bytes=default", "--tasks-per-minute", "7"]);
  assert.equal(
    table.stdout,
    `\
LIMIT                VALUE        USED  SOURCE
bytes                10737418240  ${NEW_TASK_BYTES}   default
open_tasks           none         1     account
requests_per_minute  600          -     account
tasks_per_minute     7            -     account
`,
  );
});

test("refuses what is no limit, and an account that there is not, and changes nothing then", async (t) => {
  const cwd = await accountFolder(t);
  const wrong: readonly (readonly [words: readonly string[], code: number, stderr: RegExp])[] = [
    [["ada", "--bytes", "2GB"], 2, /--bytes must be a size such as .*"2GB", or "default"/],
    [["ada", "--open-tasks", "-1"], 2, /--open-tasks/],
    [["ada", "--open-tasks", "1.5"], 2, /--open-tasks must be a whole number from 0 .*"1\.5"/],
    [["ada", "--bytes", "1", "--tasks-per-minute", "x"], 2, /--tasks-per-minute .*"default"/],
    [["bob", "--bytes", "1"], 1, /there is no account bob/],
  ];
  for (const [words, code, stderr] of wrong) {
    const refused = await run(t, cwd, words);
    assert.equal(refused.code, code, refused.stderr);
    assert.match(refused.stderr, stderr);
  }
  const store = await openTestStore(t, { file: join(cwd, "postbackd.db") });
  const own = (await store.findAccount("ada"))?.ownLimits;
  assert.deepEqual(new Set(Object.values(own ?? {})), new Set([null]));
});
