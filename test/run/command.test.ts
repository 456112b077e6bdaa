import assert from "node:assert/strict";
import { once } from "node:events";
import { chmod, mkdir, open, readdir, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";

import type { CommandLine } from "../../src/domain/task/run.ts";
import { commandEnvironment, commandProblem, findProgram } from "../../src/run/program.ts";
import { completed, fixture, makeFolder, node, openHeldProcesses, run, sh } from "./command-run.ts";

const descriptorsAtStart: string[] = await readdir("/proc/self/fd").catch(() => []);

const base64 = (text: string): string => Buffer.from(text).toString("base64");
const DIGITS = '{"n":12345678901234567890,"x":1.50,"e":1e400}';
const HOSTILE = "$(touch x); `id` | > * \"'\\ é";
const MIB = JSON.stringify("x".repeat(1_048_576));
const RESIZE = { id: "0190", type: "resize", tag: 'a "tag" \u2028 é', marketplace: "de" };

const COMPLETED: readonly (readonly [
  name: string,
  command: CommandLine,
  resultText: string,
  request?: Parameters<typeof run>[1],
])[] = [
  [
    "that reads the task as one line of JSON, with every digit",
    ["cat"],
    `{"id":"0190","type":"resize","tag":"a \\"tag\\" \u2028 é","marketplace":"de","input":${DIGITS}}`,
    { ...RESIZE, inputText: DIGITS },
  ],
  ["with an input of several lines", ["wc", "-l"], "1", { inputText: '{\r\n  "a": [\n1]\n}\n' }],
  ["that writes to stderr", sh("echo warning >&2; echo 1"), "1"],
  ["that does not read 1 MiB of input", ["echo", "7"], "7", { inputText: MIB }],
  ["with shell characters in an argument", ["printf", "%s", HOSTILE], JSON.stringify(HOSTILE)],
  [
    "that is the first process of its group",
    sh('[ "$(ps -o pgid= -p $$ | tr -d " ")" = $$ ] && echo true'),
    "true",
  ],
];
for (const [name, command, resultText, request] of COMPLETED) {
  test(`a command ${name} completes the run`, async () => {
    assert.deepEqual(await run(command, request), completed(resultText));
  });
}

const act = (did: object) => ({ inputText: JSON.stringify(did) });
const exited = (exit_code: number, stderr: string) => ({ exit_code, signal: null, stderr });
const KEPT = "k".repeat(4096);

const FAILED: readonly (readonly [
  name: string,
  command: CommandLine,
  detail: object,
  request?: Parameters<typeof run>[1],
])[] = [
  ["that exits with 3", sh("echo '{}'; echo 'no page' >&2; exit 3"), exited(3, "no page\n")],
  ["that a signal ends", sh("kill -SEGV $$"), { exit_code: null, signal: "SIGSEGV", stderr: "" }],
  ...[
    ["with 4096 bytes of stderr", `lost${KEPT}`, KEPT],
    ["with a character cut at 4096 bytes", `é${KEPT.slice(1)}`, KEPT.slice(1)],
    ["with a long stderr", `${"x".repeat(1_000_000)}${KEPT}`, KEPT],
  ].map(
    ([name = "", written = "", shown = ""]) =>
      [name, node("act.mjs"), exited(1, shown), act({ stderr: base64(written), exit: 1 })] as const,
  ),
  ["with invalid UTF-8", sh(String.raw`printf '"\377"'; printf hint >&2`), exited(0, "hint")],
  [
    "with output of 65 levels",
    node("act.mjs"),
    exited(0, ""),
    act({ stdout: base64("[".repeat(65) + "]".repeat(65)) }),
  ],
  ["with a missing program", ["no-such-program"], { error_code: "ENOENT" }],
  ["with a missing folder", ["true"], { error_code: "ENOENT" }, { cwd: "/no/such/folder" }],
  ["with a file as its folder", ["true"], { error_code: "ENOTDIR" }, { cwd: fixture("act.mjs") }],
  ["with too long arguments", ["true", "x".repeat(4_000_000)], { error_code: "E2BIG" }],
];
for (const [name, command, detail, request] of FAILED) {
  test(`a command ${name} fails the run`, async () => {
    const outcome = await run(command, request);
    assert.ok(outcome.kind === "failed");
    assert.deepEqual(outcome.detail, detail);
  });
}

test("a program that is not executable, or without its interpreter, fails the run", async (t) => {
  const cwd = await makeFolder(t);
  for (const [mode, text, error_code] of [
    [0o644, "#!/bin/sh\n", "EACCES"],
    [0o755, "#!/no/such/interpreter\n", "ENOENT"],
  ] as const) {
    await writeFile(join(cwd, "tool"), text);
    await chmod(join(cwd, "tool"), mode);
    const outcome = await run(["./tool"], { cwd });
    assert.ok(outcome.kind === "failed");
    assert.deepEqual(outcome.detail, { error_code });
  }
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

test("a command gets its folder and variables, and no POSTBACKD_ of the daemon", async (t) => {
  const cwd = await makeFolder(t);
  process.env["POSTBACKD_TEST_SECRET"] = "secret";
  t.after(() => delete process.env["POSTBACKD_TEST_SECRET"]);
  const script = 'echo "[$POSTBACKD_TEST_SECRET]$GREETING$(pwd)"';

  const outcome = await run(sh(script), { cwd, env: { GREETING: "hello " } });

  assert.deepEqual(outcome, completed(JSON.stringify(`[]hello ${cwd}`)));
});

test("a command inherits only the descriptors 0 to 3", async (t) => {
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
  // Descriptors that the starter of the tests left open are not the daemon's.
  const outside = descriptorsAtStart.filter((name) => Number(name) > 3);
  assert.deepEqual(
    descriptors.filter((name) => !outside.includes(name)),
    ["0", "1", "2", "3"],
  );
});

/** A folder with bin/tool (executable), data/tool (not executable) and data/folder/. */
async function makeTools(t: TestContext): Promise<string> {
  const folder = await makeFolder(t);
  await mkdir(join(folder, "bin"));
  await mkdir(join(folder, "data", "folder"), { recursive: true });
  for (const name of ["bin/tool", "data/tool"]) await writeFile(join(folder, name), "#!/bin/sh\n");
  await chmod(join(folder, "bin/tool"), 0o755);
  await chmod(join(folder, "data/tool"), 0o644);
  return folder;
}

const FOUND: readonly (readonly [rule: string, name: string, path: string, cwd?: string])[] = [
  ["in PATH, past a file that is not executable", "tool", "CWD/none:CWD/data:CWD/bin"],
  ["by a path from the working folder", "bin/tool", ""],
  ["by a path that begins with ./", "./bin/tool", ""],
  ["in a relative entry of PATH", "tool", "/none:bin"],
  ["in an empty entry of PATH", "tool", "", "bin"],
];
for (const [rule, name, path, below = ""] of FOUND) {
  test(`findProgram finds a program ${rule}`, async (t) => {
    const folder = await makeTools(t);
    const env = { PATH: path.replaceAll("CWD", folder) };
    assert.equal(
      await findProgram(name, { cwd: join(folder, below), env }),
      join(folder, "bin/tool"),
    );
  });
}

test("findProgram finds programs of the system without PATH, and no folder", async (t) => {
  const cwd = await makeTools(t);

  assert.match((await findProgram("sh", { cwd, env: {} })) ?? "", /^\/(usr\/)?bin\/sh$/);
  assert.equal(await findProgram("folder", { cwd, env: { PATH: join(cwd, "data") } }), null);
});

const PROBLEMS: readonly (readonly [rule: string, command: CommandLine, below: string, RegExp?])[] =
  [
    ["an existing program", ["tool", "--flag"], ""],
    ["a program missing in PATH", ["no-such-tool"], "", /no-such-tool.*PATH/],
    ["a missing path", ["./no-such-tool"], "", /\.\/no-such-tool/],
    ["a program that is not executable", ["data/tool"], "", /data\/tool.*chmod/],
    ["an empty name", [""], "", /''/],
    ["a name with a NUL", ["to\0ol"], "", /to\0ol/],
    ["a missing working folder", ["sh"], "none", /none.*'cwd'/],
    ["a file as working folder", ["sh"], "bin/tool", /bin\/tool.*'cwd'/],
  ];
for (const [rule, command, below, problem] of PROBLEMS) {
  test(`commandProblem of ${rule} is ${problem === undefined ? "null" : "a message"}`, async (t) => {
    const folder = await makeTools(t);
    const env = { PATH: join(folder, "bin") };
    const found = await commandProblem(command, { cwd: join(folder, below), env });
    if (problem === undefined) assert.equal(found, null);
    else assert.match(found ?? "", problem);
  });
}

test("a command gets the daemon's environment without POSTBACKD_, then what is configured", () => {
  const daemon = {
    PATH: "/bin",
    LANG: "C",
    POSTBACKD_DB: "/secret",
    POSTBACKD_: "x",
    MY_POSTBACKD_X: "1",
  };

  const env = commandEnvironment(daemon, {
    LANG: "de_DE.UTF-8",
    POSTBACKD_URL: "http://localhost",
  });

  assert.deepEqual(env, {
    PATH: "/bin",
    LANG: "de_DE.UTF-8",
    MY_POSTBACKD_X: "1",
    POSTBACKD_URL: "http://localhost",
  });
});
