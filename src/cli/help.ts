import { buildFacts, version } from "../assets.ts";
import { SERVICE_CONFIG_FILE } from "../config/setting.ts";
import type { Argument, ArgumentTable } from "./arguments.ts";
import { type Command, defineCommand, subCommandsOf } from "./command.ts";
import { JSON_ARG, answer, tableLines } from "./print.ts";
import { type Layout, wrapped } from "./terminal.ts";

/** The help text of the command with this full name, such as `postbackd admin key`. */
export async function helpText(name: string, command: Command, layout: Layout): Promise<string> {
  const below = await subCommandsOf(command);
  const { args, meta } = command;
  const { flags, words } = split(args);
  const title = meta.version === undefined ? name : `${name} ${meta.version}`;
  const list = (heading: string, rows: readonly Row[]): readonly string[] =>
    rows.length === 0 ? [] : [layout.heading(heading), "", ...rowLines(rows, layout.width)];
  const parts = [
    wrapped(`${meta.description} (${title})`, layout.width),
    [`${layout.heading("USAGE")} ${name} ${below.length > 0 ? "COMMAND" : usageWords(args)}`],
    list(
      "COMMANDS",
      below.map(([each, sub]) => [each, sub.meta.description]),
    ),
    list("ARGUMENTS", words.map(toRow)),
    list("OPTIONS", flags.map(toRow)),
    below.length === 0 ? [] : [`'${name} COMMAND --help' explains a command.`],
    ...paragraphs(command).map((text) => wrapped(text, layout.width)),
    [layout.heading("EXAMPLE"), "", `  ${meta.example}`],
  ];
  const shown = parts.filter((lines) => lines.length > 0);
  return `${shown.map((lines) => lines.join("\n").trimEnd()).join("\n\n")}\n`;
}

/** An argument as it is written on a command line and its description: `--db PATH`, `LOGIN`. */
export function toRow([name, { type, valueHint, isRest, description, standard }]: Entry): Row {
  const place = isRest === true ? `${name.toUpperCase()}...` : name.toUpperCase();
  const written = type === "positional" ? place : `--${name} ${valueHint}`.trimEnd();
  return [written, standard === undefined ? description : `${description} [default: ${standard}]`];
}

/** The words behind a command's name: `[OPTIONS] LOGIN [FILE]`. */
export function usageWords(args: ArgumentTable): string {
  const { flags, words } = split(args);
  const places = words.map((entry) => {
    const [written] = toRow(entry);
    return entry[1].isRequired === true ? written : `[${written}]`;
  });
  return [...(flags.length > 0 ? ["[OPTIONS]"] : []), ...places].join(" ");
}

export function paragraphs({ meta: { notes = "" } }: Command): readonly string[] {
  // Single line ends only keep the lines of the source short.
  return notes === "" ? [] : notes.split("\n\n").map((text) => text.replaceAll("\n", " "));
}

type Entry = readonly [name: string, argument: Argument<unknown>];
type Row = readonly [name: string, description: string];

function split(args: ArgumentTable): { readonly flags: Entry[]; readonly words: Entry[] } {
  const all = Object.entries(args);
  const isFlag = ([, { type }]: Entry): boolean => type !== "positional";
  return { flags: all.filter(isFlag), words: all.filter((entry) => !isFlag(entry)) };
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

/** `postbackd man`: the manual page of `program` in the macros of man(7), every command with what its help says. */
export function manCommandFor(program: Command): Command {
  return defineCommand({
    description: "Print the manual page",
    example: "postbackd man | man -l -",
    async run() {
      const lines = [
        `.TH POSTBACKD 1 "" "postbackd ${version}" "User Commands"`,
        ...[".SH NAME", `postbackd \\- ${escaped(program.meta.description)}`],
        ...[".SH SYNOPSIS", ".B postbackd", ".I COMMAND", "[\\fIOPTIONS\\fR]", ".SH COMMANDS"],
        ...(await commandLines("postbackd", program)),
        ...[".SH EXIT STATUS", ...EXITS.flatMap(([code, meaning]) => entry("B", code, meaning))],
        ...[".SH FILES", ...FILES.flatMap(([path, meaning]) => entry("I", path, meaning))],
      ];
      process.stdout.write(`${lines.join("\n")}\n`);
    },
  });
}

const EXITS = [
  ["0", "Done."],
  ["1", "Failed; the message says why."],
  ["2", "The command line is wrong."],
  ["78", "The configuration is wrong."],
] as const;

const SERVICE = `The configuration of this machine's service, for all commands but start and dev, if neither a \
configuration nor a database is named, and the folder has neither postbackd.toml nor postbackd.db.`;
const FILES = [
  ["./postbackd.toml", "The configuration, unless --config names another file."],
  [SERVICE_CONFIG_FILE, SERVICE],
  ["./postbackd.db", "The database, unless --db or the configuration names another."],
] as const;

async function commandLines(name: string, command: Command): Promise<readonly string[]> {
  const below = await subCommandsOf(command);
  const parts = await Promise.all(below.map(([word, sub]) => commandLines(`${name} ${word}`, sub)));
  if (below.length > 0) return parts.flat();
  const { args, meta } = command;
  return [
    ...[`.SS ${escaped(`${name} ${usageWords(args)}`.trim())}`, escaped(`${meta.description}.`)],
    ...Object.entries(args).flatMap((each) => entry("B", ...toRow(each))),
    ...paragraphs(command).flatMap((text) => [".PP", escaped(text)]),
    ...[".PP", `Example: \\fB${escaped(meta.example)}\\fR`],
  ];
}

function entry(font: "B" | "I", name: string, text: string): readonly string[] {
  return [".TP", `.${font} ${escaped(name)}`, escaped(text.replace(/\.?$/, "."))];
}

/** A text as roff shows it: a backslash begins an escape, a dot or quote at the begin of a line a macro. */
function escaped(text: string): string {
  const plain = text.replaceAll("\\", "\\e").replaceAll("-", "\\-");
  return plain.replace(/^(?=[.'])/, "\\&");
}

type Part = readonly [part: string, version: string | number | null];

export const versionCommand = defineCommand({
  description: "Print the version, and the versions of its parts",
  example: "postbackd version --json",
  notes: "'postbackd --version' prints the version alone.",
  args: JSON_ARG,
  async run() {
    const { SCHEMA_VERSION: schema } = await import("../store/sqlite/machine/schema.ts");
    const { commit, sqlite } = buildFacts;
    const { node } = process.versions;
    const parts = { postbackd: version, commit, node, sqlite, schema };
    const columns = { PART: ([part]: Part) => part, VERSION: ([, value]: Part) => value };
    const lines = tableLines(Object.entries(parts), columns);
    return answer({ version, commit, node, sqlite, schema }, ...lines);
  },
});
