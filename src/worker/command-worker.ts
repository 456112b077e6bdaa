import { hashKey } from "../domain/account/key.ts";
import { createServiceClient } from "../net/service-client.ts";
import { createCommandRunner, type CommandRunnerOptions } from "../runners/command/command.ts";
import { endOrphans } from "../runners/command/orphan.ts";
import { pidNamespace } from "../runners/command/process-table.ts";
import { commandEnvironment, commandProblem } from "../runners/command/program.ts";
import { Link, type LinkOptions } from "./link.ts";
import { Worker, type WorkerEnd, type WorkerDeps } from "./worker.ts";

/**
 * Everything that defines a worker. Its timeout is Infinity where only the type's own counts, which the daemon keeps.
 */
export interface CommandWorkerPlan
  extends
    Pick<LinkOptions, "url" | "token">,
    Pick<WorkerDeps, "types">,
    Omit<CommandRunnerOptions, "env" | "owner" | "clock"> {}

export interface CommandWorkerParts extends Pick<WorkerDeps, "clock" | "log" | "onReady"> {
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
  // in another container are counted separately, so nobody could tell whether a worker there lives.
  const owner = `worker-${hashKey(token).slice(0, 16)}-${pidNamespace()}`;
  const { ended } = await endOrphans({ owner });
  if (ended > 0)
    log.warn({ processes: ended }, "ended processes that a killed worker had left running");
  // A claim that waits, a heartbeat and a report may be under way at once.
  const client = createServiceClient({ socketsMax: 4 });
  try {
    const link = new Link({ client, url, token, clock, log });
    const runner = createCommandRunner({ ...plan, env: {}, owner, clock });
    return await new Worker({ link, types, runner, clock, log, onReady }).work({ stop, graceMs });
  } finally {
    client.close();
  }
}
