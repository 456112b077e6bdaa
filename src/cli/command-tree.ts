import type { Argument } from "./arguments.ts";
import { subCommandsOf, type Command } from "./command.ts";

/** A command with everything below it. */
export interface CommandNode {
  /** The words after the program's name; none for the program itself. */
  readonly words: readonly string[];
  readonly description: string;
  readonly flags: readonly ValueNode[];
  readonly positionals: readonly ValueNode[];
  readonly commands: readonly CommandNode[];
}

/** A flag, or a word that is expected. */
export interface ValueNode {
  /** Without dashes. */
  readonly name: string;
  readonly description: string;
  /** The only valid values; none when any text will do. */
  readonly choices: readonly string[];
  readonly isPath: boolean;
  readonly takesValue: boolean;
}

/** Loads every command and its definition. */
export async function readCommandTree(
  command: Command,
  words: readonly string[] = [],
): Promise<CommandNode> {
  const values = Object.entries(command.args ?? {}).map(([name, argument]) =>
    toValue(name, argument),
  );
  return {
    words,
    description: command.description,
    flags: values.filter((value) => !value.isPositional),
    positionals: values.filter((value) => value.isPositional),
    commands: await Promise.all(
      (await subCommandsOf(command)).map(async ([name, sub]) =>
        readCommandTree(sub, [...words, name]),
      ),
    ),
  };
}

/** The command and everything below it, itself first. */
export function allCommands(node: CommandNode): readonly CommandNode[] {
  return [node, ...node.commands.flatMap(allCommands)];
}

function toValue(
  name: string,
  { kind, description, hint }: Argument<unknown>,
): ValueNode & { readonly isPositional: boolean } {
  return {
    name,
    description,
    // The hint of a value that is one of a few words lists them.
    choices: hint.includes("|") ? hint.split("|") : [],
    isPath: hint === "PATH",
    takesValue: kind !== "switch",
    isPositional: kind === "word" || kind === "rest",
  };
}
