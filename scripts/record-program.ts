import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { Script } from "node:vm";

import type { ProgramFunction } from "./program-assets.ts";

/**
 * Compiles a wrapped program, with the modules that a daemon's start loads, and writes what V8 made of it into a file. To
 * be run with the flags of the executable, which V8 compares.
 */

const [programFile = "", cacheFile = ""] = process.argv.slice(2);
const script = new Script(readFileSync(programFile, "latin1"), { filename: programFile });
// `wrapProgram` made it.
const program = script.runInThisContext() as ProgramFunction;
program(createRequire(process.execPath), { threadSource: "", isRecorded: true });
writeFileSync(cacheFile, script.createCachedData());
