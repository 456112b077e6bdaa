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
import { runProgram, temporaryFolder } from "../helpers/program.ts";

const MAIN = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
const SECRET = newWebhookSecret();
const BODY = '{"status_code":20000}';
const SIGNATURE = signWebhook(BODY, SECRET);
const VALID = "The signature is valid.\n";

test("exits with 0 for a valid signature of a body and of a URL", async (t) => {
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
    const finished = await runProgram(t, ["verify", ...words], { cwd });
    assert.deepEqual(finished, { code: 0, signal: null, stdout: VALID, stderr: "" });
  }
});

test("exits with 1 and says what is wrong, as text and as a document", async (t) => {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, "body.json"), `${BODY}\n`);
  const words = ["--secret", SECRET, "--body-file", "body.json", "--signature", SIGNATURE];

  const shown = await runProgram(t, ["verify", ...words], { cwd });
  const json = await runProgram(t, ["verify", ...words, "--json"], { cwd });

  assert.deepEqual([shown.code, shown.stderr, json.code, json.stderr], [1, "", 1, ""]);
  assert.match(shown.stdout, /^The signature is not valid\.\nThe body has a line break at its end/);
  const document = JSON.parse(json.stdout) as { readonly reasons: readonly string[] };
  assert.deepEqual(document, { valid: false, reasons: shown.stdout.trim().split("\n").slice(1) });
});

test("reads the body from standard input", async () => {
  const words = ["verify", "--secret", SECRET, "--body-file", "-", "--signature", SIGNATURE];
  const child = spawn(process.execPath, [MAIN, ...words], { stdio: ["pipe", "pipe", "inherit"] });
  child.stdin.end(BODY);

  const [stdout, [code]] = await Promise.all([text(child.stdout), once(child, "close")]);

  assert.deepEqual([stdout, code], [VALID, 0]);
});

const WRONG: readonly [words: readonly string[], stderr: RegExp][] = [
  [[], /^postbackd: --signature is missing\n/],
  [["--signature", "x"], /^postbackd: give --secret or --secret-file\n/],
  [["--signature", "x", "--secret", "s"], /^postbackd: give --body-file or --url\n/],
  [
    ["--signature", "x", "--secret", "s", "--url", "u", "--body-file", "-"],
    /^postbackd: give --body-file or --url, not both\n/,
  ],
];

test("exits with 2 when something is missing or given twice", async (t) => {
  for (const [words, stderr] of WRONG) {
    const finished = await runProgram(t, ["verify", ...words]);
    assert.deepEqual([finished.code, finished.stdout], [2, ""]);
    assert.match(finished.stderr, stderr);
  }
});

test("exits with 1 when a file cannot be read", async (t) => {
  for (const words of [
    ["--secret-file", "none", "--url", "https://example.com/"],
    ["--secret", SECRET, "--body-file", "none"],
  ]) {
    const { code, stdout, stderr } = await runProgram(t, ["verify", "--signature", "x", ...words]);
    assert.deepEqual([code, stdout], [1, ""]);
    assert.match(stderr, /^postbackd: the (secret|body) cannot be read from none \(ENOENT\)\n$/);
  }
});
