import { version } from "../assets.ts";
import { subCommandOf, type Command } from "./command.ts";
import {
  CommandFailure,
  ConfigurationError,
  errorDocument,
  EXIT,
  faultText,
  UsageError,
} from "./failure.ts";
import { printError, printJson } from "./print.ts";
import { takeNoColor } from "./terminal.ts";

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
    audit: async () => (await import("./admin-audit.ts")).auditCommand,
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

const backup: Command = {
  description: "Make, check and restore copies of a database file",
  example: "postbackd backup create /var/lib/postbackd/copy.db",
  subCommands: {
    create: async () => (await import("./backup.ts")).createCommand,
    check: async () => (await import("./backup.ts")).checkCommand,
    restore: async () => (await import("./backup.ts")).restoreCommand,
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
    dev: async () => (await import("./dev.ts")).devCommand,
    admin,
    backup,
    database,
    move: async () => (await import("./move.ts")).moveCommand,
    worker: async () => (await import("./worker.ts")).workerCommand,
    listen: async () => (await import("./listen.ts")).listenCommand,
    config,
    "explain-url": async () => (await import("./explain-url.ts")).explainUrlCommand,
    verify: async () => (await import("./verify.ts")).verifyCommand,
    doctor: async () => (await import("./doctor.ts")).doctorCommand,
    service: async () => (await import("./service.ts")).serviceCommand,
    health: async () => (await import("./health.ts")).healthCommand,
    // These describe the whole tree, so they must not import it.
    completion: async () => (await import("./completion.ts")).completionCommandFor(program),
    man: async () => (await import("./man.ts")).manCommandFor(program),
    version: async () => (await import("./version.ts")).versionCommand,
  },
};

/** Runs a command line, without the program's name. Answers the exit code; prints errors. */
export async function runProgram(given: readonly string[]): Promise<number> {
  const argv = takeNoColor(given);
  if (argv.length === 1 && isVersionFlag(argv[0])) return print(`${version}\n`);
  const found = await findCommand(toCommand(argv));
  try {
    if (asksFor(found.rest, ["--help", "-h"])) return await explain(found);
    return await runFound(found);
  } catch (error) {
    // Also for a command line that cannot be read: a program gave it, and reads the error.
    if (asksFor(found.rest, ["--json"])) printJson({ error: errorDocument(error, found.name) });
    return reportFailure(error, found.name);
  }
}

/** The command that a usual way to ask for it means: `help admin key` is `admin key --help`. */
function toCommand(argv: readonly string[]): readonly string[] {
  const [first, ...others] = argv;
  if (first === "help") return [...others, "--help"];
  return isVersionFlag(first) ? ["version", ...others] : argv;
}

function isVersionFlag(word: string | undefined): boolean {
  return isOneOf(word, ["--version", "-V", "-v"]);
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

async function explain(found: FoundCommand): Promise<number> {
  // Of `help nonsense` the unknown word is left.
  const { command, rest } = found;
  const [word = ""] = rest;
  if (command.subCommands !== undefined && !word.startsWith("-")) throw await noCommand(found);
  const [{ helpText }, { terminalLayout }] = await Promise.all([
    import("./help-text.ts"),
    import("./terminal.ts"),
  ]);
  return print(await helpText(found.name, command, terminalLayout()));
}

function asksFor(rest: readonly string[], flags: readonly string[]): boolean {
  const end = rest.indexOf("--");
  const words = end === -1 ? rest : rest.slice(0, end);
  return words.some((word) => isOneOf(word, flags));
}

/** Tells why a group of commands cannot be run as it was called. */
async function noCommand({ command, rest }: FoundCommand): Promise<UsageError> {
  const names = Object.keys(command.subCommands ?? {});
  const [word] = rest;
  if (word === undefined) return new UsageError(`no command given; there are ${names.join(", ")}`);
  const [{ closeName }, { quote }] = await Promise.all([
    import("../config/config.ts"),
    import("../domain/rule.ts"),
  ]);
  if (word.startsWith("-")) {
    const hint = `flags stand behind the command, as in '${command.example} --db FILE'`;
    return new UsageError(`unexpected flag ${quote(word)} before the command; ${hint}`);
  }
  const meant =
    OTHER_WORDS.get(word)?.find((name) => names.includes(name)) ?? closeName(word, names);
  const hint =
    meant === null ? `there are ${names.join(", ")}` : `the nearest known one is ${meant}`;
  return new UsageError(`unknown command ${quote(word)}; ${hint}`);
}

/** Words that other programs have for our commands. No count of letters finds these. */
const OTHER_WORDS: ReadonlyMap<string, readonly string[]> = new Map(
  Object.entries({
    add: ["create"],
    cancel: ["revoke"],
    daemon: ["start"],
    delete: ["revoke", "erase"],
    get: ["show", "list"],
    ls: ["list"],
    make: ["create"],
    migrate: ["database"],
    new: ["create"],
    ps: ["list"],
    remove: ["revoke", "erase"],
    resend: ["redeliver"],
    retry: ["redeliver"],
    rm: ["revoke", "erase"],
    run: ["start"],
    serve: ["start"],
    up: ["start"],
  }),
);

/** Prints why a command failed, and returns the exit code. */
export function reportFailure(error: unknown, name = "postbackd"): number {
  if (error instanceof UsageError) {
    printError(`${error.message}\nTry '${name} --help'.`);
    return EXIT.usage;
  }
  if (error instanceof ConfigurationError) {
    for (const line of error.lines) printError(line);
    return EXIT.configuration;
  }
  const isExpected = error instanceof CommandFailure;
  printError(isExpected ? error.message : faultText(error, process.env));
  return EXIT.failed;
}

function print(text: string): number {
  process.stdout.write(text);
  return EXIT.done;
}

function isOneOf(word: string | undefined, words: readonly string[]): boolean {
  return word !== undefined && words.includes(word);
}
