import assert from "node:assert/strict";
import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import type { CommandLine } from "../../src/domain/task/run.ts";
import { commandEnvironment, commandProblem, findProgram } from "../../src/run/program.ts";

/** A folder with bin/tool (executable), data/tool (not executable) and data/folder/. */
async function makeFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "postbackd-program-"));
  t.after(() => rm(folder, { recursive: true }));
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
    const folder = await makeFolder(t);
    const env = { PATH: path.replaceAll("CWD", folder) };
    assert.equal(
      await findProgram(name, { cwd: join(folder, below), env }),
      join(folder, "bin/tool"),
    );
  });
}

test("findProgram finds programs of the system without PATH, and no folder", async (t) => {
  const cwd = await makeFolder(t);

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
    const folder = await makeFolder(t);
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
