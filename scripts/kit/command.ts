import { closeSync, fdatasyncSync, openSync, statfsSync, writeSync } from "node:fs";
import { availableParallelism, cpus, loadavg, release, totalmem, type } from "node:os";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";

import { prettifyError, ZodError } from "zod";

import { requirePinnedNode } from "../manifest.ts";
import { chooseProgram, type DaemonPlace } from "./daemon.ts";
import { median } from "./measure.ts";
import { newDatabases, startBenchServer } from "./postgres-server.ts";
import { exitOnSignals, ScratchFolder } from "./scratch.ts";

/**
 * Runs a script on the pinned Node: exit code 0 if `main` settles, 1 with the reason on stderr if it rejects. SIGINT and
 * SIGTERM end it, and the processes that it started.
 */
export async function runScript(main: () => Promise<void>): Promise<void> {
  requirePinnedNode();
  exitOnSignals();
  try {
    await main();
  } catch (error) {
    process.stderr.write(`${reasonOf(error)}\n`);
    process.exitCode = 1;
  }
}

/** The message of an error, with those of its causes. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof ZodError) return prettifyError(error).split("\n").slice(0, 4).join("\n");
  const cause = error.cause === undefined ? "" : `\n  because: ${reasonOf(error.cause)}`;
  return `${error.message}${cause}`;
}

/** What every command has next to its flags. */
export interface Bench {
  /** The program, and a folder that is removed at the end of the command. */
  readonly place: DaemonPlace;
  /** Writes a line of progress to stderr. */
  readonly note: (news: string) => void;
  /** Writes a part of the report to stdout. */
  readonly print: (report: string) => void;
}

/** Runs with its arguments; `usage` is how it was called. */
export type Command = (args: readonly string[], usage: string) => Promise<void>;

/** A command that measures or proves something of a daemon. It fails if `run` rejects. */
export function defineCommand<Own extends Flags>(parts: {
  readonly about: string;
  readonly flags: Own;
  /** The executable, not the sources, unless `--program` is given. */
  readonly program?: "binary";
  /** True if the database may be on PostgreSQL; other commands read the daemon's file themselves. */
  readonly knowsServers?: true;
  readonly run: (values: Values<Own>, bench: Bench) => Promise<void>;
}): Command {
  const fallback = parts.program ?? "the binary, if it is newer than the sources";
  const common = {
    program: optional(text("P", `source, binary, or an executable (${fallback})`)),
    folder: optional(
      text("DIR", "holds databases while they run (the folder for temporary files)"),
    ),
    postgres: toggle("the database is on a PostgreSQL server of its own, not a file"),
  };
  const flags: Flags = { ...parts.flags, ...common };
  return async (args, usage) => {
    const given = parseFlags(flags, args);
    if (given === null) {
      process.stdout.write(`${usage} [options]\n\n${parts.about}\n\n${flagLines(flags)}\n`);
      return;
    }
    const values = valuesOf(parts.flags, given);
    const { program: wanted, folder, postgres } = valuesOf(common, given);
    if (postgres && parts.knowsServers !== true)
      throw new Error(`${usage} has no --postgres: it reads a SQLite file`);
    using scratch = new ScratchFolder(folder ?? undefined);
    const program = chooseProgram(wanted ?? parts.program);
    const machine = machineDescription(scratch.path);
    const print = (report: string): void => void process.stdout.write(`${report}\n`);
    const note = (news: string): void => void process.stderr.write(`  ${news}\n`);
    process.stderr.write(`measuring ${program.name}\n`);
    await using server = postgres ? await startBenchServer(dirname(scratch.path)) : null;
    const place = { program, folder: scratch.path, ...(server && newDatabases(server)) };
    try {
      await parts.run(values, { place, note, print });
    } finally {
      const where = server === null ? "" : ` on PostgreSQL ${server.major}`;
      print(`\n${program.name}${where}. ${machine}`);
    }
  };
}

/** Runs the command that the first argument names, or the first command if it names none. */
export async function runCommands(
  usage: string,
  commands: Readonly<Record<string, () => Promise<Command>>>,
): Promise<void> {
  const all = Object.keys(commands);
  const [main = ""] = all;
  const [first = "", ...rest] = process.argv.slice(2);
  const isNamed = Object.hasOwn(commands, first);
  const name = isNamed ? first : main;
  const shown = isNamed ? `${usage} ${name}` : `${usage} [${all.join(" | ")}]`;
  await runScript(async () => {
    const command = await commands[name]?.();
    await command?.(isNamed ? rest : process.argv.slice(2), shown);
  });
}

/** A flag of a script. */
export interface Flag<Value> {
  /** The placeholder of its value in the help; empty for a flag without value. */
  readonly value: string;
  /** Its meaning, with its default. */
  readonly meaning: string;
  /** `text` is undefined if the flag is absent. Throws at an invalid value, and names the flag. */
  readonly read: (text: string | undefined, name: string) => Value;
}

/** Flags by name. */
export type Flags = Readonly<Record<string, Flag<unknown>>>;

