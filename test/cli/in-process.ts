import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import { runProgram as runCommandLine } from "../../src/cli/program.ts";
import { cleanEnvironment, temporaryFolder } from "../helpers/program.ts";
import type { Finished, ProgramOptions } from "../helpers/program.ts";

// Each export leaves listeners on stdout, which a program writes to once.
process.stdout.setMaxListeners(0);

let last: Promise<unknown> = Promise.resolve();

/**
 * Runs a command line in this process as the program runs it, and returns its output and exit code. Commands run one
 * after another, because each has the folder, the environment and the output of the process. No other process may have
 * the database open: SQLite's locks belong to a process.
 */
export function runHere(
  t: TestContext,
  words: readonly string[],
  { cwd = temporaryFolder(t), env = {} }: Pick<ProgramOptions, "cwd" | "env"> = {},
): Promise<Finished> {
  const run = last.then(() => runAlone(words, { cwd, env }));
  last = run.catch(() => {});
  return run;
}

async function runAlone(
  words: readonly string[],
  { cwd, env }: Required<Pick<ProgramOptions, "cwd" | "env">>,
): Promise<Finished> {
  const before = { cwd: process.cwd(), env: process.env, exitCode: process.exitCode };
  const [stdout, stderr] = [capture(process.stdout), capture(process.stderr)];
  process.chdir(cwd);
  process.env = { ...cleanEnvironment(), ...env };
  process.exitCode = undefined;
  try {
    await runCommandLine(words);
    const code = Number(process.exitCode ?? 0);
    return { code, signal: null, stdout: stdout.text(), stderr: stderr.text() };
  } finally {
    stdout.restore();
    stderr.restore();
    process.chdir(before.cwd);
    process.env = before.env;
    process.exitCode = before.exitCode;
  }
}

/** Takes the texts that are written to a stream. Bytes go through: the test runner writes those to stdout. */
function capture(stream: NodeJS.WriteStream) {
  const { write } = stream;
  let text = "";
  stream.write = new Proxy(write, {
    apply(_target, _stream, args: readonly unknown[]) {
      const [chunk, callback] = [args[0], args.at(-1)];
      if (typeof chunk !== "string") return Reflect.apply(write, stream, args);
      text += chunk;
      if (typeof callback === "function") process.nextTick(callback);
      return true;
    },
  });
  return { text: () => text, restore: () => void (stream.write = write) };
}

/** Runs a command with `--json` that succeeds without a warning, and returns its document. */
export async function documentOf<Document = ReturnType<typeof JSON.parse>>(
  t: TestContext,
  words: readonly string[],
  options?: Pick<ProgramOptions, "cwd" | "env">,
): Promise<Document> {
  const { code, stdout, stderr } = await runHere(t, [...words, "--json"], options);
  assert.deepEqual([code, stderr], [0, ""], words.join(" "));
  assert.match(stdout, /^\{.*\}\n$/, "one document on one line");
  return JSON.parse(stdout) as Document;
}

/** The values of these fields in each row of a document. */
export function columns(rows: readonly object[], ...names: readonly string[]): unknown[][] {
  return rows.map((row) => names.map((name): unknown => Reflect.get(row, name)));
}
