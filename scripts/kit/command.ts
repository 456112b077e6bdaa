import type { DaemonPlace } from "./daemon-file.ts";
import {
  flagLines,
  optional,
  parseFlags,
  text,
  valuesOf,
  type Flags,
  type Values,
} from "./flags.ts";
import { machineDescription } from "./machine.ts";
import { chooseProgram } from "./program.ts";
import { ScratchFolder } from "./scratch-folder.ts";
import { runScript } from "./script.ts";

/** The common parts of every command, beside its flags. */
export interface Bench {
  /** The program, and a folder that is gone when the command is over. */
  readonly place: DaemonPlace;
  /** A line of news, on stderr. */
  readonly note: (news: string) => void;
  /** Of the report, on stdout. */
  readonly print: (report: string) => void;
}

/** Something that is measured or proved of a daemon. */
export interface Command {
  /** Runs it; `usage` is how it is called. */
  readonly start: (args: readonly string[], usage: string) => Promise<void>;
}

/** The parts of a command. */
export interface CommandParts<Own extends Flags> {
  /** For its help. */
  readonly about: string;
  readonly flags: Own;
  /** The program unless it is named; without it the binary where it is newer than the sources, else these. */
  readonly program?: "binary";
  readonly run: (values: Values<Own>, bench: Bench) => Promise<void>;
}

/**
 * A command that chooses the program and makes a folder, and says beside its report of what program and machine it is. Fails
 * when `run` rejects.
 */
export function defineCommand<Own extends Flags>(parts: CommandParts<Own>): Command {
  const places = placeFlags(parts.program);
  const flags = { ...parts.flags, ...places };
  return {
    async start(args, usage) {
      const given = parseFlags(flags, args);
      if (given === null)
        process.stdout.write(`${usage} [options]\n\n${parts.about}\n\n${flagLines(flags)}\n`);
      else await run(parts, { values: valuesOf(parts.flags, given), ...valuesOf(places, given) });
    },
  };
}

async function run<Own extends Flags>(
  parts: CommandParts<Own>,
  given: { readonly values: Values<Own>; readonly program: string | null; folder: string | null },
): Promise<void> {
  using scratch = new ScratchFolder(given.folder ?? undefined);
  const program = chooseProgram(given.program ?? parts.program);
  const machine = machineDescription(scratch.path);
  const print = (report: string): void => void process.stdout.write(`${report}\n`);
  const note = (news: string): void => void process.stderr.write(`  ${news}\n`);
  process.stderr.write(`measuring ${program.name}\n`);
  try {
    await parts.run(given.values, { place: { program, folder: scratch.path }, note, print });
  } finally {
    print(`\n${program.name}. ${machine}`);
  }
}

function placeFlags(program: string | undefined) {
  const fallback = program ?? "the binary, if it is newer than the sources";
  return {
    program: optional(text("P", `source, binary, or an executable (${fallback})`)),
    folder: optional(
      text("DIR", "where databases lie while they run (the folder for temporary files)"),
    ),
  };
}

/** Commands by their names, each in a module of its own. */
export type Commands = Readonly<Record<string, () => Promise<{ readonly command: Command }>>>;

/** Runs the command that the command line names, or the first of them where it begins with none of their names. */
export async function runCommands(usage: string, commands: Commands): Promise<void> {
  const [, , first = "", ...rest] = process.argv;
  const all = Object.keys(commands);
  const [main = ""] = all;
  const name = all.includes(first) ? first : main;
  const others = name === main && all.length > 1 ? `[${all.slice(1).join(" | ")}]` : name;
  const called = all.length > 1 ? `${usage} ${others}` : usage;
  await runScript(async () => {
    const load = commands[name];
    if (load === undefined) throw new Error("there is no command");
    const { command } = await load();
    await command.start(name === first ? rest : process.argv.slice(2), called);
  });
}
