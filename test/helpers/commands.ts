import { subCommandsOf, type Command } from "../../src/cli/command.ts";

/** A command with the words after the program's name; none for the program itself. */
interface NamedCommand {
  readonly words: readonly string[];
  readonly command: Command;
  readonly isGroup: boolean;
}

/** A command and all commands below it, itself first. */
export async function allCommands(
  command: Command,
  words: readonly string[] = [],
): Promise<readonly NamedCommand[]> {
  const below = await subCommandsOf(command);
  const parts = await Promise.all(below.map(([name, sub]) => allCommands(sub, [...words, name])));
  return [{ words, command, isGroup: below.length > 0 }, ...parts.flat()];
}

/** The flags of a command, without dashes. */
export function flagsOf({ args }: Command): readonly string[] {
  return Object.entries(args).flatMap(([name, { type }]) => (type === "positional" ? [] : [name]));
}
