import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const cleanUps = new Set<() => void>();

/**
 * Has `clean` called when this process ends, however it ends short of SIGKILL. It must be synchronous. Returns a
 * function that calls it now instead.
 */
export function cleanAtExit(clean: () => void): () => void {
  process.off("exit", cleanAll).once("exit", cleanAll);
  cleanUps.add(clean);
  return () => {
    cleanUps.delete(clean);
    clean();
  };
}

/** Makes SIGINT and SIGTERM end this process through what {@link cleanAtExit} registered. */
export function exitOnSignals(): void {
  process.once("SIGINT", () => process.exit(130));
  process.once("SIGTERM", () => process.exit(143));
}

function cleanAll(): void {
  // The newest first: a folder is made before the processes that work in it.
  for (const clean of [...cleanUps].toReversed()) clean();
}

/** A new folder that is gone, with all that is in it, when it is disposed of or the process ends. */
export class ScratchFolder {
  readonly path: string;
  readonly #remove: () => void;

  /** `parent` is the system's folder for temporary files unless given. */
  constructor(parent = tmpdir()) {
    const path = mkdtempSync(join(parent, "postbackd-"));
    this.path = path;
    this.#remove = cleanAtExit(() => rmSync(path, { recursive: true, force: true }));
  }

  [Symbol.dispose](): void {
    this.#remove();
  }
}
