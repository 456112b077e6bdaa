import { version } from "../assets.ts";
import { SERVICE_CONFIG_FILE } from "../config/service-file.ts";
import { subCommandsOf, type Command } from "./command.ts";
import { describedArgument, paragraphs, usageWords, writtenArgument } from "./help-text.ts";

/** The manual page postbackd(1) in the macros of man(7): every command with what its help says. */
export async function manPage(program: Command): Promise<string> {
  const lines = [
    `.TH POSTBACKD 1 "" "postbackd ${version}" "User Commands"`,
    ".SH NAME",
    `postbackd \\- ${escaped(program.description)}`,
    ".SH SYNOPSIS",
    ".B postbackd",
    ".I COMMAND",
    "[\\fIOPTIONS\\fR]",
    ".SH COMMANDS",
    ...(await commandLines("postbackd", program)),
    ".SH EXIT STATUS",
    ...EXITS.flatMap(([code, meaning]) => [".TP", `.B ${code}`, meaning]),
    ".SH FILES",
    ...FILES.flatMap(([path, meaning]) => [".TP", `.I ${path}`, meaning]),
  ];
  return `${lines.join("\n")}\n`;
}

const EXITS = [
  ["0", "Done."],
  ["1", "Failed; the message says why."],
  ["2", "The command line is wrong."],
  ["78", "The configuration is wrong."],
] as const;

const FILES = [
  ["./postbackd.toml", "The configuration, unless \\-\\-config names another file."],
  [
    SERVICE_CONFIG_FILE,
    "The configuration of this machine's service, for all commands but start and dev: where no configuration and no " +
      "database is named, and neither ./postbackd.toml nor ./postbackd.db is there.",
  ],
  ["./postbackd.db", "The database, unless \\-\\-db or the configuration names another."],
] as const;

async function commandLines(name: string, command: Command): Promise<readonly string[]> {
  const below = await subCommandsOf(command);
  const parts = await Promise.all(below.map(([word, sub]) => commandLines(`${name} ${word}`, sub)));
  // A group is told by the commands in it.
  return below.length > 0 ? parts.flat() : ownLines(name, command);
}

function ownLines(name: string, command: Command): readonly string[] {
  const { args = {}, description, example } = command;
  return [
    `.SS ${escaped(`${name} ${usageWords(args)}`.trim())}`,
    escaped(`${description}.`),
    ...Object.entries(args).flatMap(([each, argument]) => [
      ".TP",
      `.B ${escaped(writtenArgument(each, argument))}`,
      escaped(`${describedArgument(argument)}.`),
    ]),
    ...paragraphs(command).flatMap((text) => [".PP", escaped(text)]),
    ".PP",
    `Example: \\fB${escaped(example)}\\fR`,
  ];
}

/** A text as roff shows it: a backslash begins an escape, a dot or quote at the begin of a line a macro. */
function escaped(text: string): string {
  return text
    .replaceAll("\\", "\\e")
    .replaceAll("-", "\\-")
    .replace(/^(?=[.'])/, "\\&");
}
