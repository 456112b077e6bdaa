import { createRequire } from "node:module";
import { getAsset, getRawAsset } from "node:sea";
import { constants, Script } from "node:vm";
import { isMainThread } from "node:worker_threads";

import {
  COMMAND_HOST,
  HELPER_PROGRAM,
  LOADER_ASSET,
  MAIN_PROGRAM,
  type ProgramFunction,
} from "./program-assets.ts";

/**
 * The first lines of the executable, and of each of its threads: they run a program, which lies in the executable as
 * text. V8 has compiled most of it when the executable was made, and takes that where its version and flags are the same.
 */

const isHelper = !isMainThread || process.argv[2] === COMMAND_HOST;
const program = isHelper ? HELPER_PROGRAM : MAIN_PROGRAM;
const source = Buffer.from(getRawAsset(program.source)).toString("latin1");
const cache = Buffer.from(getRawAsset(program.cache));
const script = new Script(source, {
  filename: program.source,
  ...(cache.length === 0 ? {} : { cachedData: cache }),
  importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
});
// The build has wrapped the program in this function.
const run = script.runInThisContext() as ProgramFunction;
run(createRequire(process.execPath), {
  threadSource: getAsset(LOADER_ASSET, "utf8"),
  isRecorded: false,
});
