import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { TestContext } from "node:test";

import { isWellFormedWorkerToken, newKey, newWorkerToken } from "../../src/domain/account/key.ts";
import { runProgram, startProgram, temporaryFolder } from "../helpers/program.ts";
import { makeDatabase } from "../helpers/store.ts";

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const TOML = '[types.resize]\nrunner = "worker"\n[types.ocr]\nrunner = "worker"\n';

interface WorkerDocument {
  readonly name: string;
  readonly token: string;
  readonly prefix: string;
  readonly last_four: string;
  readonly types: readonly string[];
  readonly created_at: string;
  readonly last_seen_at: string | null;
  readonly leases: number;
  readonly revoked_at: string | null;
}

interface Answer {
  readonly worker: WorkerDocument;
  readonly workers: readonly WorkerDocument[];
}

/** A folder with a database, whose configuration has two types for workers. */
async function workerFolder(t: TestContext): Promise<string> {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, "postbackd.toml"), TOML);
  await makeDatabase(join(cwd, "postbackd.db"));
  return cwd;
}

/** Runs `admin worker … --json` in a folder, where it is expected to succeed without a warning. */
async function worker(t: TestContext, cwd: string, words: string): Promise<Answer> {
  const { code, stdout, stderr } = await runWorker(t, cwd, `${words} --json`);
  assert.deepEqual({ code, stderr }, { code: 0, stderr: "" });
  assert.match(stdout, /^\{.*\}\n$/, "one document on one line");
  return JSON.parse(stdout) as Answer;
}

function runWorker(t: TestContext, cwd: string, words: string) {
  return runProgram(t, ["admin", "worker", ...words.split(" ")], { cwd });
}

test("makes a worker, and shows its token to nobody again", async (t) => {
  const cwd = await workerFolder(t);

  const created = await worker(t, cwd, "create w-1 --type resize --type ocr --type resize");
  const listed = await worker(t, cwd, "list");

  const { token, created_at, last_four } = created.worker;
  assert.ok(isWellFormedWorkerToken(token));
  assert.match(created_at, TIME);
  const shown = {
    ...{ name: "w-1", prefix: "pbd_work_", last_four: token.slice(-4) },
    ...{ types: ["resize", "ocr"], created_at },
  };
  assert.deepEqual(created, { worker: { ...shown, token } });
  const unused = { last_seen_at: null, leases: 0, revoked_at: null };
  assert.deepEqual(listed, { workers: [{ ...shown, ...unused }] });
  const table = await runWorker(t, cwd, "list");
  assert.equal(
    table.stdout,
    `\
NAME  TYPES       LAST FOUR  CREATED AT                LAST SEEN AT  REVOKED AT  LEASES
w-1   resize,ocr  ${last_four}       ${created_at}  -             -           0
`,
  );
});

test("shows a new token to a person, and says that it is the only time", async (t) => {
  const { code, stdout } = await runWorker(t, await workerFolder(t), "create w.1 --type ocr");

  assert.equal(code, 0);
  assert.equal(
    stdout.replace(/pbd_work_[0-9A-Za-z]{40}/, "TOKEN"),
    `\
worker  w.1
token   TOKEN
types   ocr

Store the token now: it cannot be shown again.
`,
  );
});

test("says how to make the first worker where there is none", async (t) => {
  const cwd = await workerFolder(t);

  assert.deepEqual(await worker(t, cwd, "list"), { workers: [] });
  assert.match((await runWorker(t, cwd, "list")).stdout, /^There is no worker yet; make one with /);
});

test("makes a worker for a type that the configuration does not run by workers, with a warning", async (t) => {
  const cwd = temporaryFolder(t);

  const finished = await runWorker(t, cwd, "create w --type a.b --type echo --json");

  assert.equal(finished.code, 0);
  assert.ok(isWellFormedWorkerToken((JSON.parse(finished.stdout) as Answer).worker.token));
  assert.equal(
    finished.stderr,
    "postbackd: warning: the configuration at hand defines no type a.b; a worker gets its tasks when it has " +
      '[types."a.b"] with runner = "worker"\n' +
      "postbackd: warning: the configuration at hand has another runner for type echo; " +
      'a worker gets its tasks when it has [types.echo] with runner = "worker"\n',
  );
});

