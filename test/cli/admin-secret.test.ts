import assert from "node:assert/strict";
import { test } from "node:test";

import { temporaryFolder } from "../helpers/program.ts";
import { documentOf, runHere } from "./in-process.ts";

const SECRET = /^whsec_[A-Za-z0-9+/]{43}=$/;

interface SecretDocument {
  readonly login: string;
  readonly webhook_secret: string;
  readonly webhook_secret_next: string | null;
}

test("a rotation shows both secrets until it is finished, then the new one alone", async (t) => {
  const cwd = temporaryFolder(t);
  const admin = (words: string): Promise<SecretDocument> =>
    documentOf(t, ["admin", ...words.split(" ")], { cwd });
  const { webhook_secret: first } = await admin("account create alice");
  const before = { login: "alice", webhook_secret: first, webhook_secret_next: null };
  assert.deepEqual(await admin("secret show alice"), before);

  const rotating = await admin("secret rotate alice");
  const again = await runHere(t, ["admin", "secret", "rotate", "alice"], { cwd });

  const { webhook_secret_next: next } = rotating;
  assert.match(next ?? "", SECRET);
  assert.notEqual(next, first);
  assert.deepEqual(rotating, { ...before, webhook_secret_next: next });
  assert.equal(again.code, 1);
  assert.match(again.stderr, /secret finish alice/);
  assert.deepEqual(await admin("secret show alice"), rotating);
  const after = { login: "alice", webhook_secret: next, webhook_secret_next: null };
  assert.deepEqual(await admin("secret finish alice"), after);
  assert.deepEqual(await admin("secret show alice"), after);
});
