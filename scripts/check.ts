import { spawnSync, type SpawnSyncReturns } from "node:child_process";
import { join } from "node:path";

import { findTestPostgres, HOW_TO_GET_POSTGRES } from "./kit/postgres-binaries.ts";
import { PostgresServer } from "./kit/postgres-server.ts";
import { ROOT, requirePinnedNode } from "./manifest.ts";
import { clusterFiles, filesOf, groupClusterTests, groupTests, type Level } from "./test-groups.ts";

/**
 * Runs a level, or the named steps in order, and ends with the first that fails; without arguments
 * `check`. The nightly level runs each step and lists those that failed.
 */

// By name, because without them the linter and the formatter would walk everything there is.
const FOLDERS = ["src", "test", "scripts", "examples"];

// A test that hangs is named after this time, and the rest still run.
const TEST_TIMEOUT_MS = 300_000;

// Many tests wait for a process, a connection or the disk: two files at a time left two processors idle for a fifth of
// the run, and the runner's own choice would be one.
const CONCURRENCY = "--test-concurrency=3";

// Node keeps its compiled sources here: without them a process spends most of its time compiling.
const COMPILE_CACHE = join(ROOT, "node_modules", ".cache", "compiled");

// The program that tests start as processes and threads, built once for all tests.
const TEST_PROGRAM = join(ROOT, "node_modules", ".cache", "program", "main.cjs");

const TIMEOUT = `--test-timeout=${TEST_TIMEOUT_MS}`;
const TEST_FLAGS = ["--test", "--test-reporter=spec", CONCURRENCY, TIMEOUT];

const OWN_PACKAGE = import.meta.resolve("../test/helpers/own-package.ts");

// Cases that need an optional program are skipped, also on a machine that has it.
const WITHOUT_OPTIONAL = { POSTBACKD_TEST_POSTGRES_BIN: "none", POSTBACKD_TEST_PEERS: "" };

/** The command of a step: a program of node_modules with arguments, or a script. */
type Command = readonly string[];

interface Step {
  readonly title: string;
  /** Run in order, up to the first that fails. */
  readonly commands: () => readonly Command[];
  /** Its output is always shown; of other steps only the output of a failure. */
  readonly isShown?: boolean;
  /** It runs with the URL of a PostgreSQL server, if one can be started; with `needed` it does not run without one. */
  readonly postgres?: "used" | "needed";
  /** Beside the environment of this process. */
  readonly env?: Readonly<Record<string, string>>;
}

const OXFMT = [program("oxfmt"), "--config", ".oxfmtrc.json"];
const OXLINT = [program("oxlint"), "--config", "scripts/oxlint.config.ts", "--deny-warnings"];

const STEPS: Readonly<Record<string, Step>> = {
  format: { title: "format (oxfmt)", commands: () => [[...OXFMT, "--check", ...FOLDERS]] },
  rewrite: { title: "rewrite to the format (oxfmt)", commands: () => [[...OXFMT, ...FOLDERS]] },
  lint: {
    title: "lint (oxlint with types, size of rooms, reference pages, prose)",
    commands: () => [
      [...OXLINT, "--report-unused-disable-directives", ...FOLDERS],
      ["--import", "tsx", "scripts/rooms.ts"],
      ["--import", "tsx", "scripts/reference.ts", "--check"],
      ["--import", "tsx", "scripts/prose.ts"],
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
  quick: testStep("tests of one room each", "quick"),
  test: testStep("tests without optional programs", "test"),
  full: testStep("tests with optional programs", "full", { postgres: "used" }),
  cluster: {
    title: "tests of the API on three daemons that share a database",
    commands: () => [
      ["--import", "tsx", "scripts/test-program.ts"],
      ["--import", OWN_PACKAGE, ...TEST_FLAGS, ...groupClusterTests(ROOT, clusterFiles(ROOT))],
    ],
    isShown: true,
    postgres: "needed",
  },
  conformance: testStep("tests of the store on the PostgreSQL of npm", "conformance", {
    postgres: "needed",
    env: { POSTBACKD_TEST_POSTGRES_BIN: "npm" },
  }),
  sentences: {
    title: "sentences.txt of each folder",
    commands: () => [
      [
        "--import",
        OWN_PACKAGE,
        "--test",
        "--test-update-snapshots",
        "test/**/{sentences,contract}.test.ts",
      ],
    ],
    isShown: true,
  },
  nightly: testStep("tests of the store on Debian's PostgreSQL", "nightly", {
    postgres: "needed",
  }),
  runners: longRun("scripts/soak.ts", "runners"),
  crashes: longRun("scripts/soak.ts", "crash", "--rounds", "50"),
  "cluster-faults": longRun("scripts/soak.ts", "cluster"),
  siege: longRun("scripts/bench.ts", "siege"),
  "power-cuts": longRun("scripts/power-cut.ts", "--images", "200"),
  mutants: longRun("scripts/mutate.ts"),
};

/** The steps of a level, by its name on the command line. */
const LEVELS: Readonly<Record<string, readonly string[]>> = {
  check: ["format", "lint", "types", "dashboard", "quick"],
  test: ["format", "lint", "types", "dashboard", "build", "test"],
  rest: ["full", "cluster", "conformance"],
  nightly: ["nightly", "runners", "crashes", "cluster-faults", "siege", "power-cuts", "mutants"],
};

requirePinnedNode();
const [first = "check", ...others] = process.argv.slice(2);
process.exitCode =
  others.length === 0 && LEVELS[first] !== undefined
    ? await runSteps(LEVELS[first], { isEach: first === "nightly" })
    : await runSteps([first, ...others], { isEach: false });

/** Ends with the first step that fails, or runs each step and lists the failed ones. */
async function runSteps(
  names: readonly string[],
  { isEach }: { readonly isEach: boolean },
): Promise<number> {
  const failed: string[] = [];
  for (const name of names) {
    const step = STEPS[name];
    if (step === undefined) {
      const known = [...Object.keys(LEVELS), ...Object.keys(STEPS)].join(", ");
      process.stderr.write(`There is no step '${name}': only ${known}.\n`);
      return 2;
    }
    if (await hasPassed(step)) continue;
    failed.push(name);
    if (!isEach) break;
  }
  if (isEach)
    process.stdout.write(`${names.length - failed.length} of ${names.length} steps passed\n`);
  if (failed.length > 0) process.stdout.write(`failed: ${failed.join(", ")}\n`);
  return failed.length === 0 ? 0 : 1;
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

function testStep(
  title: string,
  level: Level,
  { postgres, env = {} }: Pick<Step, "postgres" | "env"> = {},
): Step {
  const commands = () => [
    ["--import", "tsx", "scripts/test-program.ts"],
    ["--import", OWN_PACKAGE, ...TEST_FLAGS, ...groupTests(ROOT, filesOf(ROOT, level))],
  ];
  if (postgres !== undefined) return { title, commands, isShown: true, postgres, env };
  return { title, commands, isShown: true, env: WITHOUT_OPTIONAL };
}

/** A script that takes long and judges by its exit code. */
function longRun(...command: Command): Step {
  return {
    title: command.join(" "),
    commands: () => [["--import", "tsx", ...command]],
    isShown: true,
  };
}
