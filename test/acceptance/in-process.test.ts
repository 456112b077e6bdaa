import { describe } from "node:test";

import { runHere } from "../cli/in-process.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { runProgram, startProgram } from "../helpers/program.ts";
import { exerciseAccounts } from "./account.ts";
import { exerciseCommands } from "./command-line.ts";
import { PART, type Subject } from "./subject.ts";
import { exerciseTasks } from "./tasks.ts";
import { exerciseWorkers } from "./workers.ts";

const SOURCES: Subject = {
  async serve(t, options) {
    const { url, file, account } = await startTestDaemon(t, options);
    return { url, file, account, cli: (args) => runHere(t, [...args, "--db", file]) };
  },
  launch: startProgram,
  run: runProgram,
};

/**
 * Walks through the contract with a client that was written against it alone: each path of http-api.md,
 * worker-protocol.md and cli.md once. Starts and webhooks are walked from the executable (`test/dist/acceptance`). The
 * fields and refusals of each operation are judged by test/http. Packets go to this machine alone. Each part serves a
 * database of its own, and most of the time is spent waiting for other processes.
 */
describe("the contract, accepted from the sources", { concurrency: true, ...PART }, () => {
  exerciseAccounts(SOURCES);
  exerciseTasks(SOURCES);
  exerciseWorkers(SOURCES);
  exerciseCommands(SOURCES);
});
