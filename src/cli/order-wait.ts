import type { Config } from "../config/config.ts";
import { systemClock } from "../domain/clock/clock.ts";
import { pauseOf, scopeText } from "../domain/webhook/delivery-pause.ts";
import type { DeliveryCount, RedeliveryOrder, Store } from "../store/store.ts";
import type { AdminParts } from "./admin-command.ts";
import { CommandFailure } from "./failure.ts";
import { printError } from "./print.ts";
import { withProgress } from "./terminal.ts";

const LOOK_MS = 500;

/**
 * Waits for the end of an order, in whichever process. Tells on stderr that it waits, and once what may keep the order
 * back. Who ends the command ends the waiting alone.
 */
export async function waitForOrder(
  order: RedeliveryOrder,
  count: DeliveryCount,
  { store, config }: Pick<AdminParts, "store" | "config">,
): Promise<RedeliveryOrder> {
  printError(`order ${order.id} placed; waiting for its end`);
  const obstacles = [
    await daemonObstacle(store, config),
    await accountObstacle(order, store),
    ...(await pauseObstacles(order, count, store)),
  ];
  for (const obstacle of obstacles) if (obstacle !== null) printError(obstacle);
  return withProgress(async (tell) => {
    let done = -1;
    for (;;) {
      const now = await store.findRedeliveryOrder(order.id);
      if (now === null) throw new CommandFailure(`order ${order.id} has been erased meanwhile`);
      const { redelivered } = now;
      if (redelivered !== done)
        tell({ part: "webhooks begun", done: redelivered, of: count.deliveries });
      if (now.endedAt !== null) return now;
      done = redelivered;
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  });
}

async function daemonObstacle(store: Store, config: Config): Promise<string | null> {
  const { server, database } = config;
  if (server !== null) {
    const isServed = (await store.listNodes()).some(({ endedAt }) => endedAt === null);
    return isServed ? null : `no daemon serves ${database}: the order begins when one does`;
  }
  // Loaded here, because the help needs none of it.
  const { findDaemonUrl } = await import("../daemon/health.ts");
  if ((await findDaemonUrl(config, systemClock)) !== null) return null;
  return `no daemon of ${database} answers: the order begins when one serves it`;
}

/** An order of a disabled account rests. */
async function accountObstacle(
  { filter: { login } }: RedeliveryOrder,
  store: Store,
): Promise<string | null> {
  if (login === null) return null;
  const account = await store.findAccount(login);
  if (account === null || account.disabledAt === null) return null;
  return `${login} is disabled: the order rests until 'postbackd admin account enable ${login}'`;
}

async function pauseObstacles(
  { filter }: RedeliveryOrder,
  { hosts }: DeliveryCount,
  store: Store,
): Promise<readonly string[]> {
  const pauses = await store.listDeliveryPauses();
  const covering = pauses.filter((pause) => {
    // Without an account in the filter some of the deliveries may be of the account of a pause.
    const login = filter.login ?? pause.login ?? "";
    return hosts.some(({ host }) => pauseOf([pause], { login, host }) !== null);
  });
  return covering.map(
    (pause) => `paused: ${scopeText(pause)}; what the order begins of these waits for the resume`,
  );
}
