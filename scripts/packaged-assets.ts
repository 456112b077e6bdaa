import type { ThreadEntries, ThreadOptions } from "../src/assets.ts";
import { COMMAND_HOST, type ProgramStart } from "./program-assets.ts";

/** Replaces `src/assets.ts` in the executable. */

export * from "./bundled-assets.ts";
export { prepareNativeAddon } from "./packaged-addon.ts";

export const executable: string | null = process.execPath;

declare const start: ProgramStart;

// One text for all: it looks which of them it is in.
const { threadSource } = start;
export const threadEntries: ThreadEntries = {
  writer: threadSource,
  reader: threadSource,
  backup: threadSource,
  parser: threadSource,
};

// And the process that runs commands, too.
export const commandHost: readonly [string, ...string[]] = [process.execPath, COMMAND_HOST];

export const threadOptions: ThreadOptions = { eval: true };
