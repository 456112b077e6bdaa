import { ChildProcess, type StdioOptions } from "node:child_process";
import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { delimiter, resolve } from "node:path";

import type { CommandLine } from "../domain/task/run.ts";
import { spawnInto } from "../node-internals.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

export interface CommandPlace {
  readonly cwd: string;
  /** The whole environment of the command, see {@link commandEnvironment}. */
  readonly env: Environment;
}

// The folders that execvp searches without a PATH (glibc's confstr(_CS_PATH)).
const PATH_DEFAULT = "/bin:/usr/bin";

/**
 * The environment of a command: the daemon's own without the names that begin with `POSTBACKD_`, because the daemon's
 * secrets are there and a command may run foreign code; then `configured` on top, which may also bring a `POSTBACKD_`
 * name on purpose.
 */
export function commandEnvironment(daemon: Environment, configured: Environment): Environment {
  const inherited = Object.entries(daemon).filter(([name]) => !name.startsWith("POSTBACKD_"));
  return { ...Object.fromEntries(inherited), ...configured };
}

/** An environment as the system takes it: `NAME=value` each. */
export function toEnvPairs(env: Environment): readonly string[] {
  return Object.entries(env).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}=${value}`],
  );
}

/** The file that would be executed, or null: in `cwd` for a name with a slash, else in the command's own PATH. */
export async function findProgram(program: string, place: CommandPlace): Promise<string | null> {
  for (const path of candidatePaths(program, place)) {
    if ((await fileVerdict(path)) === "executable") return path;
  }
  return null;
}

/**
 * Why a command cannot start, as one sentence that says how to repair it, or null when nothing is in its way. For the
 * warning at start and for the error of a task; it never rejects. The answer may be out of date a moment later, so a
 * run does not ask first.
 */
export async function commandProblem(
  command: CommandLine,
  place: CommandPlace,
): Promise<string | null> {
  if (!(await isFolder(place.cwd))) {
    const folder = `working folder '${place.cwd}'`;
    return `The command's ${folder} does not exist: create it or correct 'cwd'.`;
  }
  const [program] = command;
  if ((await findProgram(program, place)) !== null) return null;

  for (const path of candidatePaths(program, place)) {
    if ((await fileVerdict(path)) === "not_executable") {
      const repair = "make it so (chmod +x) or correct 'command'";
      return `The program '${program}' is not executable: ${repair}.`;
    }
  }
  const where = program.includes("/") ? "" : " in PATH";
  return `The program '${program}' was not found${where}: install it or correct 'command'.`;
}

function candidatePaths(program: string, place: CommandPlace): readonly string[] {
  if (program === "") return [];
  if (program.includes("/")) return [resolve(place.cwd, program)];
  const folders = (place.env["PATH"] ?? PATH_DEFAULT).split(delimiter);
  // An empty entry of PATH means the working folder, and a relative one starts from there.
  return folders.map((folder) => resolve(place.cwd, folder, program));
}

async function fileVerdict(path: string): Promise<"executable" | "not_executable" | "missing"> {
  try {
    if (!(await stat(path)).isFile()) return "missing";
  } catch {
    // The file cannot be executed from here for any reason: it counts as missing.
    return "missing";
  }
  return access(path, constants.X_OK).then(
    () => "executable",
    () => "not_executable",
  );
}

async function isFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (stats) => stats.isDirectory(),
    () => false,
  );
}

export type ProgramEnd =
  | { readonly kind: "exited"; readonly code: number | null }
  | { readonly kind: "not_started"; readonly errorCode: string };

/** Runs a program to its end, with this environment alone. Its output is dropped or goes to stderr. Never rejects. */
export function runToExit(
  command: CommandLine,
  env: Environment,
  output: "dropped" | "shown" = "dropped",
): Promise<ProgramEnd> {
  const child = new ChildProcess();
  return new Promise((resolve) => {
    child.once("error", () => resolve({ kind: "not_started", errorCode: "ENOENT" }));
    child.once("exit", (code) => resolve({ kind: "exited", code }));
    const stdio: StdioOptions = output === "dropped" ? "ignore" : ["ignore", 2, 2];
    const errorCode = spawnInto(child, { cwd: "/", envPairs: toEnvPairs(env), stdio, command });
    if (errorCode !== null) resolve({ kind: "not_started", errorCode });
  });
}
