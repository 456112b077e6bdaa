import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import type { TestContext } from "node:test";

import { afterwards } from "./afterwards.ts";
import { cleanEnvironment, SOURCES } from "./program.ts";

/** A program on a terminal. */
export interface TerminalProgram {
  /** The output so far. */
  readonly shown: string;
  /** Resolves when the text is shown. Rejects if the program ends before. */
  shows(text: string): Promise<void>;
  /** Types text: `\n` is Enter, `\u0003` Ctrl-C, `\u0004` Ctrl-D. */
  type(text: string): void;
  /** The exit code, once it has ended. */
  readonly exit: Promise<number | null>;
}

/** The reason to skip tests on a terminal, or false. */
export function reasonToSkipTerminal(): string | false {
  const { status } = spawnSync("script", ["--version"]);
  if (status === 0) return false;
  assert.notEqual(process.env["POSTBACKD_TEST_PEERS"], "required", NO_SCRIPT);
  return NO_SCRIPT;
}

const END_MS_MAX = 10_000;
const NO_SCRIPT = "there is no 'script' of util-linux, which makes a terminal";

/** Runs the real program on a terminal. It is ended after the test. */
export function startOnTerminal(
  t: TestContext,
  args: readonly string[],
  own: Readonly<Record<string, string>> = {},
): TerminalProgram {
  const line = [...SOURCES, ...args].map(quoted).join(" ");
  const options = ["--quiet", "--return", "--flush", "--command", line, "/dev/null"];
  // With CI, Node.js writes no colours.
  const env = { ...cleanEnvironment(), CI: undefined, SHELL: "/bin/sh", TERM: "xterm", ...own };
  const child = spawn("script", options, { env, stdio: ["pipe", "pipe", "inherit"] });
  const looks = new Set<() => void>();
  let shown = "";
  let hasEnded = false;
  const lookAll = (): void => {
    for (const look of looks) look();
  };
  // Input after the end is lost.
  child.stdin.on("error", () => {});
  child.stdout.setEncoding("utf8");
  child.stdout.on("data", (part: string) => {
    shown += part;
    lookAll();
  });
  const exit = new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => {
      hasEnded = true;
      lookAll();
      resolve(code);
    });
  });
  afterwards(t, async () => {
    // Ctrl-C ends the program; a daemon would outlive its terminal.
    child.stdin.write("\u0003\u0003");
    const late = setTimeout(() => child.kill("SIGKILL"), END_MS_MAX);
    await exit;
    clearTimeout(late);
  });
  return {
    get shown() {
      return shown;
    },
    shows: (text) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          if (shown.includes(text)) resolve();
          else if (hasEnded) reject(new Error(`the program ended without ${text}:\n${shown}`));
          else return;
          looks.delete(look);
        };
        looks.add(look);
        look();
      }),
    type: (text) => void child.stdin.write(text),
    exit,
  };
}

function quoted(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}
