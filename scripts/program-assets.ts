/** A program in the executable, by the names of its files. */
export interface ProgramAssets {
  readonly source: string;
  /** The code that V8 made of it; empty where it was made for another platform. */
  readonly cache: string;
}

export const MAIN_PROGRAM: ProgramAssets = { source: "postbackd.cjs", cache: "postbackd.cache" };
/** The threads and the process that runs commands. */
export const HELPER_PROGRAM: ProgramAssets = { source: "helpers.cjs", cache: "helpers.cache" };
export const PROGRAMS: readonly ProgramAssets[] = [MAIN_PROGRAM, HELPER_PROGRAM];

export const LOADER_ASSET = "loader.cjs";
export const ADDON_ASSET = "better-sqlite3.node";

/** The argument with which the executable is the process that runs commands. */
export const COMMAND_HOST = "--command-host";

/** The start of a program. */
export interface ProgramStart {
  /** The text that every thread begins with. */
  readonly threadSource: string;
  /** True where nothing is to be run: only what is compiled counts. */
  readonly isRecorded: boolean;
}

/** A program: a bundle that asks nothing but modules of Node of its `require`. */
export type ProgramFunction = (require: NodeJS.Require, start: ProgramStart) => void;

/** The bundle's text as one expression, in characters of one byte each: V8 keeps those in half the memory. */
export function wrapProgram(bundle: string): string {
  const text = `(function (require, start, module = { exports: {} }, exports = module.exports) {${bundle}\n})`;
  return text.replaceAll(/[^\0-\x7f]/g, (unit) => {
    return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}
