import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { pathToFileURL } from "node:url";

/**
 * Which test files a level runs, and how: files that may share a process are imported by a generated file. Loading the
 * daemon and running it the first time takes a process a third of a second, as long as two or three tests.
 */

export type Level = "quick" | "test" | "full" | "conformance" | "nightly";

// Folders, and files without their ending, below test/. They need an optional program, or take minutes.
const FULL = [
  "cluster",
  "dashboard",
  "dist/main-thread-cost",
  "dist/runtimes",
  "dist/test-runners",
  "docs/operating",
  "package",
  "peers",
  "receivers",
  "runtimes",
  // The rules of `store/sqlite-1` and `-2` again, with the threads of a daemon.
  "store/sqlite-thread",
  "systemd",
];

const CONFORMANCE = "store/postgres";

// Tests of one room in one process. The others start the program or a daemon, or wait in real time.
const QUICK = ["parser", "scripts", "store"];

// A file of another level has cases that need PostgreSQL, a terminal or another optional program: without it they are
// skipped, so the file also belongs to the full level.
const HAS_OPTIONAL_CASES =
  /helpers\/(postgres(-\w+)?|cluster|daemon-cluster|fake-time|terminal)\.ts"/;

const CLUSTER_TEST = /\bclusterTest\(/;

/** The test files of a level, relative to the root. */
export function filesOf(root: string, level: Level): readonly string[] {
  return testFiles(root).filter((file) => levelsOf(root, file).includes(level));
}

/** The test files with tests that also run on a cluster. */
export function clusterFiles(root: string): readonly string[] {
  return testFiles(root).filter((file) =>
    CLUSTER_TEST.test(readFileSync(join(root, file), "utf8")),
  );
}

function levelsOf(root: string, file: string): readonly Level[] {
  if (isBelow(file, [CONFORMANCE])) return ["conformance", "nightly"];
  const text = readFileSync(join(root, file), "utf8");
  const isPure = isPureTest(file);
  if (isBelow(file, FULL) && !isPure) return ["full"];
  return [
    "test",
    ...(isPure || isBelow(file, QUICK) ? (["quick"] as const) : []),
    ...(HAS_OPTIONAL_CASES.test(text) ? (["full"] as const) : []),
  ];
}

function testFiles(root: string): readonly string[] {
  return ["test", "examples"].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".test.ts"))
      .toSorted()
      .map((file) => join(folder, file)),
  );
}

/** Files that start the daemon in their own process, and release all that they took after each test. */
const GROUPED = ["http"];

/** Of these, one starts the program as well, and one compares waits with the machine's time. */
const ALONE = ["http/operator-system", "http/connections"];

// Several times the number of concurrent files, so that no file runs alone at the end.
const GROUPS = 8;

/** The files to run instead: pure files become one file, and grouped files a few. */
export function groupTests(root: string, files: readonly string[]): readonly string[] {
  const folder = newFolder(root);
  const pure = files.filter((file) => isPureTest(file));
  const grouped = files.filter((file) => isBelow(file, GROUPED) && !isBelow(file, ALONE));
  const imports = (members: readonly string[]): string =>
    members.map((member) => `import ${urlText(join(root, member))};\n`).join("");
  return [
    ...writeGroups(join(folder, "pure"), pure, { groups: 1, textOf: imports }),
    ...writeGroups(join(folder, "group"), grouped, { groups: GROUPS, textOf: imports }),
    ...files.filter((file) => !pure.includes(file) && !grouped.includes(file)),
  ];
}

/** Files that run the tests of others on a cluster (`test/helpers/on-cluster.ts`), several in one process. */
export function groupClusterTests(root: string, files: readonly string[]): readonly string[] {
  const runner = urlText(join(root, "test", "helpers", "on-cluster.ts"));
  const textOf = (members: readonly string[]): string => {
    const places = members.map((member) => relative("test", member).replaceAll(sep, "/"));
    return `import { testOnCluster } from ${runner};\nawait testOnCluster(${JSON.stringify(places)});\n`;
  };
  return writeGroups(join(newFolder(root), "cluster"), files, { groups: GROUPS, textOf });
}

function newFolder(root: string): string {
  const folder = join(root, "dist", "tests");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  return folder;
}

/** Deals the files out, and writes a file for each group. */
function writeGroups(
  start: string,
  files: readonly string[],
  {
    groups,
    textOf,
  }: { readonly groups: number; readonly textOf: (members: readonly string[]) => string },
): readonly string[] {
  return Array.from({ length: Math.min(groups, files.length) }, (_, group) => {
    const file = `${start}-${group + 1}.test.mjs`;
    writeFileSync(file, textOf(files.filter((_file, index) => index % groups === group)));
    return file;
  });
}

/** True if a file is one of the places below test/, or is in one of them. */
function isBelow(file: string, places: readonly string[]): boolean {
  return places.some((place) => {
    const path = join("test", place);
    return file === `${path}.test.ts` || file.startsWith(path + sep);
  });
}

function urlText(file: string): string {
  return JSON.stringify(pathToFileURL(file).href);
}

// Folders, and files without their ending, below test/.
const PURE = [
  "config",
  "dashboard/charts",
  "dashboard/task",
  "dashboard/task-page",
  "deliver/delivery-dispatcher",
  "deliver/failures",
  "deliver/fair-queue",
  "deliver/fair-queue-nodes",
  "deliver/prefetch",
  "deliver/redeliverer",
  "domain",
  "http/byte-budget",
  "http/connection-places",
  "http/posted-task-schema",
  "http/rate-limiter",
  "http/task-shape",
  "http/usage-notes",
  "ops/conditions",
  "ops/nodes",
  "ops/service",
  "parser/parse-turns",
  "run/cancel",
  "run/engine",
  "run/lease-interleavings",
  "run/leases",
  "run/nodes",
  "run/progress-board",
  "run/worker-desk",
  "soak/ending-judge",
  "soak/judges",
  "soak/ledger",
  "store/loop",
];

/**
 * Whether a test file shares one process with others of its kind: its tests start nothing and leave nothing behind. One
 * process for each pure file took five times as long as the tests.
 */
function isPureTest(file: string): boolean {
  return isBelow(file, PURE);
}
