import type { TaskProgress } from "../domain/task/run.ts";
import type { CommandRunnerOptions } from "./command.ts";
import type { RunOutcome, RunRequest } from "./runner.ts";

/** The messages between the daemon and the host of its commands: a line of JSON each. */

/** The options of a runner. The host uses the machine's clock. */
export type CommandPlan = Omit<CommandRunnerOptions, "clock">;

export type MessageToHost =
  | {
      readonly kind: "run";
      readonly run: number;
      /** With each run, because a reload changes the plan of a type. */
      readonly plan: CommandPlan;
      readonly request: RunRequest;
    }
  | { readonly kind: "abort"; readonly run: number };

export type MessageFromHost =
  /** The first one: the host can run commands. */
  | { readonly kind: "started" }
  | { readonly kind: "progress"; readonly run: number; readonly progress: TaskProgress }
  | { readonly kind: "outcome"; readonly run: number; readonly outcome: RunOutcome };

export function toLine(message: MessageToHost | MessageFromHost): string {
  return `${JSON.stringify(message)}\n`;
}

/** False for text that a module loaded by NODE_OPTIONS may print to stdout as it starts. */
export function isMessage(line: string): boolean {
  return line.startsWith('{"kind":');
}

const LINE_FEED = 0x0a;

/** Calls `take` with each line of a stream that comes in chunks of any size; keeps the rest after the last line. */
export function lineTaker(take: (line: string) => void): (chunk: Buffer) => void {
  let parts: Buffer[] = [];
  return (chunk) => {
    let start = 0;
    for (let end = chunk.indexOf(LINE_FEED); end >= 0; end = chunk.indexOf(LINE_FEED, start)) {
      parts.push(chunk.subarray(start, end));
      const line = Buffer.concat(parts).toString();
      parts = [];
      start = end + 1;
      take(line);
    }
    if (start < chunk.length) parts.push(chunk.subarray(start));
  };
}
