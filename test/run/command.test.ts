import assert from "node:assert/strict";
import { once } from "node:events";
import { chmod, open, readdir, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { test } from "node:test";

import type { CommandLine } from "../../src/domain/task/run.ts";
import { completed, fixture, makeFolder, node, run, sh } from "./command-run.ts";
import { openHeldProcesses } from "./held-process.ts";

const descriptorsAtStart: string[] = await readdir("/proc/self/fd").catch(() => []);

test("a command reads the task as one line of JSON, every digit kept, then the end", async () => {
  const outcome = await run(["cat"], {
    id: "0190",
    type: "resize",
    tag: 'a "tag" \u2028 é',
    marketplace: "de",
    inputText: '{"n":12345678901234567890,"x":1.50,"e":1e400}',
  });

  const head = '{"id":"0190","type":"resize","tag":"a \\"tag\\" \u2028 é","marketplace":"de"';
  const input = '{"n":12345678901234567890,"x":1.50,"e":1e400}';
  assert.deepEqual(outcome, completed(`${head},"input":${input}}`));
});

test("an input of several lines reaches the command as one", async () => {
  const outcome = await run(["wc", "-l"], { inputText: '{\r\n  "a": [\n1]\n}\n' });

  assert.deepEqual(outcome, completed("1"));
});

test("text on stdout becomes a JSON string", async () => {
  assert.deepEqual(await run(sh("echo 'it is done'")), completed('"it is done"'));
});

test("no output and exit code 0 is the result null", async () => {
  assert.deepEqual(await run(["true"]), completed("null"));
});

test("stderr of a command that exits with 0 is no failure", async () => {
  assert.deepEqual(await run(sh("echo warning >&2; echo 1")), completed("1"));
});

test("another exit code fails the run, whatever stdout says", async () => {
  const outcome = await run(sh("echo '{}'; echo 'no such page' >&2; exit 3"));

  assert.deepEqual(outcome, {
    kind: "failed",
    message: "The command exited with code 3.",
    detail: { exit_code: 3, signal: null, stderr: "no such page\n" },
  });
});

test("a command ended by a signal fails the run with the signal's name", async () => {
  const outcome = await run(sh("kill -SEGV $$"));

  assert.deepEqual(outcome, {
    kind: "failed",
    message: "The command was ended by SIGSEGV.",
    detail: { exit_code: null, signal: "SIGSEGV", stderr: "" },
  });
});

const base64 = (text: string): string => Buffer.from(text).toString("base64");
const stderrs: readonly (readonly [rule: string, written: string, shown: string])[] = [
  ["exactly the last 4096 bytes of stderr", `lost${"k".repeat(4096)}`, "k".repeat(4096)],
  ["no part of a character cut at 4096 bytes", `é${"k".repeat(4095)}`, "k".repeat(4095)],
  ["the end of a long stderr", `${"x".repeat(1_000_000)}${"k".repeat(4096)}`, "k".repeat(4096)],
];
for (const [rule, written, shown] of stderrs) {
  test(`a failed run shows ${rule}`, async () => {
    const inputText = JSON.stringify({ stderr: base64(written), exit: 1 });

    const outcome = await run(node("act.mjs"), { inputText });

    assert.deepEqual(outcome, {
      kind: "failed",
      message: "The command exited with code 1.",
      detail: { exit_code: 1, signal: null, stderr: shown },
    });
  });
}

test("output that is no UTF-8 fails the run", async () => {
  assert.deepEqual(await run(sh(String.raw`printf '"\377"'; printf hint >&2`)), {
    kind: "failed",
    message: "The command's output is not valid UTF-8.",
    detail: { exit_code: 0, signal: null, stderr: "hint" },
  });
});

test("output nested deeper than 64 levels fails the run", async () => {
  const stdout = base64("[".repeat(65) + "]".repeat(65));

  const outcome = await run(node("act.mjs"), { inputText: JSON.stringify({ stdout }) });

  assert.deepEqual(outcome, {
    kind: "failed",
    message: "The command's output is JSON nested deeper than 64 levels.",
    detail: { exit_code: 0, signal: null, stderr: "" },
  });
});

const TOO_LONG =
  "The command wrote more than 1048576 bytes to stdout, the limit of a result, and was stopped.";

test("a command that writes 1 GB is stopped at the limit of a result", async () => {
  const outcome = await run(["head", "-c", "1000000000", "/dev/zero"]);

  assert.equal(outcome.kind, "failed");
  assert.equal(outcome.message, TOO_LONG);
});

test("stdout of exactly the limit is a result, one byte more is not", async () => {
  const resultBytesMax = 100_000;
  const command = (digits: number): CommandLine =>
    sh('head -c "$1" /dev/zero | tr "\\0" 1', `${digits}`);

  const exact = await run(command(resultBytesMax), { resultBytesMax });
  const over = await run(command(resultBytesMax + 1), { resultBytesMax });

  assert.deepEqual(exact, completed("1".repeat(resultBytesMax)));
  assert.equal(over.kind, "failed");
});

test("a missing program fails the run and names it", async () => {
  assert.deepEqual(await run(["no-such-program"]), {
    kind: "failed",
    message:
      "The program 'no-such-program' was not found in PATH: install it or correct 'command'.",
    detail: { error_code: "ENOENT" },
  });
});

test("a program that is not executable fails the run", async (t) => {
  const cwd = await makeFolder(t);
  await writeFile(join(cwd, "tool"), "#!/bin/sh\n", { mode: 0o644 });

  assert.deepEqual(await run(["./tool"], { cwd }), {
    kind: "failed",
    message: "The program './tool' is not executable: make it so (chmod +x) or correct 'command'.",
    detail: { error_code: "EACCES" },
  });
});

test("a program whose interpreter is missing fails the run", async (t) => {
  const cwd = await makeFolder(t);
  await writeFile(join(cwd, "tool"), "#!/no/such/interpreter\n");
  await chmod(join(cwd, "tool"), 0o755);

  assert.deepEqual(await run(["./tool"], { cwd }), {
    kind: "failed",
    message:
      "The program './tool' could not be started: " +
      "the interpreter or loader it names does not exist.",
    detail: { error_code: "ENOENT" },
  });
});

test("a missing working folder fails the run and is named", async (t) => {
  const cwd = join(await makeFolder(t), "none");

  assert.deepEqual(await run(["true"], { cwd }), {
    kind: "failed",
    message: `The command's working folder '${cwd}' does not exist: create it or correct 'cwd'.`,
    detail: { error_code: "ENOENT" },
  });
});

test("a working folder that is a file fails the run", async () => {
  const cwd = fixture("act.mjs");

  assert.deepEqual(await run(["true"], { cwd }), {
    kind: "failed",
    message: `The command's working folder '${cwd}' does not exist: create it or correct 'cwd'.`,
    detail: { error_code: "ENOTDIR" },
  });
});

test("arguments longer than the system takes fail the run", async () => {
  assert.deepEqual(await run(["true", "x".repeat(4_000_000)]), {
    kind: "failed",
    message: "The program 'true' could not be started: E2BIG.",
    detail: { error_code: "E2BIG" },
  });
});

test("a command that exits without reading 1 MiB of input keeps its result", async () => {
  const inputText = JSON.stringify("x".repeat(1_048_576));

  assert.deepEqual(await run(["echo", "7"], { inputText }), completed("7"));
});

test("1 MiB of input and output pass at once", async () => {
  const inputText = JSON.stringify("x".repeat(1_048_000));

  const outcome = await run(["cat"], { inputText });

  assert.equal(outcome.kind, "completed");
  assert.ok(outcome.resultText.endsWith(`,"input":${inputText}}`));
});

test("arguments reach the command as they are, without a shell", async () => {
  const hostile = "$(touch x); `id` | > * \"'\\ é";

  const outcome = await run(["printf", "%s", hostile]);

  assert.deepEqual(outcome, completed(JSON.stringify(hostile)));
});

test("a command gets its folder and variables, and no POSTBACKD_ of the daemon", async (t) => {
  const cwd = await makeFolder(t);
  process.env["POSTBACKD_TEST_SECRET"] = "secret";
  t.after(() => delete process.env["POSTBACKD_TEST_SECRET"]);
  const script = 'echo "[$POSTBACKD_TEST_SECRET]$GREETING$(pwd)"';

  const outcome = await run(sh(script), { cwd, env: { GREETING: "hello " } });

  assert.deepEqual(outcome, completed(JSON.stringify(`[]hello ${cwd}`)));
});

test("a command inherits no descriptor of the daemon but its own 0 to 3", async (t) => {
  if (descriptorsAtStart.length === 0) return t.skip("this system has no /proc");
  const { socketPath } = await openHeldProcesses(t);
  const connection = connect(socketPath);
  t.after(() => connection.destroy());
  await once(connection, "connect");
  const file = await open(fixture("act.mjs"));
  t.after(() => file.close());

  const outcome = await run(sh("ls /proc/$$/fd"));

  assert.ok(outcome.kind === "completed");
  const descriptors = String(JSON.parse(outcome.resultText)).split("\n");
  // Those that whoever started the tests left open are not the daemon's.
  const outside = descriptorsAtStart.filter((name) => Number(name) > 3);
  assert.deepEqual(
    descriptors.filter((name) => !outside.includes(name)),
    ["0", "1", "2", "3"],
  );
});

test("a command is the first process of its own group", async () => {
  const outcome = await run(sh('[ "$(ps -o pgid= -p $$ | tr -d " ")" = $$ ] && echo true'));

  assert.deepEqual(outcome, completed("true"));
});
