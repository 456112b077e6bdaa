import { closeSync, fdatasyncSync, openSync, statfsSync, writeSync } from "node:fs";
import { availableParallelism, cpus, loadavg, release, totalmem, type } from "node:os";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";

import { z } from "zod";

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

/** The message of an error, with the messages of its causes. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof z.ZodError) return z.prettifyError(error).split("\n").slice(0, 4).join("\n");
  const cause = error.cause === undefined ? "" : `\n  because: ${reasonOf(error.cause)}`;
  return `${error.message}${cause}`;
}

/** The common parts of every command, next to its flags. */
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
    // The outputs of both tables of flags.
    const { program: wanted, folder, postgres, ...values } = given as Values<typeof common>;
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
      await parts.run(values as unknown as Values<Own>, { place, note, print });
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

/** Flags of a script by name: what each reads, with its placeholder (empty for a toggle) and its meaning as metadata. */
export type Flags = Readonly<Record<string, z.ZodType>>;

export type Values<Own extends Flags> = { readonly [Name in keyof Own]: z.output<Own[Name]> };

function flag<Value>(
  type: z.ZodType<Value>,
  [value, meaning]: readonly [value: string, meaning: string],
  fallback?: Value,
): z.ZodType<Value> {
  if (fallback === undefined) return type.meta({ value, meaning });
  const read = type.optional().transform((given) => given ?? fallback);
  return read.meta({ value, meaning: `${meaning} (${String(fallback)})` });
}

/** A number above 0. */
export const number = (meaning: string, fallback?: number) =>
  flag(z.coerce.number().positive(), ["N", meaning], fallback);

/** A whole number above 0. */
export const whole = (meaning: string, fallback?: number) => flag(WHOLE, ["N", meaning], fallback);

/** Whole numbers above 0, separated by commas. */
export const wholes = (meaning: string, fallback: readonly number[]) =>
  flag<readonly number[]>(LIST.pipe(z.array(WHOLE)), ["N,…", meaning], fallback);

/** Any text, of which `value` is the kind. */
export const text = (value: string, meaning: string, fallback?: string) =>
  flag(z.string(), [value, meaning], fallback);

/** Some of the given names, separated by commas; all unless given. */
export const names = <Name extends string>(what: string, all: readonly Name[]) =>
  flag<readonly Name[]>(LIST.pipe(z.array(z.literal([...all]))), ["a,b,…", what], all);

/** True if it is given. */
export const toggle = (meaning: string) => flag(z.boolean().default(false), ["", meaning]);

/** Null unless it is given. */
export const optional = <Value>(one: z.ZodType<Value>): z.ZodType<Value | null> =>
  one
    .nullable()
    .default(null)
    .meta({ ...one.meta() });

const WHOLE = z.coerce.number<string>().int().positive();
const LIST = z.string().transform((given) => given.split(","));

/** Reads a command line. Throws at unknown arguments and invalid values; returns null for `--help`. */
export function parseFlags<Own extends Flags>(
  flags: Own,
  args: readonly string[],
): Values<Own> | null {
  const options = Object.entries({ ...flags, help: toggle("") }).map(([name, each]) => {
    return [name, { type: each.meta()?.["value"] === "" ? "boolean" : "string" }] as const;
  });
  const given = parseArgs({ args: [...args], options: Object.fromEntries(options) }).values;
  // An object has the names and outputs of its shape.
  return given["help"] === true ? null : (z.object(flags).parse(given) as Values<Own>);
}

/** The lines of a help text about flags. */
export function flagLines(flags: Flags): string {
  const lines = Object.entries(flags).map(([name, each]) => {
    const { value, meaning } = each.meta() ?? {};
    return `  ${`--${name} ${String(value)}`.padEnd(18)} ${String(meaning)}`;
  });
  return lines.join("\n");
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
