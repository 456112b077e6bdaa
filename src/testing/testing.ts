/// <reference lib="esnext.disposable" preserve="true" />
/**
 * A daemon for tests: the same engine, on a clock that the test advances, with receivers of its own. `startDaemon` needs
 * Node 24 or newer, `connectDaemon` fetch and nothing else.
 */
import type { AnyTypes, TaskTypes } from "../domain/task/function.ts";
import type { DevSettings } from "../embedded/options.ts";
import { nodeProblem } from "../node-version.ts";
import { testDaemon, type ConnectSettings, type TestDaemon } from "./daemon.ts";

export type { Client } from "../client/client.ts";
export type {
  AnyTypes,
  FunctionContext,
  FunctionTask,
  TaskFunction,
  TaskType,
  TaskTypes,
  TypeName,
} from "../domain/task/function.ts";
export type { ConfigSettings } from "../embedded/config-settings.ts";
export type { DevSettings, TypeLimitSettings, TypeSettings } from "../embedded/options.ts";
export type { Sample, SentSample, TestAccount } from "./account.ts";
export type {
  Advance,
  ClockMode,
  ClockState,
  ConnectSettings,
  DevEvent,
  Faults,
  ResultRule,
  RunEnd,
  Stage,
  TestClock,
  TestDaemon,
  WaitOptions,
} from "./daemon.ts";
export { checkReceiver, type ReceiverCheck, type StartedReceiver } from "./receiver-check.ts";
export type { Inbox, InboxAnswer, Message, MessageFilter, MessagesOptions } from "./inbox.ts";

/**
 * Starts a daemon in this program, on a file of its own that goes with it, at a free port. Without types there is one,
 * `echo`, whose result is its input. Webhooks may go to this machine and private networks.
 *
 * Rejects with an Error that names every setting that is wrong.
 */
export async function startDaemon<Types extends TaskTypes<Types> = AnyTypes>(
  settings: DevSettings<Types> = {},
): Promise<TestDaemon<Types>> {
  const problem = nodeProblem("startDaemon");
  if (problem !== null) {
    throw new Error(`${problem}: or start 'postbackd dev', and give its url to connectDaemon`);
  }
  // Not before it is asked for: with a daemon elsewhere nothing of it is needed.
  const { startDevDaemon } = await import("../embedded/daemon.ts");
  const { url, fetch, stop } = await startDevDaemon(settings);
  try {
    // It is there until it stops: what is asked then is not asked again.
    return await testDaemon<Types>({ url, fetch, retries: 0 }, stop);
  } catch (error) {
    await stop();
    throw error;
  }
}

/** The same for a `postbackd dev` that another program started, such as a container; waits half a minute for it. */
export function connectDaemon<Types extends TaskTypes<Types> = AnyTypes>(
  settings: ConnectSettings,
): Promise<TestDaemon<Types>> {
  return testDaemon<Types>(settings, () => Promise.resolve());
}
