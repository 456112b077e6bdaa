import { spawnSync, type SpawnSyncReturns } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join, sep } from "node:path";

import { findTestPostgres, HOW_TO_GET_POSTGRES } from "./kit/postgres-binaries.ts";
import { PostgresServer } from "./kit/postgres-server.ts";
import { ROOT, requirePinnedNode } from "./manifest.ts";
import { groupClusterTests, groupTests, isPureTest } from "./test-groups.ts";

/**
 * Runs the named steps in order, without arguments those of `npm run check`, and ends with the first
 * that fails. What a test step prints comes last and is the runner's own.
 */

// By name, because without them the linter and the formatter would walk everything there is.
const FOLDERS = ["src", "test", "scripts", "examples"];

// A test that hangs is named after this time, and the rest still run.
const TEST_TIMEOUT_MS = 300_000;

// Many tests wait for a process, a connection or the disk: two files at a time left two processors idle for a fifth of
// the run, and the runner's own choice would be one.
const CONCURRENCY = "--test-concurrency=3";

// Node keeps its compiled sources here: a process that compiles them anew spends most of its time on that.
const COMPILE_CACHE = join(ROOT, "node_modules", ".cache", "compiled");

// What tests start as processes and as threads, made once for all of them.
const TEST_PROGRAM = join(ROOT, "node_modules", ".cache", "program", "main.cjs");

const TIMEOUT = `--test-timeout=${TEST_TIMEOUT_MS}`;
const TEST_FLAGS = ["--test", "--test-reporter=spec", CONCURRENCY, TIMEOUT];

const OWN_PACKAGE = import.meta.resolve("../test/helpers/own-package.ts");

/** The command of a step: a program of node_modules with arguments, or a script. */
type Command = readonly string[];

interface Step {
  readonly title: string;
  /** Run in order, up to the first that fails. */
  readonly commands: () => readonly Command[];
  /** Its output is what one came for; of the others only that of a failure is shown. */
  readonly isShown?: boolean;
  /** It runs with the URL of a PostgreSQL server, where there is one to start; `needed`: else it does not run. */
  readonly postgres?: "used" | "needed";
  /** Beside the environment of this process. */
  readonly env?: Readonly<Record<string, string>>;
}

const CHECK = ["format", "lint", "types", "dashboard", "quick"];

// Tests of one ring in one process. The others start the program, a daemon, a browser or a peer for each test, or wait
// in real time: those of http alone take 152 s of processor time.
const QUICK = new Set(["helpers", "net", "parser", "runners", "scripts", "store"]);

// The one says of a store with a writer thread what `sqlite-inline` says of one without, and starts a thread for each of
// 287 tests; the others say it of a server.
const NOT_QUICK = ["sqlite-thread.test.ts", "postgres"].map((name) => join("test", "store", name));

