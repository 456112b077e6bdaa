import assert from "node:assert/strict";
import { copyFileSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import Database from "better-sqlite3";

import { runProgram, startProgram, temporaryFolder } from "../helpers/program.ts";
import { startDevProgram } from "./dev-client.ts";

const START = ["start", "--port", "0", "--db"];
const DEV = ["dev", "--port", "0", "--db"];

for (const [name, make] of [
  [
    "that start has served",
    async (t: TestContext, file: string) => {
      const real = startProgram(t, [...START, file]);
      await real.ready;
      assert.equal((await real.stop()).code, 0);
    },
  ],
  [
    "with accounts and another version of the schema",
    async (t: TestContext, file: string) => {
      await runProgram(t, ["admin", "account", "create", "alice", "--db", file]);
      const connection = new Database(file);
      const version = Number(connection.pragma("user_version", { simple: true }));
      connection.pragma(`user_version = ${version - 1}`);
      connection.exec("DELETE FROM secrets");
      connection.pragma("wal_checkpoint(TRUNCATE)");
      connection.close();
    },
  ],
] as const) {
  test(`dev refuses a file ${name}, and changes nothing in it`, async (t) => {
    const file = join(temporaryFolder(t), "real.db");
    await make(t, file);
    const before = readFileSync(file);

    const { code, stderr } = await runProgram(t, [...DEV, file]);

    assert.equal(code, 1);
    assert.ok(stderr.includes("postbackd start"), stderr);
    assert.ok(readFileSync(file).equals(before));
  });
}

test("a file that dev created is served by dev again, and refused by start", async (t) => {
  const file = join(temporaryFolder(t), "tests.db");
  const dev = await startDevProgram(t, "--db", file);
  const [id = ""] = await dev.post({ input: 1 });
  await dev.ask(`GET /dev/wait/${id}`);
  assert.equal((await dev.program.stop()).code, 0);

  const { code, stderr } = await runProgram(t, [...START, file]);
  assert.equal(code, 1);
  assert.ok(stderr.includes("postbackd dev"), stderr);

  const again = await startDevProgram(t, "--db", file);
  assert.equal((await again.task(id)).state, "completed");
  await again.program.stop();
  assert.ok(existsSync(file));
});

test("start serves a file without a mark of its mode, as older versions left it", async (t) => {
  const folder = temporaryFolder(t);
  const [file, copy] = [join(folder, "a.db"), join(folder, "b.db")];
  await runProgram(t, ["admin", "account", "create", "alice", "--db", file]);
  copyFileSync(file, copy);

  const real = startProgram(t, [...START, copy]);
  await real.ready;
  assert.equal((await real.stop()).code, 0);
});
