import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { TestContext } from "node:test";

import { startCommand } from "../../src/cli/start.ts";
import { TASK_STATES } from "../../src/domain/task/task.ts";
import { DELIVERY_STATES, UNDELIVERED_STATES } from "../../src/domain/webhook/delivery.ts";
import { flagsOf } from "../helpers/commands.ts";
import { SOURCES, temporaryFolder } from "../helpers/program.ts";
import { runHere } from "./in-process.ts";

const BASH_COMPLETION = "/usr/share/bash-completion/bash_completion";

function hasShell(shell: string): boolean {
  return spawnSync(shell, ["-c", "exit 0"]).status === 0;
}

/** Runs lines of a shell that has the program as `postbackd` and its completion script as $SCRIPT. */
async function runShell(t: TestContext, shell: string, lines: string): Promise<string> {
  const folder = temporaryFolder(t);
  const { stdout: script } = await runHere(t, ["completion", shell]);
  writeFileSync(join(folder, "script"), script);
  const program = `#!/bin/sh\nexec ${SOURCES.map((word) => `'${word}'`).join(" ")} "$@"\n`;
  writeFileSync(join(folder, "postbackd"), program, { mode: 0o755 });
  const { PATH = "" } = process.env;
  const env = { ...process.env, PATH: `${folder}:${PATH}`, SCRIPT: join(folder, "script") };
  const args = shell === "bash" ? ["--norc", "-c", lines] : ["-c", lines];
  const { status, stdout } = spawnSync(shell, args, { encoding: "utf8", cwd: folder, env });
  assert.equal(status, 0);
  return stdout;
}

const OFFERS: readonly [line: string, offered: readonly string[]][] = [
  ["postbackd exp", ["explain-url"]],
  ["postbackd admin acc", ["account", "access"]],
  ["postbackd admin account cr", ["create"]],
  ["postbackd --ver", ["--version"]],
  ["postbackd health --w", ["--wait"]],
  ["postbackd completion ", ["bash", "zsh", "fish", "powershell"]],
  // A value that is any text; then the flag after one.
  ["postbackd start --port ", []],
  ["postbackd admin key create --db x --la", ["--label"]],
  // A flag of the same name has other values in another command.
  ["postbackd admin task list --state ", TASK_STATES],
  ["postbackd admin delivery list --state ", DELIVERY_STATES],
  ["postbackd admin delivery redeliver --state ", ["delivered", ...UNDELIVERED_STATES]],
  // The name of a command that is a value is not the command.
  ["postbackd explain-url admin acc", []],
];

test("bash completes commands, flags and the values of a list", async (t) => {
  if (!existsSync(BASH_COMPLETION)) return t.skip("bash-completion is not installed");
  const calls = OFFERS.map(([line]) => {
    const words = line.split(" ").map((word) => `'${word}'`);
    return `COMP_LINE='${line}' COMP_POINT=${line.length} COMP_CWORD=${words.length - 1}
      COMP_WORDS=(${words.join(" ")}); COMPREPLY=(); __postbackd_complete; echo "\${COMPREPLY[*]}"`;
  });
  // Only the shell itself may call it.
  const head = `. ${BASH_COMPLETION}; . "$SCRIPT"; compopt() { :; }`;
  const lines = (await runShell(t, "bash", `${head}\n${calls.join("\n")}`)).split("\n");

  OFFERS.forEach(([line, offered], i) => {
    const shown = (lines[i] ?? "").split(" ").filter((word) => word !== "");
    assert.deepEqual(shown.toSorted(), offered.toSorted(), line);
  });
});

test("zsh shows descriptions with quotes and colons unchanged", async (t) => {
  if (!hasShell("zsh")) return t.skip("zsh is not installed");
  const out = await runShell(
    t,
    "zsh",
    `compdef() { :; }; . "$SCRIPT"; _describe() { print -rl -- "\${completions[@]}"; }
    words=(postbackd sta); CURRENT=2; _postbackd
    words=(postbackd start --dns-s); CURRENT=3; _postbackd`,
  );

  const [start, server] = out.split("\n");
  assert.equal(start, `start:${startCommand.meta.description}`);
  assert.match(start ?? "", /:.*:/);
  assert.equal(server, `--dns-server:${startCommand.args["dns-server"]?.description}`);
  assert.match(server ?? "", /'/);
});

test("fish completes flags with their descriptions, and file names as values", async (t) => {
  if (!hasShell("fish")) return t.skip("fish is not installed");
  const out = await runShell(
    t,
    "fish",
    `source $SCRIPT; complete -C 'postbackd start --dns-s'; complete -C 'postbackd start --db scr'
    complete -C 'postbackd backup check scr'; complete -C 'postbackd admin key create --log'`,
  );

  const server = `--dns-server\t${startCommand.args["dns-server"]?.description}`;
  assert.deepEqual(out.trimEnd().split("\n"), [server, "script", "script"]);
});

test("the program offers every flag of a command, and leaves paths to the shell", async (t) => {
  const offer = async (...words: string[]): Promise<string> =>
    (await runHere(t, ["completion", "complete", "--", ...words])).stdout;

  const offered = (await offer("start", "--")).split("\n").map((line) => line.split("\t")[0]);
  const flags = [...flagsOf(startCommand), "help"].map((name) => `--${name}`);
  assert.deepEqual(offered, [...flags, ":4", ""]);
  for (const words of [
    ["start", "--db", ""],
    ["start", "--db=x"],
    ["backup", "check", ""],
  ]) {
    assert.equal(await offer(...words), ":0\n", words.join(" "));
  }
});

for (const shell of ["bash", "zsh", "fish"]) {
  test(`${shell} parses its script`, async (t) => {
    if (!hasShell(shell)) return t.skip(`${shell} is not installed`);
    await runShell(t, shell, `${shell} -n "$SCRIPT"`);
  });
}
