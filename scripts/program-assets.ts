/** The files in the executable, by name. */
export const PROGRAM_ASSET = "postbackd.cjs";
/** The code that V8 made of the program; empty where it was made for another platform. */
export const CACHE_ASSET = "postbackd.cache";
export const LOADER_ASSET = "loader.cjs";
export const ADDON_ASSET = "better-sqlite3.node";

/** The start of the program. */
export interface ProgramStart {
  /** The text that every thread begins with. */
  readonly threadSource: string;
  /** True where nothing is to be run: only what is compiled counts. */
  readonly isRecorded: boolean;
}

/** The program: a bundle that asks nothing but modules of Node of its `require`. */
export type ProgramFunction = (require: NodeJS.Require, start: ProgramStart) => void;

/** The bundle's text as one expression, in characters of one byte each: V8 keeps those in half the memory. */
export function wrapProgram(bundle: string): string {
  const text = `(function (require, start, module = { exports: {} }, exports = module.exports) {${bundle}\n})`;
  return text.replaceAll(/[^\0-\x7f]/g, (unit) => {
    return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}
