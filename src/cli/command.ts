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
