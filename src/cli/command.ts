import { stripVTControlCharacters } from "node:util";

import { renderUsage, type ArgsDef } from "citty";

import type { ArgumentTable, Given } from "./arguments.ts";

/** A command of the program, or a group of them. */
export interface Command<Args extends ArgumentTable = ArgumentTable> {
  /** For the program alone. */
  readonly version?: string;
  readonly description: string;
  /** A command line that works. */
  readonly example: string;
  /** Other things that a user must know. */
  readonly notes?: string;
  readonly args?: Args;
  /** By name. A function loads the command when it is needed. */
  readonly subCommands?: Readonly<Record<string, Command | (() => Promise<Command>)>>;
  /** Runs with the values for `args`. A command that answers a question with no returns its exit code. */
  // A method, not a property: commands stand beside others that are given something else.
  run?(given: Given<Args>): Promise<number | void> | number | void;
}

/** Checks a command's types: its run gets what its arguments read. */
export function defineCommand<const Args extends ArgumentTable>(command: Command<Args>): Command {
  return command;
}

/** The command of this name; undefined when there is none. */
export async function subCommandOf(
  { subCommands = {} }: Command,
  name: string,
): Promise<Command | undefined> {
  const found = Object.hasOwn(subCommands, name) ? subCommands[name] : undefined;
  return typeof found === "function" ? found() : found;
}

/** The commands below a command, by name. */
export async function subCommandsOf({
  subCommands = {},
}: Command): Promise<readonly (readonly [name: string, command: Command])[]> {
  return Promise.all(
    Object.entries(subCommands).map(
      async ([name, found]) => [name, typeof found === "function" ? await found() : found] as const,
    ),
  );
}

/**
 * The help text of the command with this full name: citty would show only its last two words, and put colours into
 * pipes and files too.
 */
export async function helpText(name: string, command: Command): Promise<string> {
  const below = (await subCommandsOf(command)).map(([name, meta]) => [name, { meta }] as const);
  const { args = {}, notes, example } = command;
  const subCommands = below.length === 0 ? {} : { subCommands: Object.fromEntries(below) };
  const usage = await renderUsage({
    meta: { ...command, name },
    args: toArgsDef(args),
    ...subCommands,
  });
  const text = stripVTControlCharacters(usage).replaceAll(/ +$/gm, "").trim();
  const parts = [text, ...(notes === undefined ? [] : [notes]), `EXAMPLE\n\n  ${example}`];
  return `${parts.join("\n\n")}\n`;
}

/** The arguments in citty's form, from which it writes the help. */
function toArgsDef(args: ArgumentTable): ArgsDef {
  const definitions: ArgsDef = {};
  for (const [name, { kind, description, hint, isRequired, standard }] of Object.entries(args)) {
    const shown = { description, ...(hint === "" ? {} : { valueHint: hint }) };
    if (kind === "switch") definitions[name] = { type: "boolean", ...shown };
    else if (kind === "flag") {
      definitions[name] = { type: "string", ...shown, ...(standard && { default: standard }) };
    } else definitions[name] = { type: "positional", required: isRequired, ...shown };
  }
  return definitions;
}
