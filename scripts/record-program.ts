import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { setFlagsFromString } from "node:v8";
import { Script } from "node:vm";

import type { ProgramFunction } from "./program-assets.ts";

/**
 * Compiles a wrapped program, with the modules that a daemon's start loads, and writes what V8 made of it into a file. To
 * be run with the flags of the executable, which V8 compares.
 */

// A function that waits for its baseline code is marked in what is written, and whether one waits is a matter of time: 4 of 140
// files differed by two bytes. V8 compares this flag, so it is as the executable has it when the file is made.
setFlagsFromString("--no-sparkplug");

const [programFile = "", cacheFile = ""] = process.argv.slice(2);
const script = new Script(readFileSync(programFile, "latin1"), { filename: programFile });
// `wrapProgram` made it.
const program = script.runInThisContext() as ProgramFunction;
program(createRequire(process.execPath), { threadSource: "", isRecorded: true });
setFlagsFromString("--sparkplug");
writeFileSync(cacheFile, script.createCachedData());
