import { dirname } from "node:path";

import { newDatabases, startBenchServer } from "./bench-server.ts";
import type { DaemonPlace } from "./daemon-file.ts";
import {
  flagLines,
  optional,
  parseFlags,
  text,
  toggle,
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

/** Something that is measured or proved of a daemon: it is run with its arguments, and with how it is called. */
export type Command = (args: readonly string[], usage: string) => Promise<void>;

/**
 * A command that chooses the program and makes a folder, and says beside its report of what program and machine it is.
 * Fails when `run` rejects. `about` is for its help; `program` runs unless another is named: without it the binary
 * where it is newer than the sources, else these.
 */
export function defineCommand<Own extends Flags>(parts: {
  readonly about: string;
  readonly flags: Own;
  readonly program?: "binary";
  /** True where it can also be run with the database on a server; others look into the daemon's file by themselves. */
  readonly knowsServers?: true;
  readonly run: (values: Values<Own>, bench: Bench) => Promise<void>;
}): Command {
  const fallback = parts.program ?? "the binary, if it is newer than the sources";
  const places = {
    program: optional(text("P", `source, binary, or an executable (${fallback})`)),
    folder: optional(
      text("DIR", "where databases lie while they run (the folder for temporary files)"),
    ),
  };
  const engine = {
    postgres: toggle("the database is on a PostgreSQL server of its own, not a file"),
  };
  const knowsServers = parts.knowsServers ?? false;
  const flags = { ...parts.flags, ...places, ...(knowsServers && engine) };
  return async (args, usage) => {
    if (args.includes("--postgres") && !knowsServers)
      throw new Error(`${usage} knows no --postgres: it looks into a SQLite file by itself`);
    const given = parseFlags(flags, args);
    if (given === null) {
      process.stdout.write(`${usage} [options]\n\n${parts.about}\n\n${flagLines(flags)}\n`);
      return;
    }
    const { program: wanted, folder } = valuesOf(places, given);
    const values = valuesOf(parts.flags, given);
    using scratch = new ScratchFolder(folder ?? undefined);
    const program = chooseProgram(wanted ?? parts.program);
    const machine = machineDescription(scratch.path);
    const print = (report: string): void => void process.stdout.write(`${report}\n`);
    const note = (news: string): void => void process.stderr.write(`  ${news}\n`);
    process.stderr.write(`measuring ${program.name}\n`);
    await using server = valuesOf(engine, given).postgres
      ? await startBenchServer(dirname(scratch.path))
      : null;
    const place = { program, folder: scratch.path, ...(server && newDatabases(server)) };
    try {
      await parts.run(values, { place, note, print });
    } finally {
      const where = server === null ? "" : ` on PostgreSQL ${server.major}`;
      print(`\n${program.name}${where}. ${machine}`);
    }
  };
}

/** Commands by their names, each in a module of its own. */
export type Commands = Readonly<Record<string, () => Promise<{ readonly command: Command }>>>;

/**
 * Runs the command that the command line names, be it as a flag, or the first of them where it begins with none of their
 * names.
 */
export async function runCommands(usage: string, commands: Commands): Promise<void> {
  const [main = "", ...others] = Object.keys(commands);
  const [first = "", ...rest] = process.argv.slice(2);
  const named = first.replace(/^--/, "");
  const name = Object.hasOwn(commands, named) ? named : main;
  const shown = name === main && others.length > 0 ? `[${others.join(" | ")}]` : name;
  await runScript(async () => {
    const load = commands[name];
    if (load === undefined) throw new Error("there is no command");
    const { command } = await load();
    const args = name === named ? rest : process.argv.slice(2);
    await command(args, others.length > 0 ? `${usage} ${shown}` : usage);
  });
}
