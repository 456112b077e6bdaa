import { parseArgs } from "node:util";

import { defineCommand as defineCittyCommand, type CommandDef } from "citty";

import { quote } from "../domain/rule.ts";
import { nearestName } from "../domain/text.ts";
import type { Argument, ArgumentTable, Given } from "./arguments.ts";
import { meantCommand, UsageError } from "./failure.ts";
import { type Answer, printAnswer } from "./print.ts";

/** A command of the program, or a group of commands, as citty runs it. */
export interface Command extends CommandDef {
  readonly meta: CommandTexts;
  readonly args: ArgumentTable;
  /** By name. A function loads the command when it is needed. */
  readonly subCommands: Readonly<Record<string, Command | (() => Promise<Command>)>>;
}

interface CommandTexts {
  /** For the program alone. */
  readonly version?: string;
  readonly description: string;
  /** A command line that works. */
  readonly example: string;
  /** Paragraphs that help shows after the flags. */
  readonly notes?: string;
}

export interface Definition<Args extends ArgumentTable> extends CommandTexts {
  readonly args?: Args;
  readonly subCommands?: Command["subCommands"];
  /** Returns the message for a flag that the command does not have. */
  readonly unknownFlag?: typeof nearestFlag;
  /** Returns the answer to print, if the command has one. */
  // A method, not a property: TypeScript compares its parameter loosely, so each command fits the one type.
  run?(given: Given<Args>): Promise<Answer | void> | Answer | void;
}

/**
 * Defines a command for citty. By itself citty ignores unknown flags and surplus words, keeps one value of a repeated
 * flag, reads `--db --json` as a value, and skips flags before the name of a command.
 */
export function defineCommand<const Args extends ArgumentTable>(of: Definition<Args>): Command {
  const { args = {} as Args, subCommands = {}, unknownFlag = nearestFlag, run, ...meta } = of;
  const own = { meta, args, subCommands };
  const behaviour = defineCittyCommand({
    setup({ rawArgs: [word] }) {
      if (run === undefined) requireCommand(word, own);
    },
    async run({ rawArgs }) {
      // citty also calls the group of a command that has run.
      if (run === undefined) return;
      const given: Given<ArgumentTable> = readArguments(rawArgs, args, unknownFlag);
      const answer = await run(given as Given<Args>);
      if (answer === undefined) return;
      printAnswer(answer, given["json"] === true);
      // citty drops what the run of a sub-command returns. An exit code that is set, also 0, ends the program before
      // an error of stdout is reported.
      if (answer.exit !== undefined && answer.exit > 0) process.exitCode = answer.exit;
    },
  });
  return { ...behaviour, ...own };
}

export async function subCommandsOf(
  group: Pick<Command, "subCommands">,
): Promise<readonly (readonly [name: string, command: Command])[]> {
  const load = async (found: Command | (() => Promise<Command>)): Promise<Command> =>
    typeof found === "function" ? found() : found;
  const entries = Object.entries(group.subCommands);
  return Promise.all(entries.map(async ([name, found]) => [name, await load(found)] as const));
}

/** Throws a {@link UsageError} if the first word after a group's name is not one of its commands. */
export function requireCommand(
  word: string | undefined,
  { subCommands, meta }: Pick<Command, "subCommands" | "meta">,
): void {
  const names = Object.keys(subCommands);
  const all = `choose one of: ${names.join(", ")}`;
  if (word === undefined) return refuse(`no command given; ${all}`);
  if (names.includes(word)) return;
  if (word.startsWith("-")) {
    const hint = `put flags after the command, as in '${meta.example} --db FILE'`;
    return refuse(`unexpected flag ${quote(word)} before the command; ${hint}`);
  }
  const meant = meantCommand(word, names);
  const hint = meant === null ? all : `did you mean ${meant}?`;
  refuse(`unknown command ${quote(word)}; ${hint}`);
}

/** Reads the words after a command's name. Throws a {@link UsageError} for everything that `args` does not allow. */
export function readArguments<const Args extends ArgumentTable>(
  rawArgs: readonly string[],
  args: Args,
  unknownFlag = nearestFlag,
): Given<Args> {
  const entries = Object.entries(args);
  const flags = new Map(entries.filter(([, { type }]) => type !== "positional"));
  const words = entries.filter(([name]) => !flags.has(name));
  const texts = new Map<string, string[]>(entries.map(([name]) => [name, []]));
  const options = Object.fromEntries(
    [...flags].map(([name, { type }]) => [name, { type: type as "string" | "boolean" }]),
  );
  const rules = { options, tokens: true, strict: false, allowPositionals: true } as const;
  for (const token of parseArgs({ args: [...rawArgs], ...rules }).tokens) {
    if (token.kind === "option") {
      const flag = token.rawName.startsWith("--") ? flags.get(token.name) : undefined;
      const known = ["--help", ...[...flags.keys()].map((name) => `--${name}`)];
      if (flag === undefined) return refuse(unknownFlag(token.rawName, known));
      texts.get(token.name)?.push(flagValue(token, flag));
    } else if (token.kind === "positional") {
      const [name, { isRest }] = words[0] ?? refuse(`unexpected argument ${quote(token.value)}`);
      texts.get(name)?.push(token.value);
      if (isRest !== true) words.shift();
    }
  }
  const values = entries.map(([name, { type, isRequired, read }]) => {
    const given = texts.get(name) ?? [];
    const shown = type === "positional" ? name.toUpperCase() : `--${name}`;
    if (isRequired === true && given.length === 0) refuse(`${shown} is missing`);
    return [name, read(given, shown)];
  });
  // Every name of the table has the value that its own argument read.
  return Object.fromEntries(values) as Given<Args>;
}

interface FlagToken {
  readonly rawName: string;
  readonly value?: string | undefined;
  readonly inlineValue?: boolean | undefined;
}

function flagValue(
  { rawName, value, inlineValue }: FlagToken,
  { type }: Argument<unknown>,
): string {
  if (type === "boolean") {
    if (value === undefined || value === "true" || value === "false") return value ?? "true";
    return refuse(`${rawName} takes no value but true and false, not ${quote(value)}`);
  }
  if (value === undefined) return refuse(`${rawName} needs a value`);
  // Otherwise `--db --json` would open a file named --json. A dash alone is standard input.
  if (inlineValue === true || !value.startsWith("-") || value === "-") return value;
  const hint = `${quote(value)} looks like a flag; write ${rawName}=VALUE`;
  return refuse(`${rawName} needs a value, and ${hint}`);
}

function nearestFlag(flag: string, known: readonly string[]): string {
  return `unknown flag ${quote(flag)}; did you mean ${nearestName(flag, known)}?`;
}

function refuse(message: string): never {
  throw new UsageError(message);
}
