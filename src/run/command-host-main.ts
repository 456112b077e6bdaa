import { isDeepStrictEqual } from "node:util";

import { systemClock } from "../domain/clock/clock.ts";
import {
  type CommandPlan,
  lineTaker,
  type MessageFromHost,
  type MessageToHost,
  toLine,
} from "./command-host-message.ts";
import { createCommandRunner } from "./command.ts";
import type { Runner } from "./runner.ts";

// The host of a daemon's commands, a process of its own: see `command-host.ts`. It lives as long as the daemon holds
// its stdin open, and its commands end with it.

/** By type: the newest plan with its runner, whose environment is made once. */
const runners = new Map<string, { readonly plan: CommandPlan; readonly runner: Runner }>();
const runs = new Map<number, AbortController>();

function take(message: MessageToHost): void {
  switch (message.kind) {
    case "abort":
      runs.get(message.run)?.abort();
      return;
    case "run":
      void runToEnd(message);
  }
}

/** An error ends the host, and that ends its runs as lost. */
async function runToEnd({ run, plan, request }: MessageToHost & { kind: "run" }): Promise<void> {
  const abort = new AbortController();
  runs.set(run, abort);
  const outcome = await runnerOf(request.type, plan).run(request, {
    signal: abort.signal,
    report: (progress) => tell({ kind: "progress", run, progress }),
  });
  runs.delete(run);
  tell({ kind: "outcome", run, outcome });
}

function runnerOf(type: string, plan: CommandPlan): Runner {
  const known = runners.get(type);
  if (known !== undefined && isDeepStrictEqual(known.plan, plan)) return known.runner;
  const runner = createCommandRunner({ ...plan, clock: systemClock });
  runners.set(type, { plan, runner });
  return runner;
}

function tell(message: MessageFromHost): void {
  process.stdout.write(toLine(message));
}

// This happens also when the daemon was killed: the system closes its end of the pipe. The exit ends all runs.
const leave = (): never => process.exit();
process.stdin.on("close", leave);
process.stdout.on("error", leave);
// A supervisor sends these signals to every process. The daemon reacts to them and sends messages to this process.
for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(signal, () => {});
// As in main.ts: otherwise Node would open its debugger.
process.on("SIGUSR1", () => {});
process.title = "postbackd command-host";
// Ends a line that something else may have begun before: see isMessage.
process.stdout.write("\n");
tell({ kind: "started" });
// Everything there was written by the daemon's half of this program.
process.stdin.on(
  "data",
  lineTaker((line) => take(JSON.parse(line) as MessageToHost)),
);