const CLUSTER_TEST = /\bclusterTest\(/;

const OXFMT = [program("oxfmt"), "--config", ".oxfmtrc.json"];
const OXLINT = [program("oxlint"), "--config", "scripts/oxlint.config.ts", "--deny-warnings"];

const STEPS: Readonly<Record<string, Step>> = {
  format: { title: "format (oxfmt)", commands: () => [[...OXFMT, "--check", ...FOLDERS]] },
  rewrite: { title: "rewrite to the format (oxfmt)", commands: () => [[...OXFMT, ...FOLDERS]] },
  lint: {
    title: "lint (oxlint with types, size of rooms)",
    commands: () => [
      [...OXLINT, "--report-unused-disable-directives", ...FOLDERS],
      ["--import", "tsx", "scripts/rooms.ts"],
    ],
  },
  types: {
    title: "types (tsc)",
    // The browser's code knows other globals.
    commands: () =>
      [".", join("src", "dashboard")].map((project) => {
        return [program("tsc"), "--noEmit", "--project", project];
      }),
  },
  dashboard: {
    title: "dashboard (esbuild)",
    commands: () => [["--import", "tsx", "scripts/dashboard-bundle.ts"]],
  },
  build: {
    title: "build (esbuild, tsc, pkg)",
    commands: () => [["--import", "tsx", "scripts/build.ts"]],
  },
  quick: testStep("quick tests of the sources", isQuickTest),
  tests: testStep("tests of the sources", (file) => !isDistTest(file)),
  dist: testStep("tests of the executable", isDistTest),
  cluster: {
    title: "tests of the API on three daemons that share a database",
    commands: () => [
      ["--import", "tsx", "scripts/test-program.ts"],
      ["--import", OWN_PACKAGE, ...TEST_FLAGS, ...groupClusterTests(ROOT, clusterTests())],
    ],
    isShown: true,
    postgres: "needed",
  },
  everything: testStep("tests of the sources and of the executable", () => true),
  sentences: {
    title: "sentences.txt of each folder",
    commands: () => [
      ["--import", OWN_PACKAGE, "--test", "--test-update-snapshots", "test/**/sentences.test.ts"],
    ],
    isShown: true,
  },
  postgres: {
    ...testStep("tests of the store on the PostgreSQL of npm", isPostgresTest),
    env: { POSTBACKD_TEST_POSTGRES_BIN: "npm" },
  },
};

// The tests are held to a second PostgreSQL, years newer than Debian's, where both must be there.
const HAS_BOTH = process.env["POSTBACKD_TEST_PEERS"] === "required";

requirePinnedNode();
const asked = process.argv.length > 2 ? process.argv.slice(2) : CHECK;
process.exitCode = await runSteps(
  HAS_BOTH && asked.includes("everything") ? [...asked, "postgres"] : asked,
);

async function runSteps(names: readonly string[]): Promise<number> {
  for (const name of names) {
    const step = STEPS[name];
    if (step === undefined) {
      process.stderr.write(`There is no step '${name}': only ${Object.keys(STEPS).join(", ")}.\n`);
      return 2;
    }
    if (!(await hasPassed(step))) return 1;
  }
  return 0;
}

async function hasPassed(step: Step): Promise<boolean> {
  const { title, commands, isShown = false, postgres: use, env: own = {} } = step;
  // It decides which server is started here, too.
  Object.assign(process.env, own);
  process.stdout.write(isShown ? `▸ ${title}\n` : `▸ ${title} … `);
  if (use === "needed" && findTestPostgres() === null) {
    process.stdout.write(`not run: ${HOW_TO_GET_POSTGRES}\n`);
    return process.env["POSTBACKD_TEST_PEERS"] !== "required";
  }
  const start = performance.now();
  await using postgres = use === undefined ? null : await startPostgres();
  const env = postgres === null ? {} : { POSTBACKD_TEST_POSTGRES: postgres.url };
  const failed = commands().reduce<SpawnSyncReturns<string> | null>(
    (before, command) => before ?? failureOf(command, { isShown, env }),
    null,
  );
  if (isShown) return failed === null;

  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  process.stdout.write(`${failed === null ? "" : "failed, "}${seconds} s\n`);
  if (failed === null) return true;
  process.stdout.write(`${failed.stdout}${failed.stderr}${failed.error?.message ?? ""}\n`);
  return false;
}

/** The server that the tests share, each in a schema of its own: to start one takes as long as many of them. */
async function startPostgres(): Promise<PostgresServer | null> {
  const binaries = findTestPostgres();
  return binaries === null ? null : await PostgresServer.start({ binaries });
}

/** How a command ended that did not end well. */
function failureOf(
  command: Command,
  { isShown, env }: { readonly isShown: boolean; readonly env: Readonly<Record<string, string>> },
): SpawnSyncReturns<string> | null {
  const end = spawnSync(process.execPath, command, {
    cwd: ROOT,
    encoding: "utf8",
    env: {
      ...process.env,
      NODE_COMPILE_CACHE: COMPILE_CACHE,
      POSTBACKD_TEST_PROGRAM: TEST_PROGRAM,
      ...env,
    },
    stdio: isShown ? "inherit" : "pipe",
    maxBuffer: 64 * 1024 * 1024,
  });
  return end.status === 0 ? null : end;
}

/** The JavaScript file behind a program of node_modules, which Node can run without a shell. */
function program(name: string): string {
  return join(ROOT, "node_modules", ".bin", name);
}

function testStep(title: string, isWanted: (file: string) => boolean): Step {
  const wanted = (): readonly string[] =>
    ["test", "examples"]
      .flatMap((folder) => filesBelow(folder))
      .filter((file) => file.endsWith(".test.ts") && !isPureTest(file) && isWanted(file));
  const commands = () => [
    ["--import", "tsx", "scripts/test-program.ts"],
    ["--import", OWN_PACKAGE, ...TEST_FLAGS, ...groupTests(ROOT, wanted())],
  ];
  return { title, commands, isShown: true, postgres: "used" };
}

function filesBelow(folder: string): readonly string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .toSorted()
    .map((file) => join(folder, file));
}

function isQuickTest(file: string): boolean {
  const [root = "", folder = "", ...below] = file.split(sep);
  const isQuick = below.length === 0 || QUICK.has(folder);
  return root === "test" && isQuick && !NOT_QUICK.some((name) => file.startsWith(name));
}

function isPostgresTest(file: string): boolean {
  return file.startsWith(join("test", "store", "postgres", sep));
}

/** The files that have a cluster test. */
function clusterTests(): readonly string[] {
  return filesBelow(join("test", "http"))
    .filter((file) => file.endsWith(".test.ts"))
    .filter((file) => CLUSTER_TEST.test(readFileSync(join(ROOT, file), "utf8")));
}

function isDistTest(file: string): boolean {
  // A service is an executable, and packages are made of one.
  return ["dist", "systemd", "package"].some((folder) =>
    file.startsWith(join("test", folder, sep)),
  );
}
