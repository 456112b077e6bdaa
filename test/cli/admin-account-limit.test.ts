import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { temporaryFolder } from "../helpers/program.ts";
import { NEW_TASK_BYTES, newPost, newTask, openTestStore, seedAccount } from "../helpers/store.ts";
import { documentOf, runHere } from "./in-process.ts";

const NAME = ["admin", "account", "limit"];

test("limit shows each limit with its use and source, sets an account's own and resets it", async (t) => {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, "postbackd.toml"), "[limits.account]\nopen_tasks = 50\n");
  const store = await openTestStore(t, { file: join(cwd, "postbackd.db") });
  await store.insertTasks(newPost(await seedAccount(store, "ada"), [newTask()]));
  await store.close();
  const file = `file ${join(cwd, "postbackd.toml")}`;
  const shown = (...words: readonly string[]) => documentOf(t, [...NAME, "ada", ...words], { cwd });
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
  for (const wrong of [
    ["ada", "--bytes", "1", "--tasks-per-minute", "x"],
    ["bob", "--bytes", "1"],
  ]) {
    assert.notEqual((await runHere(t, [...NAME, ...wrong], { cwd })).code, 0);
    assert.deepEqual(await shown(), changed);
  }
  assert.deepEqual(await shown("--bytes=default", "--tasks-per-minute", "7"), {
    login: "ada",
    limits: [bytes, own[1], own[2], { ...tasks, value: 7, source: "account" }],
  });
});
