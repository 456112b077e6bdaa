import assert from "node:assert/strict";
import { test } from "node:test";
import type { TestContext } from "node:test";

import { runProgram, temporaryFolder } from "../helpers/program.ts";

const SECRET = /^whsec_[A-Za-z0-9+/]{43}=$/;

interface SecretDocument {
  readonly login: string;
  readonly webhook_secret: string;
  readonly webhook_secret_next: string | null;
}

function runAdmin(t: TestContext, cwd: string, words: string) {
  return runProgram(t, ["admin", ...words.split(" ")], { cwd });
}

/** Runs `admin … --json` in a folder, where it is expected to succeed. */
async function admin(t: TestContext, cwd: string, words: string): Promise<SecretDocument> {
  const { code, stdout, stderr } = await runAdmin(t, cwd, `${words} --json`);
  assert.deepEqual({ code, stderr }, { code: 0, stderr: "" });
  assert.match(stdout, /^\{.*\}\n$/, "one document on one line");
  return JSON.parse(stdout) as SecretDocument;
}

test("rotates a secret: shows both until the end, then the next one alone", async (t) => {
  const cwd = temporaryFolder(t);
  const { webhook_secret: first } = await admin(t, cwd, "account create alice");
  const before = { login: "alice", webhook_secret: first, webhook_secret_next: null };
  assert.deepEqual(await admin(t, cwd, "secret show alice"), before);

  const rotating = await admin(t, cwd, "secret rotate alice");

  const { webhook_secret_next: next } = rotating;
  assert.match(next ?? "", SECRET);
  assert.notEqual(next, first);
  assert.deepEqual(rotating, { ...before, webhook_secret_next: next });
  assert.deepEqual(await admin(t, cwd, "secret show alice"), rotating);
  const after = { login: "alice", webhook_secret: next, webhook_secret_next: null };
  assert.deepEqual(await admin(t, cwd, "secret finish alice"), after);
  assert.deepEqual(await admin(t, cwd, "secret show alice"), after);
});

test("tells a person what a rotation asks of the receivers", async (t) => {
  const cwd = temporaryFolder(t);
  const { webhook_secret: first } = await admin(t, cwd, "account create alice");

  const shown = await runAdmin(t, cwd, "secret show alice");
  const rotated = await runAdmin(t, cwd, "secret rotate alice");
  const { webhook_secret_next: next } = await admin(t, cwd, "secret show alice");
  const finished = await runAdmin(t, cwd, "secret finish alice");

  assert.equal(
    shown.stdout,
    `login                alice\nwebhook_secret       ${first}\nwebhook_secret_next  -\n`,
  );
  assert.equal(
    rotated.stdout,
    `\
login                alice
webhook_secret       ${first}
webhook_secret_next  ${next}

Give the next secret to every receiver now; a receiver may accept both signatures.
Then run 'postbackd admin secret finish alice'.
`,
  );
  assert.equal(
    finished.stdout,
    `\
login                alice
webhook_secret       ${next}
webhook_secret_next  -

Webhooks are signed with this secret only.
`,
  );
});

test("refuses a second rotation before the first is finished, which stays as it is", async (t) => {
  const cwd = temporaryFolder(t);
  await admin(t, cwd, "account create alice");
  const rotating = await admin(t, cwd, "secret rotate alice");

  const { code, stderr } = await runAdmin(t, cwd, "secret rotate alice --json");

  assert.equal(code, 1);
  assert.equal(
    stderr,
    "postbackd: the secret of alice is rotating already; " +
      "finish that rotation first, with 'postbackd admin secret finish alice'\n",
  );
  assert.deepEqual(await admin(t, cwd, "secret show alice"), rotating);
});

const FAILING: readonly [words: string, code: number, stderr: RegExp][] = [
  [
    "secret finish alice",
    1,
    /^postbackd: the secret of alice is not rotating; begin .*rotate alice'/,
  ],
  ["secret show bob", 1, /^postbackd: there is no account bob; /],
  ["secret rotate bob", 1, /^postbackd: there is no account bob; /],
  ["secret finish bob", 1, /^postbackd: there is no account bob; /],
  ["secret show é", 2, /^postbackd: LOGIN must be 1 to 64 characters/],
  ["secret rotate", 2, /^postbackd: LOGIN is missing\n/],
  ["secret finish alice now", 2, /^postbackd: unexpected argument "now"\n/],
];

test("says why a secret cannot be shown or changed, and leaves it", async (t) => {
  const cwd = temporaryFolder(t);
  const { webhook_secret: first } = await admin(t, cwd, "account create alice");

  for (const [words, code, stderr] of FAILING) {
    const finished = await runAdmin(t, cwd, `${words} --json`);
    assert.equal(finished.code, code, words);
    assert.match(finished.stderr, stderr);
  }

  const shown = await admin(t, cwd, "secret show alice");
  assert.deepEqual(shown, { login: "alice", webhook_secret: first, webhook_secret_next: null });
});

for (const name of ["show", "rotate", "finish"]) {
  test(`explains secret ${name} with an example`, async (t) => {
    const { code, stdout } = await runProgram(t, ["admin", "secret", name, "--help"]);

    assert.equal(code, 0);
    assert.match(stdout, new RegExp(`EXAMPLE\n\n  postbackd admin secret ${name} alice\n$`));
  });
}
