import { inspect } from "node:util";

import { version } from "../assets.ts";
import { helpText, subCommandOf, type Command } from "./command.ts";
import { CommandFailure, ConfigurationError, EXIT, UsageError } from "./failure.ts";
import { printError } from "./print.ts";

const admin: Command = {
  description:
    "Manage accounts, keys, secrets, access, workers, tasks, deliveries, sign-ins, also while serving",
  example: "postbackd admin account create alice",
  subCommands: {
    account: async () => (await import("./admin-account.ts")).accountCommand,
    key: async () => (await import("./admin-key.ts")).keyCommand,
    secret: async () => (await import("./admin-secret.ts")).secretCommand,
    access: async () => (await import("./admin-access.ts")).accessCommand,
    worker: async () => (await import("./admin-worker.ts")).workerCommand,
    task: async () => (await import("./admin-task.ts")).taskCommand,
    delivery: async () => (await import("./admin-delivery.ts")).deliveryCommand,
    node: async () => (await import("./admin-node.ts")).nodeCommand,
    link: async () => (await import("./admin-link.ts")).linkCommand,
  },
};

const database: Command = {
  description: "Make and migrate the tables of a database on a server",
  example: "postbackd database migrate",
  subCommands: {
    migrate: async () => (await import("./database-migrate.ts")).databaseMigrateCommand,
  },
};

const config: Command = {
  description: "Check, show and begin a configuration",
  example: "postbackd config check",
  subCommands: {
    check: async () => (await import("./config-check.ts")).configCheckCommand,
    print: async () => (await import("./config-print.ts")).configPrintCommand,
    init: async () => (await import("./config-init.ts")).configInitCommand,
  },
};

/** The program with all its commands. */
export const program: Command = {
  version,
  description: "Runs tasks for accounts and reports finished tasks by signed webhooks",
  example: "postbackd start",
  // Loaded when needed: --version should not wait for the rest.
  subCommands: {
    start: async () => (await import("./start.ts")).startCommand,
    admin,
    database,
    move: async () => (await import("./move.ts")).moveCommand,
    worker: async () => (await import("./worker.ts")).workerCommand,
    config,
    "explain-url": async () => (await import("./explain-url.ts")).explainUrlCommand,
    verify: async () => (await import("./verify.ts")).verifyCommand,
    health: async () => (await import("./health.ts")).healthCommand,
    // It describes the whole tree, so it must not import it.
    completion: async () => (await import("./completion.ts")).completionCommandFor(program),
  },
};

/** Runs a command line, without the program's name. Answers the exit code; prints errors. */
export async function runProgram(argv: readonly string[]): Promise<number> {
  if (argv.length === 1 && isOneOf(argv[0], ["--version", "-v"])) return print(`${version}\n`);
  const found = await findCommand(argv);
  try {
    if (asksForHelp(found.rest)) return print(await helpText(found.name, found.command));
    return await runFound(found);
  } catch (error) {
    return reportFailure(error, found.name);
  }
}

interface FoundCommand {
  /** In full: `postbackd admin key`. */
  readonly name: string;
  readonly command: Command;
  /** The words after its name. */
  readonly rest: readonly string[];
}

/** Follows the names of commands as far as they are known. */
async function findCommand(argv: readonly string[]): Promise<FoundCommand> {
  let found: FoundCommand = { name: "postbackd", command: program, rest: argv };
  for (const word of argv) {
    const command = await subCommandOf(found.command, word);
    if (command === undefined) break;
    found = { name: `${found.name} ${word}`, command, rest: found.rest.slice(1) };
  }
  return found;
}

async function runFound(found: FoundCommand): Promise<number> {
  const { run, args = {} } = found.command;
  if (run === undefined) throw await noCommand(found);
  const { readArguments } = await import("./arguments.ts");
  return (await run(readArguments(found.rest, args))) ?? EXIT.done;
}

function asksForHelp(rest: readonly string[]): boolean {
  const end = rest.indexOf("--");
  const words = end === -1 ? rest : rest.slice(0, end);
  return words.some((word) => isOneOf(word, ["--help", "-h"]));
}

/** Tells why a group of commands cannot be run as it was called. */
async function noCommand({ command, rest }: FoundCommand): Promise<UsageError> {
  const names = Object.keys(command.subCommands ?? {});
  const [word] = rest;
  if (word === undefined) return new UsageError(`no command given; there are ${names.join(", ")}`);
  const [{ nearestName }, { quote }] = await Promise.all([
    import("../config/config.ts"),
    import("../domain/rule.ts"),
  ]);
  if (word.startsWith("-")) {
    const hint = `flags stand behind the command, as in '${command.example} --db FILE'`;
    return new UsageError(`unexpected flag ${quote(word)} before the command; ${hint}`);
  }
  const nearest = nearestName(word, [...names, "--help"]);
  return new UsageError(`unknown command ${quote(word)}; the nearest known one is ${nearest}`);
}

function reportFailure(error: unknown, name: string): number {
  if (error instanceof UsageError) {
    printError(`${error.message}\nTry '${name} --help'.`);
    return EXIT.usage;
  }
  if (error instanceof ConfigurationError) {
    for (const line of error.lines) printError(line);
    return EXIT.configuration;
  }
  // Any other error is a bug, and its stack helps to find it.
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
