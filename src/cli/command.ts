import { stripVTControlCharacters } from "node:util";

import { renderUsage } from "citty";
import type { ArgsDef } from "citty";

import type { Arguments } from "./arguments.ts";

/** A command of the program, or a group of them. */
export interface Command {
  /** The whole name, program first: citty would show the last two words only. */
  readonly name: string;
  /** Of the program alone. */
  readonly version?: string;
  readonly description: string;
  /** A command line that works. */
  readonly example: string;
  /** What else must be known to use it. */
  readonly notes?: string;
  readonly args?: ArgsDef;
  /** By name. A function loads the command when it is asked for. */
  readonly subCommands?: Readonly<Record<string, Command | (() => Promise<Command>)>>;
  /** Runs with the arguments of `args`. A command that answers a question with no returns its exit code. */
  readonly run?: (given: Arguments) => Promise<number | void> | number | void;
}

/** The command of this name; undefined where there is none. */
export async function subCommandOf(
  { subCommands = {} }: Command,
  name: string,
): Promise<Command | undefined> {
  const found = Object.hasOwn(subCommands, name) ? subCommands[name] : undefined;
  return typeof found === "function" ? found() : found;
}

/** What stands below a command, by name. */
export async function subCommandsOf({
  subCommands = {},
}: Command): Promise<readonly (readonly [name: string, command: Command])[]> {
  return Promise.all(
    Object.entries(subCommands).map(
      async ([name, found]) => [name, typeof found === "function" ? await found() : found] as const,
    ),
  );
}

/** A command's help text. Without colours: citty puts them into pipes and files too. */
export async function helpText(command: Command): Promise<string> {
  const below = (await subCommandsOf(command)).map(([name, meta]) => [name, { meta }] as const);
  const { args = {}, notes, example } = command;
  const subCommands = below.length === 0 ? {} : { subCommands: Object.fromEntries(below) };
  const usage = await renderUsage({ meta: command, args, ...subCommands });
  const text = stripVTControlCharacters(usage).replaceAll(/ +$/gm, "").trim();
  const parts = [text, ...(notes === undefined ? [] : [notes]), `EXAMPLE\n\n  ${example}`];
  return `${parts.join("\n\n")}\n`;
}
