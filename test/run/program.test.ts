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

test("finds a program in the PATH of the command, past one that is not executable", async (t) => {
  const cwd = await makeFolder(t);

  const path = await findProgram("tool", {
    cwd,
    env: { PATH: `${cwd}/none:${cwd}/data:${cwd}/bin` },
  });

  assert.equal(path, join(cwd, "bin/tool"));
});

test("finds a program named with a slash from the working folder", async (t) => {
  const cwd = await makeFolder(t);

  assert.equal(await findProgram("bin/tool", { cwd, env: {} }), join(cwd, "bin/tool"));
  assert.equal(await findProgram("./bin/tool", { cwd, env: {} }), join(cwd, "bin/tool"));
});

test("finds a program in an empty or relative entry of PATH from the working folder", async (t) => {
  const cwd = await makeFolder(t);

  assert.equal(
    await findProgram("tool", { cwd, env: { PATH: "/none:bin" } }),
    join(cwd, "bin/tool"),
  );
  assert.equal(
    await findProgram("tool", { cwd: join(cwd, "bin"), env: { PATH: "" } }),
    join(cwd, "bin/tool"),
  );
});

test("finds the system's programs without any PATH", async (t) => {
  const cwd = await makeFolder(t);

  assert.match((await findProgram("sh", { cwd, env: {} })) ?? "", /^\/(usr\/)?bin\/sh$/);
});

test("a folder is no program", async (t) => {
  const cwd = await makeFolder(t);

  assert.equal(await findProgram("folder", { cwd, env: { PATH: join(cwd, "data") } }), null);
});

const problems: readonly (readonly [rule: string, command: CommandLine, problem: string | null])[] =
  [
    ["has no problem with a program that is there", ["tool", "--flag"], null],
    [
      "names a program missing in PATH",
      ["no-such-tool"],
      "The program 'no-such-tool' was not found in PATH: install it or correct 'command'.",
    ],
    [
      "names a missing program given as a path",
      ["./no-such-tool"],
      "The program './no-such-tool' was not found: install it or correct 'command'.",
    ],
    [
      "names a program that is not executable",
      ["data/tool"],
      "The program 'data/tool' is not executable: make it so (chmod +x) or correct 'command'.",
    ],
    [
      "takes an empty name",
      [""],
      "The program '' was not found in PATH: install it or correct 'command'.",
    ],
    [
      "takes a name no file can have",
      ["to\0ol"],
      "The program 'to\0ol' was not found in PATH: install it or correct 'command'.",
    ],
  ];
for (const [rule, command, problem] of problems) {
  test(`the check of a command ${rule}`, async (t) => {
    const cwd = await makeFolder(t);

    assert.equal(await commandProblem(command, { cwd, env: { PATH: join(cwd, "bin") } }), problem);
  });
}

for (const [kind, name] of [
  ["missing", "none"],
  ["a file", "bin/tool"],
] as const) {
  test(`the check of a command names a working folder that is ${kind}`, async (t) => {
    const cwd = join(await makeFolder(t), name);

    assert.equal(
      await commandProblem(["sh"], { cwd, env: {} }),
      `The command's working folder '${cwd}' does not exist: create it or correct 'cwd'.`,
    );
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
