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

const OFFERS: readonly (readonly [line: string, offered: readonly string[] | ":0"])[] = [
  ["exp", ["explain-url"]],
  ["admin acc", ["account", "access"]],
  ["admin account cr", ["create"]],
  ["--ver", ["--version"]],
  ["health --w", ["--wait"]],
  ["completion ", ["bash", "zsh", "fish", "powershell"]],
  // A value that is any text; then the flag after one.
  ["start --port ", []],
  ["admin key create --db x --la", ["--label"]],
  // A flag of the same name has other values in another command.
  ["admin task list --state ", TASK_STATES],
  ["admin delivery list --state ", DELIVERY_STATES],
  ["admin delivery redeliver --state ", ["delivered", ...UNDELIVERED_STATES]],
  // The name of a command that is a value is not the command.
  ["explain-url admin acc", []],
  // The shell completes paths.
  ...["start --db ", "start --db=x", "backup check "].map((line) => [line, ":0"] as const),
  ["start --", [...flagsOf(startCommand), "help"].map((name) => `--${name}`)],
];

test("the program offers commands, flags and the values of a list", async (t) => {
  for (const [line, offered] of OFFERS) {
    const words = ["completion", "complete", "--", ...line.split(" ")];
    const { stdout } = await runHere(t, words);
    const names = stdout
      .trimEnd()
      .split("\n")
      .map((each) => each.split("\t")[0] ?? "");
    assert.deepEqual(names, offered === ":0" ? [":0"] : [...offered, ":4"], line);
  }
});

test("bash completes what the program offers", async (t) => {
  if (!existsSync(BASH_COMPLETION)) return t.skip("bash-completion is not installed");
  // Only the shell itself may call compopt.
  const shown = await runShell(
    t,
    "bash",
    `. ${BASH_COMPLETION}; . "$SCRIPT"; compopt() { :; }
    COMP_LINE='postbackd admin acc' COMP_POINT=19 COMP_CWORD=2
    COMP_WORDS=(postbackd admin acc); COMPREPLY=(); __postbackd_complete; echo "\${COMPREPLY[*]}"`,
  );

  assert.deepEqual(shown.trim().split(/ +/).toSorted(), ["access", "account"]);
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
