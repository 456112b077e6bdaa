import type { Argument, ArgumentTable } from "./arguments.ts";
import { subCommandsOf, type Command } from "./command.ts";
import { wrapped, type Layout } from "./terminal.ts";

/** The help text of the command with this full name, such as `postbackd admin key`. */
export async function helpText(name: string, command: Command, layout: Layout): Promise<string> {
  const below = await subCommandsOf(command);
  const { args = {}, version } = command;
  const { flags, words } = split(args);
  const title = version === undefined ? name : `${name} ${version}`;
  const list = (heading: string, rows: readonly Row[]): readonly string[] =>
    rows.length === 0 ? [] : [layout.heading(heading), "", ...rowLines(rows, layout.width)];
  const parts = [
    wrapped(`${command.description} (${title})`, layout.width),
    [`${layout.heading("USAGE")} ${name} ${below.length > 0 ? "COMMAND" : usageWords(args)}`],
    list(
      "COMMANDS",
      below.map(([each, { description }]) => [each, description]),
    ),
    list("ARGUMENTS", words.map(toRow)),
    list("OPTIONS", flags.map(toRow)),
    below.length === 0 ? [] : [`'${name} COMMAND --help' explains a command.`],
    ...paragraphs(command).map((text) => wrapped(text, layout.width)),
    [layout.heading("EXAMPLE"), "", `  ${command.example}`],
  ];
  const shown = parts.filter((lines) => lines.length > 0);
  return `${shown.map((lines) => lines.join("\n").trimEnd()).join("\n\n")}\n`;
}

/** How an argument is written on a command line: `--db PATH`, `LOGIN`. */
export function writtenArgument(name: string, { kind, hint }: Argument<unknown>): string {
  if (kind === "switch") return `--${name}`;
  if (kind === "flag") return `--${name} ${hint}`;
  return kind === "rest" ? `${name.toUpperCase()}...` : name.toUpperCase();
}

/** An argument's description, with its default. */
export function describedArgument({ description, standard }: Argument<unknown>): string {
  return standard === null ? description : `${description} [default: ${standard}]`;
}

/** The words behind a command's name: `[OPTIONS] LOGIN [FILE]`. */
export function usageWords(args: ArgumentTable): string {
  const { flags, words } = split(args);
  const places = words.map(([name, argument]) => {
    const written = writtenArgument(name, argument);
    return argument.isRequired ? written : `[${written}]`;
  });
  return [...(flags.length > 0 ? ["[OPTIONS]"] : []), ...places].join(" ");
}

/** A command's notes by paragraph. */
export function paragraphs({ notes = "" }: Command): readonly string[] {
  // Single line ends are those of the source.
  return notes === "" ? [] : notes.split("\n\n").map((text) => text.replaceAll("\n", " "));
}

type Entry = readonly [name: string, argument: Argument<unknown>];
type Row = readonly [name: string, description: string];

function split(args: ArgumentTable): { readonly flags: Entry[]; readonly words: Entry[] } {
  const all = Object.entries(args);
  const isFlag = ([, { kind }]: Entry): boolean => kind === "flag" || kind === "switch";
  return { flags: all.filter(isFlag), words: all.filter((entry) => !isFlag(entry)) };
}

function toRow([name, argument]: Entry): Row {
  return [writtenArgument(name, argument), describedArgument(argument)];
}

// A longer name has a line of its own: one of them should not push all descriptions to the right.
const NAME_WIDTH_MAX = 26;

function rowLines(rows: readonly Row[], width: number): readonly string[] {
  const names = rows.map(([name]) => name.length).filter((length) => length <= NAME_WIDTH_MAX);
  const column = Math.max(0, ...names) + 4;
  return rows.flatMap(([name, description]) => {
    const lines = wrapped(description, width - column).map((line) => " ".repeat(column) + line);
    const [first = "", ...others] = lines;
    if (name.length > NAME_WIDTH_MAX) return [`  ${name}`, ...lines];
    return [`  ${name}`.padEnd(column) + first.slice(column), ...others];
  });
}
