import { inspect } from "node:util";

import { defineCommand, runCommand } from "citty";
import type { ArgsDef, CommandDef, Resolvable, SubCommandsDef } from "citty";

import { version } from "../assets.ts";
import { CommandFailure, ConfigurationError, EXIT, UsageError } from "./failure.ts";
import { printError } from "./print.ts";
import { helpText, metaOf, programMeta } from "./usage.ts";

/** The program with all its commands. */
export const program: CommandDef = defineCommand({
  meta: programMeta({
    name: "postbackd",
    version,
    description: "Runs tasks for accounts and reports finished tasks by signed webhooks",
    example: "postbackd start",
  }),
  // Loaded when they are asked for: --version should not wait for the rest.
  subCommands: {
    start: async () => (await import("./start.ts")).startCommand,
    admin: async () => (await import("./admin.ts")).adminCommand,
    worker: async () => (await import("./worker.ts")).workerCommand,
    config: async () => (await import("./config.ts")).configCommand,
    "explain-url": async () => (await import("./explain-url.ts")).explainUrlCommand,
    verify: async () => (await import("./verify.ts")).verifyCommand,
    health: async () => (await import("./health.ts")).healthCommand,
    // It is about the whole tree, which it must not import back.
    completion: async () => (await import("./completion.ts")).completionCommandFor(program),
  },
});

/** Runs a command line, without the program's name. Answers the exit code; prints what went wrong. */
export async function runProgram(argv: readonly string[]): Promise<number> {
  if (argv.length === 1 && isOneOf(argv[0], ["--version", "-v"])) return print(`${version}\n`);
  const found = await findCommand(argv);
  try {
    if (asksForHelp(found.rest)) return print(await helpText(found.command));
    if (found.subCommands !== null) throw await noCommand(found, found.subCommands);
    return await runFound(found);
  } catch (error) {
    return reportFailure(error, found.command);
  }
}

interface FoundCommand {
  readonly command: CommandDef;
  /** Null when it has none and can be run. */
  readonly subCommands: SubCommandsDef | null;
  /** What stands behind its name. */
  readonly rest: readonly string[];
}

/** Follows the names of commands as far as they are known. */
async function findCommand(argv: readonly string[]): Promise<FoundCommand> {
  let command: CommandDef = program;
  for (let rest = argv; ; rest = rest.slice(1)) {
    const subCommands = (await resolved(command.subCommands)) ?? null;
    const name = rest[0];
    if (subCommands === null || name === undefined || !Object.hasOwn(subCommands, name)) {
      return { command, subCommands, rest };
    }
    command = (await resolved(subCommands[name])) ?? command;
  }
}

/** A command that answers a question with no returns its exit code; one that returns nothing is done. */
async function runFound({ command, rest }: FoundCommand): Promise<number> {
  const { readArguments } = await import("./arguments.ts");
  const args: ArgsDef = (await resolved(command.args)) ?? {};
  // citty takes wrong arguments in silence, so they are looked at before it gets them.
  readArguments(rest, args);
  const { result } = await runCommand(command, { rawArgs: [...rest] });
  return typeof result === "number" ? result : EXIT.done;
}

function asksForHelp(rest: readonly string[]): boolean {
  const end = rest.indexOf("--");
  const words = end === -1 ? rest : rest.slice(0, end);
  return words.some((word) => isOneOf(word, ["--help", "-h"]));
}

/** Says why a group of commands cannot be run as it was called. */
async function noCommand(
  { command, rest }: FoundCommand,
  subCommands: SubCommandsDef,
): Promise<UsageError> {
  const names = Object.keys(subCommands);
  const [word] = rest;
  if (word === undefined) return new UsageError(`no command given; there are ${names.join(", ")}`);
  const [{ nearestName }, { quote }] = await Promise.all([
    import("../config.ts"),
    import("../domain/rule.ts"),
  ]);
  if (word.startsWith("-")) {
    const { example } = metaOf(command);
    const hint = `flags stand behind the command, as in '${example} --db FILE'`;
    return new UsageError(`unexpected flag ${quote(word)} before the command; ${hint}`);
  }
  const nearest = nearestName(word, [...names, "--help"]);
  return new UsageError(`unknown command ${quote(word)}; the nearest known one is ${nearest}`);
}

function reportFailure(error: unknown, command: CommandDef): number {
  if (error instanceof UsageError) {
    printError(`${error.message}\nTry '${metaOf(command).name} --help'.`);
    return EXIT.usage;
  }
  if (error instanceof ConfigurationError) {
    for (const line of error.lines) printError(line);
    return EXIT.configuration;
  }
  // What is not expected is a bug, and its stack is what helps to find it.
  printError(error instanceof CommandFailure ? error.message : inspect(error));
  return EXIT.failed;
}

function print(text: string): number {
  process.stdout.write(text);
  return EXIT.done;
}

function isOneOf(word: string | undefined, words: readonly string[]): boolean {
  return word !== undefined && words.includes(word);
}

async function resolved<T>(value: Resolvable<T> | undefined): Promise<T | undefined> {
  // Nothing that citty resolves is itself a function.
  return typeof value === "function" ? (value as () => T | Promise<T>)() : value;
}
