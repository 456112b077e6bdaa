import type { AnyTypes, TaskTypes } from "./domain/task/function.ts";
import type { DaemonSettings, EmbeddedDaemon } from "./embedded/options.ts";
import { nodeProblem } from "./node-version.ts";

/** The names that `import … from "postbackd"` gives. */
export { verifyPingback, verifyPostback } from "./verify.ts";
export type { RawBody, SignatureHeader, WebhookSecrets } from "./verify.ts";
export { createVirtualClock } from "./domain/clock/virtual-clock.ts";
export type { VirtualClock } from "./domain/clock/virtual-clock.ts";
export type { Clock, Timer } from "./domain/clock/clock.ts";
export type { LogFacts, Logger } from "./domain/log.ts";
export type {
  AnyTypes,
  FunctionContext,
  FunctionTask,
  TaskFunction,
  TaskType,
  TaskTypes,
  TypeName,
} from "./domain/task/function.ts";
export type { ConfigSettings } from "./embedded/config-settings.ts";
export type {
  DaemonAccount,
  DaemonSettings,
  EmbeddedDaemon,
  TypeLimitSettings,
  TypeSettings,
} from "./embedded/options.ts";

/**
 * Starts a daemon inside this program, whose functions its tasks may run. Needs Node 24 or newer. With types by name,
 * `createDaemon<{ resize: { input: I; result: R } }>(…)`, its functions take inputs and return results of them.
 *
 * Rejects with an Error that names every setting that is wrong; with an InstanceLockError when the database is served
 * already; with a DatabaseError or a ListenError when file or port cannot be had.
 */
export async function createDaemon<Types extends TaskTypes<Types> = AnyTypes>(
  settings: DaemonSettings<Types>,
): Promise<EmbeddedDaemon<Types>> {
  const problem = nodeProblem("createDaemon");
  if (problem !== null) throw new Error(problem);
  // Not before it is asked for: most who import this package only check signatures, some where there is no Node.
  const { startEmbeddedDaemon } = await import("./embedded/daemon.ts");
  return startEmbeddedDaemon(settings);
}
