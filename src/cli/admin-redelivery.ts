import {
  filterText,
  orderRecord,
  placeOrder,
  stateOf,
  withScheduled,
  orderObstacles,
} from "../admin/delivery.ts";
import type { Config } from "../config/config.ts";
import { systemClock } from "../domain/clock/clock.ts";
import { durationText } from "../domain/clock/duration.ts";
import { timeOrNull } from "../domain/clock/time.ts";
import { isId } from "../domain/id.ts";
import { integerBetween } from "../domain/rule.ts";
import { printable } from "../domain/text.ts";
import {
  COMMAND_LINE_READER,
  explainDelivery,
  explainNoDelivery,
} from "../domain/webhook/delivery-explanation.ts";
import {
  type DeliveryFilter,
  type DeliveryKind,
  type DeliveryState,
  UNDELIVERED_STATES,
} from "../domain/webhook/delivery.ts";
import type { DeliveryCount, RedeliveryOrder, Store, TaskDeliveries } from "../store/store.ts";
import {
  type AdminParts,
  FILTER_ARGS,
  checkAccount,
  defineAdminCommand,
  filterOf,
  taskNamed,
} from "./admin-command.ts";
import { type Given, TEXT, flag, optionalWord, toggle, word } from "./arguments.ts";
import { UsageError, fail } from "./failure.ts";
import { type Answer, answer, cellText, listAnswer, printError, tableLines } from "./print.ts";
import { withProgress } from "./terminal.ts";

const NAME = "postbackd admin delivery";
const RATE_MAX = 1000;
const RATE_STANDARD = 20;
const RATE = integerBetween(1, RATE_MAX);
const ORDERS_LISTED_MAX = 100;
const HOSTS_LISTED_MAX = 50;

const ENDED: readonly DeliveryState[] = ["delivered", ...UNDELIVERED_STATES];

export const redeliverCommand = defineAdminCommand({
  description: "Send the webhooks of a task again, or all webhooks that match a filter",
  example: `${NAME} redeliver --host hooks.example.com --since 2h --dry-run`,
  notes:
    "A filter without --state and --outcome selects deliveries that were given up or refused, not delivered\n" +
    "ones; for those, add --state delivered. A named task's webhooks are sent again however they ended.\n" +
    "A delivery that has ended starts again with its first attempt. A scheduled webhook of a named task becomes\n" +
    "due now; an attempt in flight continues. Receivers recognise repeats by webhook-id.",
  args: {
    task_id: optionalWord(TEXT, "Id of a task; else give a filter"),
    ...FILTER_ARGS,
    state: { ...FILTER_ARGS.state, valueHint: ENDED.join("|") },
    rate: flag(RATE, `Webhooks per second, 1 to ${RATE_MAX}; ${RATE_STANDARD} unless given`),
    "dry-run": toggle("Only count the webhooks"),
    wait: toggle("Wait until all webhooks have started; exit code 1 if the order is cancelled"),
  },
  plan({ task_id: taskId, rate, "dry-run": isDry, wait: mustWait, ...filter }) {
    const meant = meantBy(taskId, filter);
    const perSecond = rate ?? RATE_STANDARD;
    return async (parts) => {
      const { store, now } = parts;
      const found = taskId === null ? null : await taskNamed(taskId, store);
      await checkAccount(store, meant);
      const ended = await store.countEndedDeliveries(meant);
      const count = found === null ? ended : withScheduled(ended, found, meant);
      const { deliveries, hosts } = count;
      const none = { order: null, deliveries, hosts, per_second: perSecond };
      if (isDry) return answer(none, ...dryRunLines(count, perSecond));
      if (deliveries > 0) {
        const placed = await placeOrder({ filter: meant, perSecond }, deliveries, parts);
        return mustWait
          ? endedAnswer(placed, { ...count, found }, parts)
          : placedAnswer(placed, count);
      }
      if (found !== null) nothingOf(found, { kind: meant.kind, now });
      return answer(none, "No ended delivery matches the filter; nothing is sent again.");
    };
  },
});

export const ordersCommand = defineAdminCommand({
  description: "List the orders to send webhooks again, newest first, with their progress",
  example: `${NAME} orders --json`,
  notes: "The daemon processes orders concurrently, each at its own rate.",
  args: {},
  async run(_given, { store }) {
    const found = await store.listRedeliveryOrders({ login: null, limit: ORDERS_LISTED_MAX + 1 });
    const orders = found.slice(0, ORDERS_LISTED_MAX);
    const hasMore = found.length > orders.length;
    const rows = orders.map((each) => ({ ...orderRecord(each), filter: filterText(each.filter) }));
    const more = ["", `More exist; only the newest ${ORDERS_LISTED_MAX} are shown.`];
    const document = { orders: orders.map(orderRecord), has_more: hasMore };
    return listAnswer(document, rows, { none: NO_ORDER, end: hasMore ? more : [] });
  },
});

export const cancelCommand = defineAdminCommand({
  description: "Cancel an order to send webhooks again",
  example: `${NAME} cancel 01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6`,
  notes: "Deliveries that it has started continue.",
  args: { order_id: word(TEXT, "Id of the order, from 'delivery orders'") },
  async run({ order_id: id }, { store, now }) {
    const order =
      (isId(id) ? await store.cancelRedeliveryOrder({ id, login: null, now }) : null) ??
      fail(`no order has this id; '${NAME} orders' shows all`);
    const sent = `${deliveriesText(order.redelivered)} sent again`;
    const ended = cellText(timeOrNull(order.endedAt));
    if (!order.isCancelled) fail(`order ${id} was done at ${ended}, with ${sent}`);
    return answer({ order: orderRecord(order) }, `Order ${id} is cancelled, with ${sent} before.`);
  },
});

