import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { TestContext } from "node:test";

import { isWellFormedWorkerToken, newKey, newWorkerToken } from "../../src/domain/account/key.ts";
import { temporaryFolder } from "../helpers/program.ts";
import { makeDatabase } from "../helpers/store.ts";
import { columns, documentOf, runHere } from "./in-process.ts";

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const TOML = '[types.resize]\nrunner = "worker"\n[types.ocr]\nrunner = "worker"\n';

/** A folder with a database and a configuration with two types for workers. */
async function workerFolder(t: TestContext): Promise<string> {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, "postbackd.toml"), TOML);
  await makeDatabase(join(cwd, "postbackd.db"));
  return cwd;
}

function worker(t: TestContext, cwd: string, words: string) {
  return documentOf(t, ["admin", "worker", ...words.split(" ")], { cwd });
}

function runWorker(t: TestContext, cwd: string, words: string) {
  return runHere(t, ["admin", "worker", ...words.split(" ")], { cwd });
}

test("create makes a worker and shows its token once", async (t) => {
  const cwd = await workerFolder(t);

  const created = await worker(t, cwd, "create w-1 --type resize --type ocr --type resize");
  const listed = await worker(t, cwd, "list");

  const { token, created_at } = created.worker;
  assert.ok(isWellFormedWorkerToken(token));
  assert.match(created_at, TIME);
  const shown = {
    ...{ name: "w-1", prefix: "pbd_work_", last_four: token.slice(-4) },
    ...{ types: ["resize", "ocr"], created_at },
  };
  assert.deepEqual(created, { worker: { ...shown, token } });
  const unused = { last_seen_at: null, leases: 0, revoked_at: null };
  assert.deepEqual(listed, { workers: [{ ...shown, ...unused }] });
});

test("create warns of types that the configuration does not run by workers", async (t) => {
  const cwd = temporaryFolder(t);

  const finished = await runWorker(t, cwd, "create w --type a.b --type echo --json");

  assert.equal(finished.code, 0);
  assert.ok(isWellFormedWorkerToken(JSON.parse(finished.stdout).worker.token));
  const [first = "", second = ""] = finished.stderr.split("\n");
  assert.match(first, /warning: .*\[types\."a\.b"\]/);
  assert.match(second, /warning: .*\[types\.echo\]/);
});

test("a name has one active worker at a time", async (t) => {
  const cwd = await workerFolder(t);
  const first = await worker(t, cwd, "create w --type ocr");

  const taken = await runWorker(t, cwd, "create w --type ocr");
  const revoked = await worker(t, cwd, "revoke w");
  const again = await worker(t, cwd, "revoke w");
  const second = await worker(t, cwd, "create w --type ocr");

  assert.deepEqual([taken.code, taken.stdout], [1, ""]);
  assert.match(taken.stderr, /worker revoke w/);
  assert.match(revoked.worker.revoked_at, TIME);
  assert.equal(revoked.worker.last_four, first.worker.last_four);
  assert.deepEqual(again, revoked);
  const { workers } = await worker(t, cwd, "list");
  assert.deepEqual(columns(workers, "last_four", "revoked_at"), [
    [second.worker.last_four, null],
    [first.worker.last_four, revoked.worker.revoked_at],
  ]);
});

test("no message repeats a token that is given as a name", async (t) => {
  const cwd = await workerFolder(t);
  const token = newWorkerToken().key;

  for (const given of [token, newKey().key, `Bearer=${token}`, token.slice(0, -2)]) {
    for (const words of [`create ${given} --type ocr`, `revoke ${given}`]) {
      const { code, stdout, stderr } = await runWorker(t, cwd, words);
      assert.deepEqual([code, stdout], [2, ""]);
      assert.match(stderr, /NAME/);
      assert.ok(!stderr.includes(given.slice(9, 30)), stderr);
    }
  }
});
