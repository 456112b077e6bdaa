import { spawnSync } from "node:child_process";
import type { SpawnSyncReturns } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { dirname, join, sep } from "node:path";

import { requirePinnedNode } from "./manifest.ts";

/**
 * Runs the named steps in order, without arguments those of `npm run check`, and ends with the first
 * that fails. What a test step prints comes last and is the runner's own.
 */

const ROOT = dirname(import.meta.dirname);

// By name, because without them the linter and the formatter would walk everything there is.
const FOLDERS = ["src", "test", "scripts", "examples"].filter((name) =>
  existsSync(join(ROOT, name)),
);

// A test that hangs is named after this time, and the rest still run.
const TEST_TIMEOUT_MS = 120_000;

/** What a step runs: a program of node_modules with arguments, or a script. */
type Command = readonly string[];

interface Step {
  readonly title: string;
  readonly command: () => Command;
  /** Its output is what one came for; of the others only that of a failure is shown. */
  readonly isShown: boolean;
}

const CHECK = ["format", "lint", "types", "tests"];

const STEPS: Readonly<Record<string, Step>> = {
  format: {
    title: "format (oxfmt)",
    command: () => [program("oxfmt"), "--config", ".oxfmtrc.json", "--check", ...FOLDERS],
    isShown: false,
  },
  rewrite: {
    title: "rewrite to the format (oxfmt)",
    command: () => [program("oxfmt"), "--config", ".oxfmtrc.json", ...FOLDERS],
    isShown: false,
  },
  lint: {
    title: "lint (oxlint, with types)",
    command: () => [
      ...[program("oxlint"), "--config", "scripts/oxlint.config.ts"],
      ...["--deny-warnings", "--report-unused-disable-directives", ...FOLDERS],
    ],
    isShown: false,
  },
  types: {
    title: "types (tsc)",
    command: () => [program("tsc"), "--noEmit", "--project", "."],
    isShown: false,
  },
  build: {
    title: "build (esbuild, tsc, pkg)",
    command: () => ["--import", "tsx", "scripts/build.ts"],
    isShown: false,
  },
  tests: {
    title: "tests of the sources",
    command: () => testCommand((file) => !isDistTest(file)),
    isShown: true,
  },
  dist: { title: "tests of the executable", command: () => testCommand(isDistTest), isShown: true },
  everything: {
    title: "tests of the sources and of the executable",
    command: () => testCommand(() => true),
    isShown: true,
  },
};

requirePinnedNode(ROOT);
process.exitCode = runSteps(process.argv.length > 2 ? process.argv.slice(2) : CHECK);

function runSteps(names: readonly string[]): number {
  for (const name of names) {
    const step = STEPS[name];
    if (step === undefined) {
      process.stderr.write(`There is no step '${name}': only ${Object.keys(STEPS).join(", ")}.\n`);
      return 2;
    }
    if (!hasPassed(step)) return 1;
  }
  return 0;
}

function hasPassed({ title, command, isShown }: Step): boolean {
  process.stdout.write(isShown ? `▸ ${title}\n` : `▸ ${title} … `);
  const start = performance.now();
  const { status, error, stdout, stderr } = run(command(), isShown);
  if (isShown) return status === 0;

  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  process.stdout.write(`${status === 0 ? "" : "failed, "}${seconds} s\n`);
  if (status !== 0) process.stdout.write(`${stdout}${stderr}${error?.message ?? ""}\n`);
  return status === 0;
}

function run(command: Command, isShown: boolean): SpawnSyncReturns<string> {
  return spawnSync(process.execPath, command, {
    cwd: ROOT,
    encoding: "utf8",
    stdio: isShown ? "inherit" : "pipe",
    maxBuffer: 64 * 1024 * 1024,
  });
}

/** The JavaScript file behind a program of node_modules, which Node can run without a shell. */
function program(name: string): string {
  return join(ROOT, "node_modules", ".bin", name);
}

function testCommand(isWanted: (file: string) => boolean): Command {
  const files = ["test", "examples"]
    .flatMap((folder) => filesBelow(folder))
    .filter((file) => file.endsWith(".test.ts") && isWanted(file));
  const timeout = `--test-timeout=${TEST_TIMEOUT_MS}`;
  return ["--import", "tsx", "--test", "--test-reporter=spec", timeout, ...files];
}

function filesBelow(folder: string): readonly string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .toSorted()
    .map((file) => join(folder, file));
}

function isDistTest(file: string): boolean {
  return file.startsWith(join("test", "dist", sep));
}
