import { isWellFormedWorkerToken } from "../domain/account/key.ts";
import { TYPE_NAME } from "../domain/lease/worker.ts";
import { DURATION, integerBetween } from "../domain/rule.ts";
import { flag, flags, required, rest, textOf, toggle, type Given } from "./arguments.ts";
import { defineCommand } from "./command.ts";
import { daemonUrl, readCredential } from "./daemon-access.ts";
import { UsageError } from "./failure.ts";
import type { WorkerPlan } from "./work.ts";

const CONCURRENCY = integerBetween(1, 100);

const args = {
  url: flag(textOf("URL"), "Base URL of the daemon"),
  token: flag(
    textOf("TOKEN"),
    "Worker's token; better in POSTBACKD_TOKEN or the file POSTBACKD_TOKEN_FILE names",
  ),
  type: required(flags(TYPE_NAME, "Type whose tasks it claims; at least one, may be repeated")),
  concurrency: flag(CONCURRENCY, "Tasks at once, 1 to 100", { standard: "1" }),
  timeout: flag(DURATION, "Longest run; the type's own timeout counts anyway"),
  "insecure-http": toggle("Use plain HTTP beyond loopback, token and tasks in the clear"),
  json: toggle("Log JSON lines, also on a terminal"),
  command: rest("Program and arguments to run for each task, without a shell"),
};

export const workerCommand = defineCommand({
  description: "Claim tasks from a daemon over HTTP and run a command for each",
  example: "postbackd worker --url http://127.0.0.1:8787 --type resize -- node resize.js",
  notes:
    "The command gets the task as one line of JSON on stdin; what it prints is the result. A token on the\n" +
    "command line is seen by every user of the machine: give it in POSTBACKD_TOKEN, or in the file that\n" +
    "POSTBACKD_TOKEN_FILE names. When the daemon has accepted it, stdout gets one line of JSON; logs go to\n" +
    "stderr. SIGTERM and SIGINT stop it: runs have 25 seconds to end, what still runs then is given back.",
  args,
  async run(given) {
    const plan = readPlan(given, process.env);
    const { work } = await import("./work.ts");
    await work(plan, given);
  },
});

/** The plan from the command line and the environment, checked. It reads no file but that of the token. */
function readPlan(given: Given<typeof args>, env: NodeJS.ProcessEnv): WorkerPlan {
  const [program, ...words] = given.command;
  if (program === undefined || program === "") throw new UsageError("COMMAND is missing");
  return {
    url: daemonUrl(given, "token and tasks"),
    types: [...new Set(given.type)],
    concurrency: given.concurrency ?? 1,
    // Without it, the only timeout is the type's, which the daemon enforces.
    timeoutMs: given.timeout ?? Infinity,
    token: readCredential(TOKEN, given.token, env),
    command: [program, ...words],
  };
}

const TOKEN = {
  name: "token",
  what: "worker's token",
  isWellFormed: isWellFormedWorkerToken,
  form:
    "pbd_work_ and 40 characters; " +
    "copy it whole, or make one with 'postbackd admin worker create'",
} as const;
