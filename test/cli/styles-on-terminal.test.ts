import assert from "node:assert/strict";
import { test } from "node:test";

import { runProgram } from "../helpers/program.ts";
import { reasonToSkipTerminal, startOnTerminal } from "../helpers/terminal.ts";

const skip = reasonToSkipTerminal();

const ESCAPE = "\u001b[";
const HELP = ["admin", "--help"];

interface Case {
  readonly says: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly hasStyles: boolean;
}

// https://no-color.org: any value but an empty one, whatever it says.
const CASES: readonly Case[] = [
  { says: "headings are bold on a terminal", hasStyles: true },
  { says: "an empty NO_COLOR changes nothing", env: { NO_COLOR: "" }, hasStyles: true },
  { says: "NO_COLOR=1 takes them away", env: { NO_COLOR: "1" }, hasStyles: false },
  { says: "NO_COLOR=0 does, too", env: { NO_COLOR: "0" }, hasStyles: false },
  {
    says: "so does --no-color, wherever it stands",
    args: ["--no-color", ...HELP],
    hasStyles: false,
  },
  { says: "a terminal that can show none is sent none", env: { TERM: "dumb" }, hasStyles: false },
];

for (const { says, args = HELP, env, hasStyles } of CASES) {
  test(`styles: ${says}`, { skip }, async (t) => {
    const program = startOnTerminal(t, args, env);

    assert.equal(await program.exit, 0, program.shown);

    assert.match(program.shown, /Usage/i);
    assert.equal(program.shown.includes(ESCAPE), hasStyles, JSON.stringify(program.shown));
  });
}

test("styles: a pipe gets none", async (t) => {
  const { stdout } = await runProgram(t, HELP);

  assert.match(stdout, /Usage/i);
  assert.ok(!stdout.includes(ESCAPE));
});