function meantBy(taskId: string | null, filter: Given<typeof FILTER_ARGS>): DeliveryFilter {
  const given = filterOf(filter);
  if (taskId === null && Object.values(filter).every((value) => value === null)) {
    throw new UsageError(
      "give the id of a task or a filter, such as --host HOST, --since 2h or --account LOGIN; " +
        "--state given_up selects all that were given up",
    );
  }
  const open = given.states?.find((state) => !ENDED.includes(state));
  if (open !== undefined) {
    throw new UsageError(
      `--state takes one of ${ENDED.join(", ")} here: what is ${open} goes out anyway`,
    );
  }
  const isPlain = taskId === null && given.states === null && given.outcome === null;
  return { ...given, taskId, states: isPlain ? UNDELIVERED_STATES : given.states };
}

function dryRunLines(count: DeliveryCount, perSecond: number): readonly string[] {
  const { deliveries } = count;
  const many = `${deliveriesText(deliveries)} would be sent again${rateText(deliveries, perSecond)}`;
  return [`${many}. Nothing was done.`, ...(deliveries === 0 ? [] : ["", ...hostLines(count)])];
}

interface Ordered extends DeliveryCount {
  /** The task that the order names; null for a filter. */
  readonly found: TaskDeliveries | null;
}

async function endedAnswer(
  placed: RedeliveryOrder,
  count: Ordered,
  parts: Pick<AdminParts, "store" | "config">,
): Promise<Answer> {
  const order = await waitForOrder(placed, count, parts);
  const { id, redelivered, perSecond } = order;
  const { deliveries, hosts } = count;
  const state = `${id} is ${stateOf(order)}, with ${deliveriesText(redelivered)} sent again`;
  if (order.isCancelled) fail(`order ${state}`);
  const document = { order: orderRecord(order), deliveries, hosts, per_second: perSecond };
  return answer(document, `Order ${state}.`);
}

function placedAnswer(order: RedeliveryOrder, { deliveries, hosts }: DeliveryCount): Answer {
  const { id, perSecond } = order;
  return answer(
    { order: orderRecord(order), deliveries, hosts, per_second: perSecond },
    `Order ${id}: ${deliveriesText(deliveries)} to send again${rateText(deliveries, perSecond)}.`,
    "A running daemon begins within a second, otherwise at its next start.",
    `'${NAME} orders' shows how far it is, '${NAME} cancel ${id}' ends it.`,
  );
}

function nothingOf(
  found: TaskDeliveries,
  { kind, now }: { readonly kind: DeliveryKind | null; readonly now: number },
): never {
  const { task, deliveries } = found;
  const meant = deliveries.filter((each) => kind === null || each.kind === kind);
  const reader = COMMAND_LINE_READER;
  const circumstances = { now, reader, account: found, pause: null };
  const explanations = meant.map(
    (each) => `the ${each.kind} is ${explainDelivery(each, circumstances)}`,
  );
  const why =
    explanations.length === 0
      ? explainNoDelivery(task, { kind, reader, account: found })
      : explanations.join("; ");
  fail(printable(`nothing to redeliver: ${why}`));
}

function deliveriesText(count: number): string {
  return count === 1 ? "1 delivery" : `${count} deliveries`;
}

function rateText(count: number, perSecond: number): string {
  if (count <= perSecond) return "";
  return `, ${perSecond} a second, in about ${durationText((count / perSecond) * 1000)}`;
}

function hostLines({ hosts, deliveries }: DeliveryCount): readonly string[] {
  const shown = hosts.slice(0, HOSTS_LISTED_MAX);
  const left = shown.reduce((sum, host) => sum - host.deliveries, deliveries);
  const more = left === 0 ? [] : [`and ${deliveriesText(left)} to other hosts`];
  return [...tableLines(shown, ["host", "deliveries"]), ...more];
}

const NO_ORDER = `No order exists yet; '${NAME} redeliver' creates one.`;

const LOOK_MS = 500;

/** Waits until a daemon has finished an order. If the command is ended before, the order goes on. */
export async function waitForOrder(
  order: RedeliveryOrder,
  count: Ordered,
  { store, config }: Pick<AdminParts, "store" | "config">,
): Promise<RedeliveryOrder> {
  printError(`order ${order.id} placed; waiting for its end`);
  const obstacles = [
    await daemonObstacle(store, config),
    ...(await orderObstacles(order, count, store)),
  ];
  for (const obstacle of obstacles) if (obstacle !== null) printError(obstacle);
  return withProgress(async (tell) => {
    let done = -1;
    for (;;) {
      const now =
        (await store.findRedeliveryOrder(order.id)) ??
        fail(`order ${order.id} has been erased meanwhile`);
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
  const { findDaemonUrl } = await import("../ops/health.ts");
  if ((await findDaemonUrl(config, systemClock)) !== null) return null;
  return `no daemon of ${database} answers: the order begins when one serves it`;
}
