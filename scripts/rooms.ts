import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { ROOT } from "./manifest.ts";

/** The most that a room may hold. A change that raises a figure gives the reason in its commit. */
interface Room {
  readonly lines: number;
  readonly files: number;
}

/** By folder; a file belongs to the longest folder that holds it. */
const ROOMS: Readonly<Record<string, Room>> = {
  src: { lines: 1030, files: 11 },
  "src/admin": { lines: 976, files: 6 },
  "src/api": { lines: 2513, files: 16 },
  "src/cli": { lines: 4432, files: 34 },
  "src/client": { lines: 1405, files: 8 },
  "src/config": { lines: 1895, files: 9 },
  "src/daemon": { lines: 1367, files: 8 },
  "src/dashboard": { lines: 12223, files: 78 },
  "src/deliver": { lines: 4210, files: 20 },
  "src/dev": { lines: 2454, files: 19 },
  "src/domain": { lines: 8523, files: 50 },
  "src/embedded": { lines: 430, files: 4 },
  "src/http": { lines: 10115, files: 47 },
  "src/listen": { lines: 532, files: 3 },
  "src/ops": { lines: 4274, files: 17 },
  "src/parser": { lines: 242, files: 2 },
  "src/run": { lines: 4350, files: 25 },
  "src/store": { lines: 3111, files: 19 },
  "src/store/move": { lines: 1078, files: 5 },
  "src/store/postgres": { lines: 7774, files: 40 },
  "src/store/sql": { lines: 4427, files: 29 },
  "src/store/sqlite": { lines: 5804, files: 36 },
  "src/testing": { lines: 639, files: 5 },
  "src/worker": { lines: 1305, files: 10 },
  scripts: { lines: 16860, files: 110 },
  test: { lines: 84783, files: 442 },
};

const COMMAND = "a command, loaded when it runs";
const THREAD = "the entry of a thread";

/** Files of under 60 lines with one importer, each with the reason why it does not stand in its importer. */
const SMALL_FILES: Readonly<Record<string, string>> = {
  "src/cli/admin-audit.ts": COMMAND,
  "src/cli/health.ts": COMMAND,
  "src/cli/start.ts": COMMAND,
  "src/dashboard/operator/screens.tsx": "a script of its own, which operators alone load",
  "src/dashboard/shell/kept-answers.ts": "tested without a browser",
  "src/main.ts": "the entry of the program",
  "src/parser/parser-thread.ts": THREAD,
  "src/store/move/move.ts": "the entry of its room, loaded when the command runs",
  "src/store/sqlite/backup-thread.ts": THREAD,
  "src/store/sqlite/writer-thread.ts": THREAD,
  "src/worker/command-worker.ts": "the entry of its room, loaded when the command runs",
  "src/young-generation.ts": "runs before everything else is loaded",
};

const SMALL_FILE_LINES = 60;

const IMPORT = /(?:from|import)\s*\(?"(\.[^"]+)"/g;

const files = new Map(trackedFiles().map((file) => [file, readFileSync(join(ROOT, file), "utf8")]));
const problems = [...roomProblems(), ...smallFileProblems()];
process.stderr.write(problems.map((problem) => `${problem}\n`).join(""));
process.exitCode = problems.length === 0 ? 0 : 1;

function trackedFiles(): readonly string[] {
  const folders = Object.keys(ROOMS);
  const { stdout } = spawnSync("git", ["ls-files", ...folders], { cwd: ROOT, encoding: "utf8" });
  // Git still lists a file that was deleted and is not committed.
  return stdout.split("\n").filter((file) => file !== "" && existsSync(join(ROOT, file)));
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
    return `${name} has ${lines} lines in ${count} files, and scripts/rooms.ts allows ${most.lines} in ${most.files}: delete or merge first, or raise the figure and give the reason in the commit.`;
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
  const isSmall = ([file, text]: readonly [string, string]): boolean =>
    isSource(file) && linesOf(text) < SMALL_FILE_LINES && importers.get(file) === 1;
  const small = new Set([...files].filter(isSmall).map(([file]) => file));
  const allowed = Object.keys(SMALL_FILES);
  return [
    ...[...small.difference(new Set(allowed))].map(
      (file) =>
        `${file} has under ${SMALL_FILE_LINES} lines and one importer: merge it there, or give the reason in scripts/rooms.ts.`,
    ),
    ...allowed
      .filter((file) => !small.has(file))
      .map(
        (file) => `${file} is not a small file with one importer: delete it from scripts/rooms.ts.`,
      ),
  ];
}

function isSource(file: string): boolean {
  return file.startsWith("src/") && /\.tsx?$/.test(file);
}

function linesOf(text: string): number {
  return text.split("\n").length - 1;
}