export type Values<Own extends Flags> = {
  readonly [Name in keyof Own]: ReturnType<Own[Name]["read"]>;
};

/** A number above 0. */
export function number(meaning: string, fallback?: number): Flag<number> {
  return flag(["N", meaning, fallback], (given, name) => {
    if (Number(given) > 0) return Number(given);
    throw new Error(`--${name} must be a number above 0`);
  });
}

/** A whole number above 0. */
export function whole(meaning: string, fallback?: number): Flag<number> {
  return flag(["N", meaning, fallback], wholeNumber);
}

/** Whole numbers above 0, separated by commas. */
export function wholes(meaning: string, fallback?: number): Flag<readonly number[]> {
  return flag(["N,…", meaning, fallback], (given, name) =>
    given.split(",").map((part) => wholeNumber(part, name)),
  );
}

/** Any text, of which `value` is the kind. */
export function text(value: string, meaning: string, fallback?: string): Flag<string> {
  return flag([value, meaning, fallback], (given) => given);
}

/** Some of these names, separated by commas; all of them unless given. */
export function names<Name extends string>(
  what: string,
  all: readonly Name[],
): Flag<readonly Name[]> {
  const known = (each: string, name: string): Name => {
    const found = all.find((one) => one === each);
    if (found !== undefined) return found;
    throw new Error(`--${name} knows ${all.join(", ")}, not ${each}`);
  };
  return {
    value: "a,b,…",
    meaning: `${what}: ${all.join(", ")} (all)`,
    read: (given, name) => given?.split(",").map((each) => known(each, name)) ?? all,
  };
}

/** True if it is given. */
export function toggle(meaning: string): Flag<boolean> {
  return { value: "", meaning, read: (given) => given !== undefined };
}

/** Null unless it is given. */
export function optional<Value>(one: Flag<Value>): Flag<Value | null> {
  return { ...one, read: (given, name) => (given === undefined ? null : one.read(given, name)) };
}

function flag<Value>(
  [value, meaning, fallback]: readonly [string, string, string | number | undefined],
  read: (text: string, name: string) => Value,
): Flag<Value> {
  return {
    value,
    meaning: fallback === undefined ? meaning : `${meaning} (${fallback})`,
    read: (given = fallback?.toString(), name) => {
      if (given === undefined) throw new Error(`--${name} is needed`);
      return read(given, name);
    },
  };
}

function wholeNumber(given: string, name: string): number {
  const value = Number(given);
  if (Number.isInteger(value) && value > 0) return value;
  throw new Error(`--${name} must be a whole number above 0`);
}

type Given = Readonly<Record<string, string | boolean | undefined>>;

/** Reads a command line. Throws at unknown arguments; returns null for `--help`. */
function parseFlags(flags: Flags, args: readonly string[]): Given | null {
  const options = Object.fromEntries(
    Object.entries({ ...flags, help: toggle("") }).map(([name, { value }]) => {
      return [name, { type: value === "" ? ("boolean" as const) : ("string" as const) }];
    }),
  );
  const given: Given = parseArgs({ args: [...args], options }).values;
  return given["help"] === true ? null : given;
}

function valuesOf<Own extends Flags>(flags: Own, given: Given): Values<Own> {
  const read = Object.entries(flags).map(([name, each]) => [
    name,
    each.read(given[name]?.toString(), name),
  ]);
  // By name what each flag reads, as the type says.
  return Object.fromEntries(read) as Values<Own>;
}

function flagLines(flags: Flags): string {
  return Object.entries(flags)
    .map(([name, { value, meaning }]) => `  ${`--${name} ${value}`.padEnd(18)} ${meaning}`)
    .join("\n");
}

const SYNCS = 100;
const PAGE = Buffer.alloc(4096, 1);
const TMPFS = 0x01021994;

/**
 * The machine, its other work, and the time of an fdatasync: what a table of measurements needs. To be called before the
 * measurements, or their own load counts.
 */
function machineDescription(folder: string): string {
  const [cpu] = cpus();
  const [busy] = loadavg();
  const memory = (totalmem() / 1024 ** 3).toFixed(0);
  const disk =
    statfsSync(folder).type === TMPFS
      ? "The databases are in memory (tmpfs), where fsync costs nothing: give --folder on a disk."
      : `SQLite runs with synchronous = FULL; fdatasync of 4 KiB takes ${syncMicrosP50(folder)} µs (p50 of ${SYNCS}).`;
  return (
    `${cpu?.model ?? "unknown CPU"}, ${availableParallelism()} cores for everything, ${memory} GB, ` +
    `load average ${busy?.toFixed(1)} before; ${type()} ${release()}; Node ${process.versions.node}. ${disk}`
  );
}

function syncMicrosP50(folder: string): string {
  const file = openSync(join(folder, "fdatasync"), "w");
  try {
    const micros = Array.from({ length: SYNCS }, () => {
      writeSync(file, PAGE);
      const startedAt = performance.now();
      fdatasyncSync(file);
      return (performance.now() - startedAt) * 1000;
    });
    return median(micros).toFixed(0);
  } finally {
    closeSync(file);
  }
}
