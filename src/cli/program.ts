import { runCommand, type ArgsDef } from "citty";

import { version } from "../assets.ts";
import { defineCommand, requireCommand, type Command } from "./command.ts";
import { failureOf } from "./failure.ts";
import { printError, printJson } from "./print.ts";
import { takeNoColor, terminalLayout } from "./terminal.ts";

const admin = defineCommand({
  description:
    "Manage accounts, keys, secrets, access, workers, tasks, deliveries, sign-ins (safe while the daemon runs)",
  example: "postbackd admin account create alice",
  subCommands: {
    account: async () => (await import("./admin-account.ts")).accountCommand,
    key: async () => (await import("./admin-key.ts")).keyCommand,
    secret: async () => (await import("./admin-key.ts")).secretCommand,
    access: async () => (await import("./admin-access.ts")).accessCommand,
    worker: async () => (await import("./admin-worker.ts")).workerCommand,
    task: async () => (await import("./admin-task.ts")).taskCommand,
    delivery: async () => (await import("./admin-delivery.ts")).deliveryCommand,
    node: async () => (await import("./admin-worker.ts")).nodeCommand,
    audit: async () => (await import("./admin-audit.ts")).auditCommand,
    link: async () => (await import("./admin-access.ts")).linkCommand,
  },
});

export const program: Command = defineCommand({
  version,
  description: "Runs tasks for accounts and reports finished tasks by signed webhooks",
  example: "postbackd start",
  // Loaded when needed: --version should not wait for the rest.
  subCommands: {
    start: async () => (await import("./start.ts")).startCommand,
    dev: async () => (await import("./dev.ts")).devCommand,
    admin,
    backup: async () => (await import("./backup.ts")).backupCommand,
    database: async () => (await import("./database.ts")).databaseCommand,
    move: async () => (await import("./database.ts")).moveCommand,
    worker: async () => (await import("./worker.ts")).workerCommand,
    listen: async () => (await import("./listen.ts")).listenCommand,
    config: async () => (await import("./config.ts")).configCommand,
    "explain-url": async () => (await import("./explain-url.ts")).explainUrlCommand,
    verify: async () => (await import("./verify.ts")).verifyCommand,
    doctor: async () => (await import("./doctor.ts")).doctorCommand,
    service: async () => (await import("./service.ts")).serviceCommand,
    health: async () => (await import("./health.ts")).healthCommand,
    // These describe the whole tree, so they must not import it.
    completion: async () => (await import("./completion.ts")).completionCommandFor(program),
    man: async () => (await import("./help.ts")).manCommandFor(program),
    version: async () => (await import("./help.ts")).versionCommand,
  },
});

/** Runs a command line, without the program's name, and sets the process's exit code. Prints errors. */
export async function runProgram(given: readonly string[]): Promise<void> {
  const argv = toCommand(takeNoColor(given));
  const found = await findCommand(argv);
  try {
    if (argv.length === 1 && isVersionFlag(given[0])) process.stdout.write(`${version}\n`);
    else if (asksFor(found.rest, ["--help", "-h"])) await explain(found);
    else await runCommand<ArgsDef>(program, { rawArgs: [...argv] });
  } catch (error) {
    // Also for a command line that cannot be read: a program gave it, and reads the error.
    process.exitCode = reportFailure(error, found.name, asksFor(found.rest, ["--json"]));
  }
}

/** The command that a usual way to ask for it means: `help admin key` is `admin key --help`. */
function toCommand(argv: readonly string[]): readonly string[] {
  const [first, ...others] = argv;
  if (first === "help") return [...others, "--help"];
  return isVersionFlag(first) ? ["version", ...others] : argv;
}

function isVersionFlag(word: string | undefined): boolean {
  return word === "--version" || word === "-V" || word === "-v";
}

interface FoundCommand {
  /** In full: `postbackd admin key`. */
  readonly name: string;
  readonly command: Command;
  readonly rest: readonly string[];
}

/** Follows the names of commands as far as they are known. citty does the same and does not export it. */
async function findCommand(argv: readonly string[]): Promise<FoundCommand> {
  let found: FoundCommand = { name: "postbackd", command: program, rest: argv };
  for (const word of argv) {
    const { subCommands } = found.command;
    const next = Object.hasOwn(subCommands, word) ? subCommands[word] : undefined;
    if (next === undefined) break;
    const command = typeof next === "function" ? await next() : next;
    found = { name: `${found.name} ${word}`, command, rest: found.rest.slice(1) };
  }
  return found;
}

async function explain({ name, command, rest: [word = ""] }: FoundCommand): Promise<void> {
  // Of `help nonsense` the unknown word is left.
  const isGroup = Object.keys(command.subCommands).length > 0;
  if (isGroup && !word.startsWith("-")) requireCommand(word, command);
  const { helpText } = await import("./help.ts");
  process.stdout.write(await helpText(name, command, terminalLayout()));
}

function asksFor(rest: readonly string[], flags: readonly string[]): boolean {
  const end = rest.indexOf("--");
  return (end === -1 ? rest : rest.slice(0, end)).some((word) => flags.includes(word));
}

/** Prints why a command failed, and returns the exit code. */
export function reportFailure(error: unknown, name = "postbackd", isJson = false): number {
  const { exit, document, lines } = failureOf(error, name);
  if (isJson) printJson({ error: document });
  for (const line of lines) printError(line);
  return exit;
}
