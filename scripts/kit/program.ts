import { readdirSync, statSync } from "node:fs";
import { join, relative, resolve } from "node:path";

import { ROOT } from "../manifest.ts";

const EXECUTABLE = join(ROOT, "dist", "postbackd");

/** A way to run postbackd. */
export interface Program {
  /** For people: which one this is. */
  readonly name: string;
  /** Program and first arguments. Absolute paths: it is started in other folders. */
  readonly command: readonly [string, ...string[]];
}

/** postbackd from its sources, by the Node that runs this. */
export function sourceProgram(): Program {
  const main = join(ROOT, "src", "main.ts");
  return {
    name: `src/main.ts, Node ${process.versions.node}`,
    command: [process.execPath, main],
  };
}

/**
 * The program that a script's `--program` asks for: `source`, `binary`, or the path of an executable.
 * Without it, the built binary where there is one that is newer than every source, else the sources.
 */
export function chooseProgram(wanted: string | undefined): Program {
  if (wanted === "source") return sourceProgram();
  if (wanted === undefined && !isBuilt()) return sourceProgram();
  const file = wanted === undefined || wanted === "binary" ? EXECUTABLE : resolve(wanted);
  return { name: `the executable ${relative(ROOT, file)}`, command: [file] };
}

function isBuilt(): boolean {
  const builtAt = modifiedAt(EXECUTABLE);
  const sources = readdirSync(join(ROOT, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  const others = ["schema.sql", "schema-postgres.sql", "package-lock.json"].map((name) =>
    join(ROOT, name),
  );
  return [...sources, ...others].every((file) => modifiedAt(file) < builtAt);
}

/** 0 for a file that is not there. */
function modifiedAt(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}