test("gives a name to one active worker at a time", async (t) => {
  const cwd = await workerFolder(t);
  const first = await worker(t, cwd, "create w --type ocr");

  const taken = await runWorker(t, cwd, "create w --type ocr");
  const revoked = await worker(t, cwd, "revoke w");
  const again = await worker(t, cwd, "revoke w");
  const second = await worker(t, cwd, "create w --type ocr");

  assert.deepEqual(
    [taken.code, taken.stdout, taken.stderr],
    [
      1,
      "",
      "postbackd: there is a worker w already; choose another name, or revoke it first with " +
        "'postbackd admin worker revoke w'\n",
    ],
  );
  assert.match(revoked.worker.revoked_at ?? "", TIME);
  assert.equal(revoked.worker.last_four, first.worker.last_four);
  assert.deepEqual(again, revoked, "a second revocation answers the same");
  const { workers } = await worker(t, cwd, "list");
  assert.deepEqual(
    workers.map(({ last_four, revoked_at }) => [last_four, revoked_at]),
    [
      [second.worker.last_four, null],
      [first.worker.last_four, revoked.worker.revoked_at],
    ],
  );
  assert.match(
    (await runWorker(t, cwd, "revoke w")).stdout,
    /^Worker w is revoked since \S{24}\.\n$/,
  );
});

test("refuses a revoked token on the very next request to a running daemon", async (t) => {
  const cwd = await workerFolder(t);
  const { url } = await startProgram(t, ["start", "--port", "0"], { cwd }).ready;
  const { token } = (await worker(t, cwd, "create w --type ocr")).worker;
  const codeOf = async (): Promise<number> => {
    const response = await fetch(`${url}/v1/worker/claim`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({ types: ["ocr"], max: 1, wait_seconds: 0 }),
    });
    return ((await response.json()) as { readonly status_code: number }).status_code;
  };

  assert.equal(await codeOf(), 20000);
  await worker(t, cwd, "revoke w");

  assert.equal(await codeOf(), 40101);
});

test("never repeats a token that was given for a name", async (t) => {
  const cwd = await workerFolder(t);
  const token = newWorkerToken().key;

  for (const given of [token, newKey().key, `Bearer=${token}`, token.slice(0, -2)]) {
    for (const words of [`create ${given} --type ocr`, `revoke ${given}`]) {
      const { code, stdout, stderr } = await runWorker(t, cwd, words);
      assert.deepEqual([code, stdout], [2, ""]);
      assert.match(stderr, /^postbackd: NAME must be 1 to 64 characters of .+, and never a/);
      assert.ok(!stderr.includes(given.slice(9, 30)), stderr);
    }
  }
});

const WRONG: readonly [words: string, code: number, stderr: RegExp][] = [
  ["create w", 2, /^postbackd: --type is missing\n/],
  ["create --type ocr", 2, /^postbackd: NAME is missing\n/],
  ["create w --type a/b", 2, /^postbackd: --type must be 1 to 64 characters of .+, not "a\/b"\n/],
  [`create ${"w".repeat(65)} --type ocr`, 2, /^postbackd: NAME must be 1 to 64 characters/],
  ["create w@1 --type ocr", 2, /^postbackd: NAME must be /],
  ["revoke nobody", 1, /^postbackd: there is no worker with this name; 'postbackd admin worker l/],
];

for (const [words, code, stderr] of WRONG) {
  test(`says what is wrong: admin worker ${words.slice(0, 40)}`, async (t) => {
    const finished = await runWorker(t, await workerFolder(t), words);

    assert.deepEqual([finished.code, finished.stdout], [code, ""]);
    assert.match(finished.stderr, stderr);
  });
}
