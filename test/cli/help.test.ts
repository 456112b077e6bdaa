import assert from "node:assert/strict";
import { test } from "node:test";

import { z } from "zod";

import { version } from "../../src/assets.ts";
import { flag, optionalWord, TEXT, textOf, toggle, word } from "../../src/cli/arguments.ts";
import { defineCommand, type Command } from "../../src/cli/command.ts";
import { helpText } from "../../src/cli/help.ts";
import { program } from "../../src/cli/program.ts";
import { startCommand } from "../../src/cli/start.ts";
import { PLAIN } from "../../src/cli/terminal.ts";
import { SETTING_LIST } from "../../src/config/config.ts";
import { allCommands, flagsOf } from "../helpers/commands.ts";
import { runProgram } from "../helpers/program.ts";

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

function namesBelow(group: Command | (() => Promise<Command>) | undefined): string {
  assert.ok(typeof group === "object");
  return Object.keys(group.subCommands).join(", ");
}

test("prints its version", async (t) => {
  for (const flag of ["--version", "-V", "-v"]) {
    const { code, stdout, stderr } = await runProgram(t, [flag]);
    assert.deepEqual({ code, stdout, stderr }, { code: 0, stdout: `${version}\n`, stderr: "" });
  }
});

test("prints the versions of its parts, for a person and for a script", async (t) => {
  const spoken = await runProgram(t, ["version"]);
  assert.match(spoken.stdout, new RegExp(`^postbackd +${version}$`, "mu"));
  assert.match(spoken.stdout, new RegExp(`^node +${process.versions.node}$`, "mu"));

  for (const words of [
    ["version", "--json"],
    ["--version", "--json"],
  ]) {
    const { stdout } = await runProgram(t, words);
    const document = z.object({ version: z.string(), schema: z.int() }).parse(JSON.parse(stdout));
    assert.equal(document.version, version);
  }
});

test("explains a command in the words that people try", async (t) => {
  const expected = await runProgram(t, ["admin", "key", "--help"]);
  for (const words of [
    ["help", "admin", "key"],
    ["admin", "key", "-h"],
    ["--no-color", "admin", "key", "--help"],
  ]) {
    assert.deepEqual(await runProgram(t, words), expected, words.join(" "));
  }
  const top = await runProgram(t, ["help"]);
  assert.deepEqual(top, await runProgram(t, ["--help"]));
});

test("lists every command and every flag, names aligned and explanations beside them", async () => {
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

test("breaks explanations between words where the terminal is narrow", async () => {
  const narrow = await helpText("postbackd start", startCommand, { ...PLAIN, width: 60 });
  assert.doesNotMatch(narrow, /^(?! {2}postbackd).{61}/mu);
  assert.match(narrow, /^ {2}--no-notify +Send no notifications through the\n {24}server,/mu);
});

test("explains start with every flag of the settings", async (t) => {
  const { code, stdout } = await runProgram(t, ["start", "--host", "x", "--help"]);

  assert.equal(code, 0);
  for (const { flag } of SETTING_LIST) {
    if (flag !== null) assert.match(stdout, new RegExp(`^ {2}--${flag}( |$)`, "mu"));
  }
});

test("prints a manual page with every command and every flag", async (t) => {
  const { code, stdout } = await runProgram(t, ["man"]);

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

for (const { words, isGroup } of await allCommands(program)) {
  const name = ["postbackd", ...words].join(" ");
  test(`explains ${name} with an example of it`, async (t) => {
    const { code, stdout, stderr } = await runProgram(t, [...words, "--help"]);

    assert.deepEqual([code, stderr], [0, ""]);
    const [title = ""] = stdout.split("\n\nUSAGE ");
    const full = words.length === 0 ? `${name} ${version}` : name;
    assert.ok(title.replaceAll("\n", " ").endsWith(` (${full})`), title);
    const example = /\nEXAMPLE\n\n {2}(.+)\n$/.exec(stdout)?.[1] ?? "";
    assert.doesNotMatch(stdout, /.{121}/, "no line is wider than 120 columns");
    // A group's example is one of a command in it.
    assert.ok(`${example} `.startsWith(`${name} `), example);
    assert.equal(isGroup, /\nCOMMANDS\n/.test(stdout));
  });
}

const WRONG: readonly [words: readonly string[], stderr: string][] = [
  [[], `postbackd: no command given; there are ${namesBelow(program)}\nTry 'postbackd --help'.\n`],
  [
    ["strat"],
    "postbackd: unknown command \"strat\"; the nearest known one is start\nTry 'postbackd --help'.\n",
  ],
  [
    ["admin", "account", "constructor"],
    'postbackd: unknown command "constructor"; there are create, list, limit, disable, enable, export, erase\n' +
      "Try 'postbackd admin account --help'.\n",
  ],
  [
    ["admin", "account", "delete", "alice"],
    'postbackd: unknown command "delete"; the nearest known one is erase\n' +
      "Try 'postbackd admin account --help'.\n",
  ],
  [
    ["admin", "key", "delete", "k1"],
    "postbackd: unknown command \"delete\"; the nearest known one is revoke\nTry 'postbackd admin key --help'.\n",
  ],
  [
    ["serve"],
    "postbackd: unknown command \"serve\"; the nearest known one is start\nTry 'postbackd --help'.\n",
  ],
  [
    ["admin"],
    `postbackd: no command given; there are ${namesBelow(program.subCommands["admin"])}\n` +
      "Try 'postbackd admin --help'.\n",
  ],
  [
    ["--db", "x", "start"],
    'postbackd: unexpected flag "--db" before the command; flags stand behind the command, as in ' +
      "'postbackd start --db FILE'\nTry 'postbackd --help'.\n",
  ],
  [
    ["start", "--prot", "1"],
    'postbackd: unknown flag "--prot"; the nearest known one is --port\n' +
      "Try 'postbackd start --help'.\n",
  ],
  [
    ["config", "init", "a", "b"],
    "postbackd: unexpected argument \"b\"\nTry 'postbackd config init --help'.\n",
  ],
  [["explain-url"], "postbackd: URL is missing\nTry 'postbackd explain-url --help'.\n"],
  [
    ["admin", "account", "list", "alice"],
    "postbackd: unexpected argument \"alice\"\nTry 'postbackd admin account list --help'.\n",
  ],
];

for (const [words, stderr] of WRONG) {
  test(`exits with 2 and says what would be right: postbackd ${words.join(" ")}`, async (t) => {
    const finished = await runProgram(t, words);

    assert.deepEqual(finished, { code: 2, signal: null, stdout: "", stderr });
  });
}
