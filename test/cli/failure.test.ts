import assert from "node:assert/strict";
import { cpSync, mkdirSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { createTestAccount } from "../helpers/daemon.ts";
import {
  runProgram,
  SOURCES,
  startProgram,
  temporaryFolder,
  type Finished,
} from "../helpers/program.ts";
import { makeDatabase } from "../helpers/store.ts";
import { taskClient } from "../helpers/task-client.ts";

const STACK = /\n {4}at /;

function assertOneLine({ code, stderr }: Finished, expected: RegExp): void {
  assert.equal(code, 1, stderr);
  assert.match(stderr, expected);
  assert.equal(stderr.split("\n").length, 2, stderr);
}

test("a command in a removed working directory fails with one line that names cd", async (t) => {
  const command = ["sh", "-c", 'rmdir "$PWD"; exec "$@"', "sh", ...SOURCES] as const;
  for (const words of [["start", "--port", "0"], ["dev"], ["doctor"]]) {
    assertOneLine(await runProgram(t, words, { command }), /uv_cwd.*cd/);
  }
});

test("a daemon whose working directory was removed runs commands", async (t) => {
  const folder = temporaryFolder(t);
  const config = join(folder, "postbackd.toml");
  writeFileSync(config, 'database = "postbackd.db"\ntypes.say.command = ["echo", "said"]\n');
  const { key } = await createTestAccount(join(folder, "postbackd.db"));
  const cwd = join(folder, "working");
  mkdirSync(cwd);
  const daemon = startProgram(t, ["start", "--port", "0", "--config", config], { cwd });
  const client = taskClient({ url: (await daemon.ready).url, key });

  rmdirSync(cwd);

  assert.equal((await client.ended(await client.post({ type: "say" }))).result, "said");
});

test("a command whose TMPDIR does not exist names the folder and TMPDIR", async (t) => {
  const folder = temporaryFolder(t);
  await makeDatabase(join(folder, "postbackd.db"));
  // In WAL mode, unlike a copy of 'backup create'.
  cpSync(join(folder, "postbackd.db"), join(folder, "copy.db"));
  const env = { TMPDIR: join(folder, "missing") };

  for (const words of [
    ["dev", "--port", "0"],
    ["backup", "check", "copy.db"],
  ]) {
    assertOneLine(await runProgram(t, words, { env, cwd: folder }), /missing.*TMPDIR/);
  }
});

/** Runs a command into which a module injects a fault. */
async function runWithFault(t: TestContext, fault: string, env = {}): Promise<Finished> {
  const module = `--import=data:text/javascript,${encodeURIComponent(fault)}`;
  return runProgram(t, ["admin", "link"], { env: { NODE_OPTIONS: module, ...env } });
}

const IN_COMMAND = 'process.cwd = () => { throw new Error("injected") };';
const OUTSIDE = `process.on("newListener", (name) => {
  if (name === "uncaughtException") setImmediate(() => { throw new Error("injected") });
});`;

test("an unexpected error is one line, and has its stack at debug", async (t) => {
  for (const fault of [IN_COMMAND, OUTSIDE]) {
    assertOneLine(await runWithFault(t, fault), /injected; /);

    const { code, stderr } = await runWithFault(t, fault, { POSTBACKD_LOG_LEVEL: "debug" });
    assert.equal(code, 1);
    assert.match(stderr, STACK);
  }
});

test("a command whose result cannot be written exits with 1", async (t) => {
  const folder = temporaryFolder(t);
  await makeDatabase(join(folder, "postbackd.db"));
  const command = ["sh", "-c", 'exec "$@" > /dev/full', "sh", ...SOURCES] as const;

  for (const words of [
    ["doctor", "--json"],
    ["admin", "account", "list"],
  ]) {
    const { code } = await runProgram(t, words, { command, cwd: folder });
    assert.equal(code, 1, words.join(" "));
  }
});
