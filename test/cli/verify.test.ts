import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { newWebhookSecret } from "../../src/domain/account/key.ts";
import { signWebhook } from "../../src/domain/webhook/signature.ts";
import { temporaryFolder } from "../helpers/program.ts";
import { runHere } from "./in-process.ts";

const MAIN = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
const SECRET = newWebhookSecret();
const BODY = '{"status_code":20000}';
const SIGNATURE = signWebhook(BODY, SECRET);
const VALID = "The signature is valid.\n";

test("verify exits with 0 for a valid signature of a body and of a URL", async (t) => {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, "body.json"), BODY);
  writeFileSync(join(cwd, "secret.txt"), `${SECRET}\n`);
  const url = "https://example.com/done?id=1";
  const ofBody = ["--body-file", "body.json", "--signature", SIGNATURE];
  const ofUrl = ["--url", url, "--signature", signWebhook(url, SECRET)];

  for (const words of [
    ["--secret", SECRET, ...ofBody],
    ["--secret-file", "secret.txt", ...ofBody],
    ["--secret", SECRET, ...ofUrl],
  ]) {
    const finished = await runHere(t, ["verify", ...words], { cwd });
    assert.deepEqual(finished, { code: 0, signal: null, stdout: VALID, stderr: "" });
  }
});

test("verify exits with 1 and names the fault of an invalid signature", async (t) => {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, "body.json"), `${BODY}\n`);
  const words = ["--secret", SECRET, "--body-file", "body.json", "--signature", SIGNATURE];

  const shown = await runHere(t, ["verify", ...words], { cwd });
  const json = await runHere(t, ["verify", ...words, "--json"], { cwd });

  assert.deepEqual([shown.code, shown.stderr, json.code, json.stderr], [1, "", 1, ""]);
  assert.match(shown.stdout, /\n.*line break/);
  const document = JSON.parse(json.stdout) as { readonly reasons: readonly string[] };
  assert.deepEqual(document, { valid: false, reasons: shown.stdout.trim().split("\n").slice(1) });
});

test("verify reads the body from standard input", async () => {
  const words = ["verify", "--secret", SECRET, "--body-file", "-", "--signature", SIGNATURE];
  const child = spawn(process.execPath, [MAIN, ...words], { stdio: ["pipe", "pipe", "inherit"] });
  child.stdin.end(BODY);

  const [stdout, [code]] = await Promise.all([text(child.stdout), once(child, "close")]);

  assert.deepEqual([stdout, code], [VALID, 0]);
});
