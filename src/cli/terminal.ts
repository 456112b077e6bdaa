import { createInterface } from "node:readline/promises";
import { styleText } from "node:util";

import { progressTexts, type TellProgress, type WorkProgress } from "../domain/log.ts";
import { toggle } from "./arguments.ts";
import { fail } from "./failure.ts";

/** How texts for a person are laid out: wide as the terminal, and with styles where it shows them. */
export interface Layout {
  readonly width: number;
  readonly heading: (text: string) => string;
}

// Narrower, columns of names and their explanations no longer fit beside each other; wider, lines are hard to read.
const WIDTH = { min: 50, max: 110, elsewhere: 100 } as const;

/** For a pipe or a file: without styles, and as wide as a page. */
export const PLAIN: Layout = { width: WIDTH.elsewhere, heading: (text) => text };

/** The layout for this process's stdout. */
export function terminalLayout(): Layout {
  const { isTTY, columns } = process.stdout;
  if (!isTTY) return PLAIN;
  const width = Math.min(Math.max(columns, WIDTH.min), WIDTH.max);
  return { width, heading: hasStyles() ? (text) => styleText("bold", text) : PLAIN.heading };
}

/** Takes `--no-color` out of a command line, wherever it stands before `--`, and obeys it. */
export function takeNoColor(argv: readonly string[]): readonly string[] {
  const end = argv.indexOf("--");
  const isOurs = (word: string, i: number): boolean =>
    word === "--no-color" && (end === -1 || i < end);
  if (argv.some(isOurs)) process.env["NO_COLOR"] = "1";
  return argv.filter((word, i) => !isOurs(word, i));
}

/** Breaks a text between words so that no line is longer than `width`, unless a word is. */
export function wrapped(text: string, width: number): readonly string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line];
}

// https://no-color.org: any value but an empty one means no.
function hasStyles(): boolean {
  const { NO_COLOR: noColor = "", TERM: term } = process.env;
  return noColor === "" && term !== "dumb";
}

/** True if stdin and stderr are a terminal, so that a question can be shown and answered. */
export function canAsk(): boolean {
  return process.stdin.isTTY && process.stderr.isTTY;
}

/** Shows a question on stderr until `read` returns a value for the answer. Fails if the terminal closes first. */
export async function ask<Value>(
  question: string,
  read: (answer: string) => Value | null,
): Promise<Value> {
  const stop = new AbortController();
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  // Ctrl-C, Ctrl-D, or the terminal is gone: without this the question would wait for ever.
  terminal.once("close", () => stop.abort());
  try {
    for (;;) {
      const answer = await terminal.question(`${question} `, { signal: stop.signal });
      const value = read(answer.trim().toLowerCase());
      if (value !== null) return value;
    }
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    process.stderr.write("\n");
    return fail("not confirmed; nothing changed", error);
  } finally {
    terminal.close();
  }
}

/** The flag that {@link confirm} needs, for a command's definition. */
export const YES_ARG = { yes: toggle("Do it without a question") };

/**
 * Shows what is lost, and how much, and waits for a yes at the terminal. Does nothing with `--yes`, and without a
 * terminal: a script means what it runs. Throws a {@link CommandFailure} for a no or an empty line, and repeats the
 * question after any other word.
 */
export async function confirm(
  { yes }: { readonly yes: boolean },
  loss: () => string | Promise<string>,
): Promise<void> {
  if (yes || !canAsk()) return;
  const isMeant = await ask(`${await loss()} Continue? [y/N]`, toYesOrNo);
  if (!isMeant) fail("cancelled; nothing changed");
}

/** Null for a word that answers another question, such as the next one. */
function toYesOrNo(answer: string): boolean | null {
  if (answer === "y" || answer === "yes") return true;
  return answer === "" || answer === "n" || answer === "no" ? false : null;
}

// A line for each of a million steps would cost more than the work.
const SHOWN_EVERY_MS = 100;
const CLEAR_LINE = "\r\u001B[K";

/** The part of a terminal that the line of progress needs: stderr, unless a test has another. */
export interface ProgressTerminal {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

/**
 * Does long work and shows its progress on a terminal, in one line that is written again. The line of a part that is done
 * stays; the line of a part that failed is cleared. Without a terminal nothing is shown.
 */
export async function withProgress<Value>(
  work: (tell: TellProgress) => Value | Promise<Value>,
  terminal: ProgressTerminal = process.stderr,
): Promise<Value> {
  if (terminal.isTTY !== true) return work(() => {});
  const textOf = progressTexts(() => performance.now());
  let shownAt = -SHOWN_EVERY_MS;
  let isLineOpen = false;
  const tell = (progress: WorkProgress): void => {
    const isDone = progress.done === progress.of;
    const text = textOf(progress);
    const now = performance.now();
    if (!isDone && now - shownAt < SHOWN_EVERY_MS) return;
    shownAt = now;
    isLineOpen = !isDone;
    terminal.write(`${CLEAR_LINE}${text}${isDone ? "\n" : ""}`);
  };
  try {
    return await work(tell);
  } finally {
    if (isLineOpen) terminal.write(CLEAR_LINE);
  }
}
