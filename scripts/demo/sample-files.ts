import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { join, relative } from "node:path";

/** The facts that the demo's tasks find out about a file. */
export interface FileFacts {
  /** Relative to the root of the project. */
  readonly file: string;
  readonly sha256: string;
  readonly lines: number;
  readonly bytes: number;
}

const FOLDERS = ["src", "test", "scripts", "docs"];

/** `count` files of the project below `root`, spread evenly over all there are. */
export function sampleFiles(root: string, count: number): readonly string[] {
  const files = FOLDERS.flatMap((folder) => filesBelow(join(root, folder)))
    .map((file) => relative(root, file))
    .toSorted();
  if (files.length < count) throw new Error(`the project has only ${files.length} files`);
  const step = files.length / count;
  return files.filter((_, index) => Math.floor(index / step) !== Math.floor((index - 1) / step));
}

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

/** The facts of a file, found out in this process and in another way than the tasks do. */
export function fileFacts(root: string, file: string): FileFacts {
  const content = readFileSync(join(root, file));
  return {
    file,
    sha256: createHash("sha256").update(content).digest("hex"),
    lines: content.toString("latin1").split("\n").length - 1,
    bytes: content.length,
  };
}
