import { version } from "../assets.ts";
import { SETTINGS } from "../config/setting.ts";
import { watchSignals } from "../daemon/stop-signal.ts";
import { isWellFormedWorkerToken } from "../domain/account/key.ts";
import { aliveDuring, systemClock } from "../domain/clock/clock.ts";
import { TYPE_NAME } from "../domain/lease/lease.ts";
import { DURATION, integerBetween } from "../domain/rule.ts";
import { createLogger } from "../log.ts";
import type { CommandWorkerPlan } from "../worker/command-worker.ts";
import { flag, flags, required, rest, textOf, toggle, type Given } from "./arguments.ts";
import { defineCommand } from "./command.ts";
import { daemonUrl, readCredential } from "./daemon-access.ts";
import { EXIT, UsageError, fail } from "./failure.ts";

const CONCURRENCY = integerBetween(1, 100);

const args = {
  url: flag(textOf("URL"), "Base URL of the daemon"),
  token: flag(
    textOf("TOKEN"),
    "Worker's token; better in POSTBACKD_TOKEN or the file POSTBACKD_TOKEN_FILE names",
  ),
  type: required(flags(TYPE_NAME, "Type whose tasks it claims; at least one, may be repeated")),
  concurrency: flag(CONCURRENCY, "Concurrent tasks, 1 to 100", { standard: "1" }),
  timeout: flag(DURATION, "Longest run; the type's timeout also applies"),
  "insecure-http": toggle("Allow plain HTTP beyond loopback: the token and tasks are readable"),
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
    "stderr. SIGTERM and SIGINT stop it: runs have 25 seconds to end, then their tasks are given back.",
  args,
  async run(given) {
    const plan = readPlan(given, process.env);
    await work(plan, given);
  },
});

/** The plan from the command line and the environment, checked. It reads no file except the token's. */
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
    "copy the complete token, or create one with 'postbackd admin worker create'",
} as const;

type WorkerPlan = Omit<CommandWorkerPlan, "cwd" | "resultBytesMax">;

const GRACE_MS = 25_000;
// The grace, then the time from SIGTERM to SIGKILL for the commands, then the last messages to the daemon.
const STOP_MS_MAX = GRACE_MS + 11_000;

/** Works until a signal stops it, then ends the process with 0. Fails if the daemon refuses the worker. */
async function work(plan: WorkerPlan, { json: isJson }: { readonly json: boolean }): Promise<void> {
  const format = process.stderr.isTTY && !isJson ? "text" : "json";
  const log = createLogger({ level: "info", format });
  const stop = new AbortController();
  const signals = watchSignals({ log, reload: null, stopMsMax: STOP_MS_MAX });
  void signals.asked.then(() => stop.abort());
  const all = { ...plan, cwd: process.cwd(), resultBytesMax: defaultResultBytes() };
  const { workWithCommand } = await import("../worker/command-worker.ts");
  const end = await aliveDuring(() =>
    workWithCommand(all, {
      clock: systemClock,
      log,
      stop: stop.signal,
      graceMs: GRACE_MS,
      onReady: () => announce(plan),
    }),
  );
  if (end.kind === "refused") fail(end.reason);
  log.info({}, "stopped");
  process.exit(EXIT.done);
}

function announce({ url, types, concurrency }: WorkerPlan): void {
  const ready = { event: "ready", url: url.href, types, concurrency, pid: process.pid, version };
  process.stdout.write(`${JSON.stringify(ready)}\n`);
}

/** A worker cannot know the daemon's own limit. */
function defaultResultBytes(): number {
  const { rule, default: standard } = SETTINGS.limits.resultBytes;
  const parsed = rule.parse(standard, "");
  if (parsed.kind === "value") return parsed.value;
  throw new Error(`the default of limits.result ${parsed.reason}`);
}
