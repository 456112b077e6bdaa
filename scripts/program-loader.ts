import { createRequire } from "node:module";
import { getAsset, getRawAsset } from "node:sea";
import { constants, Script } from "node:vm";

import {
  CACHE_ASSET,
  LOADER_ASSET,
  PROGRAM_ASSET,
  type ProgramFunction,
} from "./program-assets.ts";

/**
 * The first lines of the executable, and of each of its threads: they run the program, which lies in the executable as
 * text. V8 has compiled most of it when the executable was made, and takes that where its version and flags are the same.
 */

const source = Buffer.from(getRawAsset(PROGRAM_ASSET)).toString("latin1");
const cache = Buffer.from(getRawAsset(CACHE_ASSET));
const script = new Script(source, {
  filename: PROGRAM_ASSET,
  ...(cache.length === 0 ? {} : { cachedData: cache }),
  importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
});
// The build has wrapped the program in this function.
const program = script.runInThisContext() as ProgramFunction;
program(createRequire(process.execPath), {
  threadSource: getAsset(LOADER_ASSET, "utf8"),
  isRecorded: false,
});
