import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { z } from "zod";

import { version } from "../../src/assets.ts";
import {
  TEXT,
  flag,
  flags,
  optionalWord,
  rest,
  textOf,
  toggle,
  word,
} from "../../src/cli/arguments.ts";
import { defineCommand, readArguments } from "../../src/cli/command.ts";
import { helpText } from "../../src/cli/help.ts";
import { program } from "../../src/cli/program.ts";
import { startCommand } from "../../src/cli/start.ts";
import { PLAIN } from "../../src/cli/terminal.ts";
import { SETTING_LIST } from "../../src/config/config.ts";
import { TASK_STATES } from "../../src/domain/task/task.ts";
import { DELIVERY_STATES, UNDELIVERED_STATES } from "../../src/domain/webhook/delivery.ts";
import { allCommands, flagsOf } from "../helpers/commands.ts";
import { SOURCES, temporaryFolder } from "../helpers/program.ts";
import { documentOf, runHere } from "./in-process.ts";

const ARGS = {
  login: word(TEXT, ""),
  label: flag(TEXT, ""),
  db: flags(TEXT, ""),
  json: toggle(""),
};

test("a repeated flag keeps every value in order, in both notations", () => {
  const args = readArguments(["--db=a", "alice", "--db", "b", "--label=--json"], ARGS);

  assert.deepEqual(args, { login: "alice", label: "--json", db: ["a", "b"], json: false });
});

test("a boolean flag is taken alone, as true and as false", () => {
  for (const [words, value] of [
    [["--json"], true],
    [["--json=true"], true],
    [["--json=false"], false],
  ] as const) {
    assert.equal(readArguments(["alice", ...words], ARGS).json, value);
  }
});

test("a rest argument takes all remaining words", () => {
  const definitions = { ...ARGS, command: rest("") };

  const args = readArguments(["alice", "--", "sh", "-c", "--db"], definitions);

  assert.deepEqual(args.command, ["sh", "-c", "--db"]);
  assert.throws(() => readArguments(["alice", "--"], definitions), { name: "UsageError" });
});

test("words after -- are arguments", () => {
  assert.equal(readArguments(["--", "--json"], ARGS).login, "--json");
});

// sentences.txt has the messages.
const REFUSED: readonly (readonly string[])[] = [
  ["alice", "--lable", "x"],
  ["alice", "--no-json"],
  ["alice", "--login", "x"],
  ["alice", "-x"],
  ["alice", "--__proto__"],
  ["alice", "--\u001b[2J"],
  ["alice", "--db"],
  ["alice", "--db", "--json"],
  ["alice", "--json=maybe"],
  ["alice", "bob"],
  ["--json"],
];

test("an unknown flag, a missing value or a surplus word is refused", () => {
  for (const words of REFUSED) {
    assert.throws(() => readArguments(words, ARGS), { name: "UsageError", message: /^[ -~]+$/ });
  }
});

test("a dash is a value, and an optional word may be missing", () => {
  const args = { file: optionalWord(TEXT, ""), body: flag(TEXT, "") };

  assert.deepEqual(readArguments(["--body", "-"], args), { file: null, body: "-" });
  assert.equal(readArguments(["x"], args).file, "x");
  assert.throws(() => readArguments(["x", "y"], args), { name: "UsageError" });
});

/** A command with an argument of each kind. */
const DEMO = defineCommand({
  description: "Show what help looks like",
  example: "postbackd demo alice",
  notes: "The first note.\n\nThe second one,\nwhich the source breaks.",
  args: {
    login: word(TEXT, "Login of the account"),
    file: optionalWord(TEXT, "File to write"),
    label: flag(TEXT, "A text"),
    size: flag(textOf("N"), "A number", { standard: "7" }),
    fast: toggle("A switch"),
    "a-flag-that-is-longer": flag(textOf("TEXT|OR|ANOTHER"), "One with many values"),
  },
});

