import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { cleanAtExit } from "./exit-cleanup.ts";

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
