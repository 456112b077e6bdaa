import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { pathToFileURL } from "node:url";

/**
 * Folders below test/ whose files start the daemon in their own process, and after each test let go of all that they
 * took.
 */
const GROUPED = ["http"].map((name) => join("test", name) + sep);

/** Files of them that do more: the one starts the program as well, the other compares waits with the machine's time. */
const ALONE = ["http/operator-system", "http/connections"].map(
  (name) => `${join("test", name)}.test.ts`,
);

// Several times as many as run at once, so that none is left alone at the end.
const GROUPS = 8;

/**
 * The files to run in the place of those: of files that may share a process, each group is one file that imports them.
 * To load the daemon and to run it for the first time takes a process a third of a second, as long as two or three
 * tests.
 */
export function groupTests(root: string, files: readonly string[]): readonly string[] {
  const grouped = files.filter((file) => isGrouped(file));
  const groups = writeGroups(root, grouped, (members) =>
    members.map((member) => `import ${urlText(join(root, member))};\n`).join(""),
  );
  return [...groups, ...files.filter((file) => !isGrouped(file))];
}

/** Files that have those tests served by a cluster (`test/helpers/on-cluster.ts`), several in one process. */
export function groupClusterTests(root: string, files: readonly string[]): readonly string[] {
  const runner = urlText(join(root, "test", "helpers", "on-cluster.ts"));
  return writeGroups(root, files, (members) => {
    const places = members.map((member) => relative("test", member).replaceAll(sep, "/"));
    return `import { testOnCluster } from ${runner};\nawait testOnCluster(${JSON.stringify(places)});\n`;
  });
}

/** Deals the files out, and writes a file for each group. */
function writeGroups(
  root: string,
  files: readonly string[],
  textOf: (members: readonly string[]) => string,
): readonly string[] {
  const folder = join(root, "dist", "tests");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  return Array.from({ length: Math.min(GROUPS, files.length) }, (_, group) => {
    const file = join(folder, `group-${group + 1}.test.mjs`);
    writeFileSync(file, textOf(files.filter((_file, index) => index % GROUPS === group)));
    return file;
  });
}

function isGrouped(file: string): boolean {
  return GROUPED.some((folder) => file.startsWith(folder)) && !ALONE.includes(file);
}

function urlText(file: string): string {
  return JSON.stringify(pathToFileURL(file).href);
}

// Folders, and files without their ending, below test/.
const PURE = [
  "config",
  "dashboard/json-source",
  "dashboard/overview-series",
  "dashboard/task-filter",
  "dashboard/task-page",
  "dashboard/timeline",
  "deliver/delivery-dispatcher",
  "deliver/failure-lines",
  "deliver/fair-queue",
  "deliver/fair-queue-nodes",
  "deliver/health-record",
  "deliver/look-up-turns",
  "deliver/prefetch",
  "deliver/prefetch-interleavings",
  "deliver/redeliverer",
  "deliver/store-fault",
  "domain",
  "helpers/fake-clock",
  "http/account-turns",
  "http/byte-budget",
  "http/connection-places",
  "http/place-shortage",
  "http/posted-task-schema",
  "http/rate-limiter",
  "http/task-shape",
  "http/usage-notes",
  "http/wait-places",
  "parser/parse-turns",
  "power-cut/disk-image",
  "run/cancel",
  "run/claim-credit",
  "run/command-output",
  "run/echo",
  "run/excerpt",
  "run/held-leases",
  "run/lease-interleavings",
  "run/lease-reaper",
  "run/nodes",
  "run/progress",
  "run/progress-board",
  "run/start",
  "run/traffic-keeper",
  "run/worker-desk",
  "soak/duplicates",
  "soak/ending-judge",
  "soak/lease-judge",
  "soak/lease-ledger",
  "soak/ledger",
  "store/loop",
].map((name) => join("test", name));

/**
 * Whether a file of tests shares the process of `test/pure.test.ts`: such tests start nothing and leave nothing in it,
 * and starting a process for each of their files took five times as long as they do.
 */
export function isPureTest(file: string): boolean {
  return PURE.some((pure) => file === `${pure}.test.ts` || file.startsWith(pure + sep));
}