test("--version prints the version, and the command version adds the versions of its parts", async (t) => {
  for (const flag of ["--version", "-V", "-v"]) {
    const { code, stdout, stderr } = await runHere(t, [flag]);
    assert.deepEqual({ code, stdout, stderr }, { code: 0, stdout: `${version}\n`, stderr: "" });
  }
  const { stdout } = await runHere(t, ["version"]);
  assert.match(stdout, new RegExp(`^postbackd +${version}$`, "mu"));
  assert.match(stdout, new RegExp(`^node +${process.versions.node}$`, "mu"));
  for (const words of [["version"], ["--version"]]) {
    const document = await documentOf(t, words);
    assert.equal(
      z.object({ version: z.string(), schema: z.int() }).parse(document).version,
      version,
    );
  }
});

test("help, -h and --help print the same", async (t) => {
  const expected = await runHere(t, ["admin", "key", "--help"]);
  for (const words of [
    ["help", "admin", "key"],
    ["admin", "key", "-h"],
    ["--no-color", "admin", "key", "--help"],
  ]) {
    assert.deepEqual(await runHere(t, words), expected, words.join(" "));
  }
  assert.deepEqual(await runHere(t, ["help"]), await runHere(t, ["--help"]));
});

test("help aligns the names and explanations of arguments and flags", async () => {
  assert.equal(
    await helpText("postbackd demo", DEMO, PLAIN),
    `\
Show what help looks like (postbackd demo)

USAGE postbackd demo [OPTIONS] LOGIN [FILE]

ARGUMENTS

  LOGIN  Login of the account
  FILE   File to write

OPTIONS

  --label TEXT  A text
  --size N      A number [default: 7]
  --fast        A switch
  --a-flag-that-is-longer TEXT|OR|ANOTHER
                One with many values

The first note.

The second one, which the source breaks.

EXAMPLE

  postbackd demo alice
`,
  );
});

test("help on a narrow terminal breaks explanations between words", async () => {
  const narrow = await helpText("postbackd start", startCommand, { ...PLAIN, width: 60 });
  assert.doesNotMatch(narrow, /^(?! {2}postbackd).{61}/mu);
  assert.match(narrow, /^ {2}--no-notify +\S.*\n {24}\S/mu);
});

test("the help of start has every flag of a setting", async (t) => {
  const { code, stdout } = await runHere(t, ["start", "--host", "x", "--help"]);

  assert.equal(code, 0);
  for (const { flag } of SETTING_LIST) {
    if (flag !== null) assert.match(stdout, new RegExp(`^ {2}--${flag}( |$)`, "mu"));
  }
});

test("the manual page has every command and every flag", async (t) => {
  const { code, stdout } = await runHere(t, ["man"]);

  assert.equal(code, 0);
  const page = stdout.replaceAll("\\-", "-");
  for (const { words, command, isGroup } of await allCommands(program)) {
    if (isGroup) continue;
    const section = page.split(/^\.S[SH] /mu).find((each) => isAbout(each, words));
    assert.ok(section !== undefined, words.join(" "));
    for (const name of flagsOf(command)) {
      assert.match(section, new RegExp(`^\\.B --${name}( |$)`, "mu"));
    }
  }
  // A line that begins with a dot by accident would be an unknown macro.
  const macros = page.match(/^\.\S+/gmu) ?? [];
  assert.deepEqual(new Set(macros), new Set([".TH", ".SH", ".SS", ".TP", ".B", ".I", ".PP"]));
});

function isAbout(section: string, words: readonly string[]): boolean {
  return new RegExp(`^${["postbackd", ...words].join(" ")}( [[A-Z]|\n)`, "u").test(section);
}

test("the help of each command has its name, a usage and an example of it", async (t) => {
  for (const { words, isGroup } of await allCommands(program)) {
    const name = ["postbackd", ...words].join(" ");
    const { code, stdout, stderr } = await runHere(t, [...words, "--help"]);

    assert.deepEqual([code, stderr], [0, ""]);
    const [title = ""] = stdout.split("\n\nUSAGE ");
    const full = words.length === 0 ? `${name} ${version}` : name;
    assert.ok(title.replaceAll("\n", " ").endsWith(` (${full})`), title);
    const example = /\nEXAMPLE\n\n {2}(.+)\n$/.exec(stdout)?.[1] ?? "";
    assert.doesNotMatch(stdout, /.{121}/, "no line is wider than 120 columns");
    // The example of a group is one of a command in it.
    assert.ok(`${example} `.startsWith(`${name} `), example);
    assert.equal(isGroup, /\nCOMMANDS\n/.test(stdout));
  }
});

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
