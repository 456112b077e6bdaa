import { createInterface } from "node:readline/promises";

import { toggle } from "./arguments.ts";
import { CommandFailure } from "./failure.ts";

/** Asks whoever sits at the terminal: on stderr, so that stdout stays the answer's own. */

/** True when somebody can be asked: a terminal shows the question and takes the answer. */
export function canAsk(): boolean {
  return process.stdin.isTTY && process.stderr.isTTY;
}

/** Asks a question until the answer is one that `read` takes. Throws a {@link CommandFailure} when none comes. */
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
    throw new CommandFailure("not answered; nothing was done", { cause: error });
  } finally {
    terminal.close();
  }
}

/** The flag that {@link confirm} needs, for a command's definition. */
export const YES_ARG = { yes: toggle("Do it without asking; only a terminal is asked") };

/**
 * Has whoever sits at the terminal say that what cannot be undone is meant: `loss` tells what goes and how much. With
 * `--yes` nobody is asked, and without a terminal neither: a script has said what it means. Throws a
 * {@link CommandFailure} for a no.
 */
export async function confirm(
  { yes }: { readonly yes: boolean },
  loss: () => string | Promise<string>,
): Promise<void> {
  if (yes || !canAsk()) return;
  const isMeant = await ask(`${await loss()} Go on? [y/N]`, toYesOrNo);
  if (!isMeant) throw new CommandFailure("nothing was done");
}

/** Nothing but a yes is one. */
function toYesOrNo(answer: string): boolean {
  return answer === "y" || answer === "yes";
}
