import { hashKey } from "../domain/account/key.ts";
import { createCommandRunner, type CommandRunnerOptions } from "../run/command.ts";
import { endOrphans, pidNamespace } from "../run/processes.ts";
import { commandEnvironment, commandProblem } from "../run/program.ts";
import type { Pool } from "./held-run.ts";
import { openWorker, type OpenWorkerOptions, type WorkerEnd } from "./worker.ts";

/** Its timeout is Infinity if only the type's own applies, which the daemon enforces. */
export interface CommandWorkerPlan
  extends
    Pick<OpenWorkerOptions, "url" | "token">,
    Pick<Pool, "types">,
    Omit<CommandRunnerOptions, "env" | "owner" | "clock"> {}

export interface CommandWorkerParts extends Pick<OpenWorkerOptions, "clock" | "log" | "onReady"> {
  /** Aborted when the worker is to stop. */
  readonly stop: AbortSignal;
  /** How long runs then have to end by themselves. */
  readonly graceMs: number;
}

/**
 * Claims tasks and runs a command for each, as the daemon's own command runner does, until it is stopped or the
 * daemon refuses it. Reports a command that cannot be started before it claims any task. Ends what an earlier worker
 * with the same token left running when it was killed. Settles when nothing is left running.
 */
export async function workWithCommand(
  plan: CommandWorkerPlan,
  { clock, log, onReady, stop, graceMs }: CommandWorkerParts,
): Promise<WorkerEnd> {
  const { url, token, types, command, cwd } = plan;
  const place = { cwd, env: commandEnvironment(process.env, {}) };
  const problem = await commandProblem(command, place);
  if (problem !== null) return { kind: "refused", reason: problem };
  // Two workers that share a token have the same owner: neither ends the other's commands while the other lives. Pids
  // in another container are counted separately, so it is unknown whether a worker there lives.
  const owner = `worker-${hashKey(token).slice(0, 16)}-${pidNamespace()}`;
  const { ended } = await endOrphans({ owner });
  if (ended > 0)
    log.warn({ processes: ended }, "ended processes that a killed worker had left running");
  const runner = createCommandRunner({ ...plan, env: {}, owner, clock });
  const worker = openWorker({ url, token, pools: [{ types, runner }], clock, log, onReady });
  // A strong listener: one that only the worker's own closures hold would be collected with them.
  const end = (): void => worker.stop({ graceMs });
  if (stop.aborted) end();
  stop.addEventListener("abort", end, { once: true });
  try {
    return await worker.work();
  } finally {
    stop.removeEventListener("abort", end);
  }
}
