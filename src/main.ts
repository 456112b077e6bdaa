import { writeFileSync } from "node:fs";

import { reportFailure, runProgram } from "./cli/program.ts";
import { boundYoungGeneration } from "./young-generation.ts";

boundYoungGeneration();

// Every file that the program creates (database, journal, lock, ready file) is for its own user only.
process.umask(0o077);

// Node names its main thread MainThread, so pgrep, top and the journal would not find the daemon. `process.title` would
// set the name too, and hide the arguments.
try {
  writeFileSync("/proc/self/comm", "postbackd");
} catch {
  // Without /proc the process keeps the name.
}

// Without a listener Node would open its debugger, to every user of the machine.
process.on("SIGUSR1", () => {});

// Without a listener a reader that went away would end the process. The output is lost, and a command shows that by its
// exit code; a daemon continues.
process.stdout.on("error", () => {
  process.exitCode = 1;
});
process.stderr.on("error", () => {
  // There is nowhere left to say it.
});

// The last catch, for errors outside of a command's own steps. `start` and `dev` replace it by a handler that logs.
process.on("uncaughtException", (error) => process.exit(reportFailure(error)));

void runProgram(process.argv.slice(2)).then(() => {
  // A failed start may leave something open. After success nothing is, and output may be under way.
  if (process.exitCode !== undefined) process.exit();
});
