import { version } from "../assets.ts";
import { SETTINGS } from "../config/setting.ts";
import { watchSignals } from "../daemon/stop-signal.ts";
import { aliveDuring } from "../domain/clock/alive.ts";
import { systemClock } from "../domain/clock/clock.ts";
import { createLogger } from "../log.ts";
import { workWithCommand, type CommandWorkerPlan } from "../worker/command-worker.ts";
import { CommandFailure, EXIT } from "./failure.ts";

export type WorkerPlan = Omit<CommandWorkerPlan, "cwd" | "resultBytesMax">;

const GRACE_MS = 25_000;
// The grace, then the time from SIGTERM to SIGKILL for the commands, then the last messages to the daemon.
const STOP_MS_MAX = GRACE_MS + 11_000;

/**
 * Works until a signal asks it to stop, then ends the process with 0. Throws a {@link CommandFailure} when the daemon
 * refuses the worker or the command does not exist.
 */
export async function work(
  plan: WorkerPlan,
  { json: isJson }: { readonly json: boolean },
): Promise<void> {
  const format = process.stderr.isTTY && !isJson ? "text" : "json";
  const log = createLogger({ level: "info", format });
  const stop = new AbortController();
  const signals = watchSignals({ log, reload: null, stopMsMax: STOP_MS_MAX });
  void signals.asked.then(() => stop.abort());
  const all = { ...plan, cwd: process.cwd(), resultBytesMax: defaultResultBytes() };
  const end = await aliveDuring(() =>
    workWithCommand(all, {
      clock: systemClock,
      log,
      stop: stop.signal,
      graceMs: GRACE_MS,
      onReady: () => announce(plan),
    }),
  );
  if (end.kind === "refused") throw new CommandFailure(end.reason);
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
