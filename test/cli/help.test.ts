import assert from "node:assert/strict";
import { test } from "node:test";

import { z } from "zod";

import { version } from "../../src/assets.ts";
import { flag, optionalWord, TEXT, textOf, toggle, word } from "../../src/cli/arguments.ts";
import { defineCommand } from "../../src/cli/command.ts";
import { helpText } from "../../src/cli/help.ts";
import { program } from "../../src/cli/program.ts";
import { startCommand } from "../../src/cli/start.ts";
import { PLAIN } from "../../src/cli/terminal.ts";
import { SETTING_LIST } from "../../src/config/config.ts";
import { allCommands, flagsOf } from "../helpers/commands.ts";
import { documentOf, runHere } from "./in-process.ts";

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

test("--version prints the version, and version those of the parts", async (t) => {
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
