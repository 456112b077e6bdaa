import { LOGIN } from "../domain/account/login.ts";
import { HOST } from "../domain/address/host-name.ts";
import { systemClock } from "../domain/clock/clock.ts";
import { INSTANT, instantSeenFrom, timeText } from "../domain/clock/time.ts";
import { isId } from "../domain/id.ts";
import { oneOf } from "../domain/rule.ts";
import {
  ATTEMPT_OUTCOMES,
  DELIVERY_KINDS,
  DELIVERY_STATES,
  type DeliveryFilter,
} from "../domain/webhook/delivery.ts";
import type { Store, TaskDeliveries } from "../store/store.ts";
import { noAccount } from "./admin-command.ts";
import { flag, flags, type Given } from "./arguments.ts";
import { CommandFailure, UsageError } from "./failure.ts";

// A process runs one command, and loads this when the command begins.
const TIME = { ...instantSeenFrom(systemClock.now()), hint: INSTANT.hint };

/** The flag that picks one of a task's two webhooks. */
export const KIND_ARG = { kind: flag(oneOf(DELIVERY_KINDS), "Only this one") };

export const FILTER_ARGS = {
  ...KIND_ARG,
  host: flag(HOST, "Host of the webhook's URL"),
  state: flags(oneOf(DELIVERY_STATES), "Where it stands; may be repeated"),
  outcome: flag(oneOf(ATTEMPT_OUTCOMES), "How its last attempt ended"),
  since: flag(TIME, "Ended since: RFC 3339, or how long ago (2h, 1d)"),
  until: flag(TIME, "Ended before: in the same forms"),
  account: flag(LOGIN, "Account that posted the task"),
};

/** The filter from the flags in {@link FILTER_ARGS}, for any task. Throws a {@link UsageError}. */
export function filterOf(given: Given<typeof FILTER_ARGS>): DeliveryFilter {
  const { account: login, kind, host, state: states, outcome, since, until } = given;
  if (since !== null && until !== null && since >= until) {
    throw new UsageError(
      `--since (${timeText(since)}) has to lie before --until (${timeText(until)})`,
    );
  }
  const each = states === null ? null : [...new Set(states)];
  return { login, taskId: null, kind, host, states: each, outcome, since, until };
}

/** Fails when a filter names an account that does not exist. */
export async function checkAccount(store: Store, { login }: DeliveryFilter): Promise<void> {
  if (login !== null && (await store.findSecrets(login)) === null) throw noAccount(login);
}

/** For a task id that is unknown or malformed: the given text is not repeated, because it may be anything. */
export function noTask(): CommandFailure {
  return new CommandFailure(
    "there is no task with this id; tasks are erased when they ended retention_days ago",
  );
}

/** Finds a task and its deliveries, or fails. */
export async function taskNamed(
  id: string,
  store: Pick<Store, "findTaskDeliveries">,
): Promise<TaskDeliveries> {
  const found = isId(id) ? await store.findTaskDeliveries(id) : null;
  if (found === null) throw noTask();
  return found;
}
