import assert from "node:assert/strict";
import { test } from "node:test";

import {
  flagLines,
  names,
  number,
  optional,
  parseFlags,
  span,
  toggle,
  valuesOf,
  whole,
  wholes,
} from "../../scripts/kit/flags.ts";
import { command as mainThread } from "../../scripts/main-thread/command.ts";

const FLAGS = {
  rounds: whole("measurements", 7),
  seconds: optional(number("of each")),
  only: names("parts", ["a", "b"]),
  at: wholes("runs at once", 32),
  wait: span("seconds between", "20,60"),
  loud: toggle("says more"),
};

function read(...args: readonly string[]) {
  const given = parseFlags(FLAGS, args);
  assert(given !== null);
  return valuesOf(FLAGS, given);
}

test("a value that a flag cannot have is refused by the flag's name", () => {
  for (const wrong of ["0", "-1", "1.5", "many", ""]) {
    assert.throws(() => read(`--rounds=${wrong}`), /--rounds must be a whole number above 0/);
  }
  assert.throws(() => read("--seconds", "0"), /--seconds must be a number above 0/);
  assert.throws(() => read("--at", "4,x"), /--at must be a whole number above 0/);
  assert.throws(() => read("--only", "a,c"), /--only knows a, b, not c/);
  for (const wrong of ["5", "6,5", "1,2,3"]) {
    assert.throws(() => read("--wait", wrong), /--wait must be two numbers of seconds/);
  }
});

test("a flag that there is not is refused, and so is a word that belongs to none", () => {
  assert.throws(() => read("--round", "3"), /--round/);
  assert.throws(() => read("twice"), /twice/);
});

test("what is not given has its default, or null where there is none", () => {
  assert.deepEqual(read(), {
    ...{ rounds: 7, seconds: null, only: ["a", "b"], at: [32] },
    ...{ wait: { min: 20_000, max: 60_000 }, loud: false },
  });
  const given = ["--rounds", "2", "--seconds", "0.5", "--only", "b", "--at", "4,8", "--loud"];
  assert.deepEqual(read(...given, "--wait", "1,2"), {
    ...{ rounds: 2, seconds: 0.5, only: ["b"], at: [4, 8] },
    ...{ wait: { min: 1000, max: 2000 }, loud: true },
  });
});

test("help is asked for beside anything, and tells the defaults", () => {
  assert.equal(parseFlags(FLAGS, ["--rounds", "none", "--help"]), null);
  assert.match(flagLines(FLAGS), /^ {2}--rounds N +measurements \(7\)$/m);
  assert.match(flagLines(FLAGS), /^ {2}--loud +says more$/m);
});

test("a command that looks into a SQLite file by itself refuses --postgres with a sentence", async () => {
  const run = mainThread(["--postgres"], "npm run bench -- main-thread");

  await assert.rejects(run, /main-thread knows no --postgres: it looks into a SQLite file/);
});
