import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { ROOT } from "./manifest.ts";

/** The most that a room may hold. A change that raises a figure gives the reason in its commit. */
interface Room {
  readonly lines: number;
  readonly files: number;
}

/** By folder; a file belongs to the longest folder that holds it. */
const ROOMS: Readonly<Record<string, Room>> = {
  src: { lines: 1054, files: 10 },
  "src/admin": { lines: 954, files: 12 },
  "src/api": { lines: 2729, files: 32 },
  "src/cli": { lines: 4594, files: 39 },
  "src/client": { lines: 1480, files: 15 },
  "src/config": { lines: 1944, files: 17 },
  "src/daemon": { lines: 6037, files: 53 },
  "src/dashboard": { lines: 13869, files: 157 },
  "src/dev": { lines: 1864, files: 22 },
  "src/domain": { lines: 9021, files: 103 },
  "src/embedded": { lines: 454, files: 7 },
  "src/engine": { lines: 5003, files: 42 },
  "src/http": { lines: 11816, files: 113 },
  "src/listen": { lines: 551, files: 5 },
  "src/net": { lines: 2501, files: 21 },
  "src/parser": { lines: 256, files: 3 },
  "src/runners": { lines: 1995, files: 23 },
  "src/store": { lines: 3192, files: 49 },
  "src/store/move": { lines: 1197, files: 11 },
  "src/store/postgres": { lines: 11487, files: 98 },
  "src/store/sqlite": { lines: 9473, files: 86 },
  "src/testing": { lines: 656, files: 6 },
  "src/worker": { lines: 1451, files: 14 },
  scripts: { lines: 23177, files: 247 },
  test: { lines: 118935, files: 809 },
};

/** The most files of under 60 lines that one file alone imports: such a file belongs into its importer. */
const SMALL_FILES_MAX = 113;

const SMALL_FILE_LINES = 60;

const IMPORT = /(?:from|import)\s*\(?"(\.[^"]+)"/g;

const files = new Map(trackedFiles().map((file) => [file, readFileSync(join(ROOT, file), "utf8")]));
const problems = [...roomProblems(), ...smallFileProblems()];
process.stderr.write(problems.map((problem) => `${problem}\n`).join(""));
process.exitCode = problems.length === 0 ? 0 : 1;

function trackedFiles(): readonly string[] {
  const folders = Object.keys(ROOMS);
  const { stdout } = spawnSync("git", ["ls-files", ...folders], { cwd: ROOT, encoding: "utf8" });
  return stdout.split("\n").filter((file) => file !== "");
}

function roomProblems(): readonly string[] {
  const names = Object.keys(ROOMS).toSorted((one, other) => other.length - one.length);
  const used = new Map<string, { lines: number; files: number }>();
  for (const [file, text] of files) {
    const name = names.find((room) => file.startsWith(`${room}/`));
    if (name === undefined) continue;
    const { lines, files: count } = used.get(name) ?? { lines: 0, files: 0 };
    used.set(name, { lines: lines + linesOf(text), files: count + 1 });
  }
  return Object.entries(ROOMS).flatMap(([name, most]) => {
    const { lines, files: count } = used.get(name) ?? { lines: 0, files: 0 };
    if (lines <= most.lines && count <= most.files) return [];
    return `${name} has ${lines} lines in ${count} files, and scripts/rooms.ts allows ${most.lines} in ${most.files}: delete or merge first.`;
  });
}

function smallFileProblems(): readonly string[] {
  const importers = new Map<string, number>();
  for (const [file, text] of files) {
    if (!isSource(file)) continue;
    const imported = new Set(
      [...text.matchAll(IMPORT)].map(([, path = ""]) => join(file, "..", path)),
    );
    for (const path of imported) importers.set(path, (importers.get(path) ?? 0) + 1);
  }
  const small = [...files].filter(
    ([file, text]) =>
      isSource(file) && linesOf(text) < SMALL_FILE_LINES && importers.get(file) === 1,
  );
  if (small.length <= SMALL_FILES_MAX) return [];
  const names = small.map(([file]) => `  ${file}`).join("\n");
  return [
    `${small.length} files of under ${SMALL_FILE_LINES} lines have one importer, and scripts/rooms.ts allows ${SMALL_FILES_MAX}: merge a file into its importer.\n${names}`,
  ];
}

function isSource(file: string): boolean {
  return file.startsWith("src/") && /\.tsx?$/.test(file);
}

function linesOf(text: string): number {
  return text.split("\n").length - 1;
}
