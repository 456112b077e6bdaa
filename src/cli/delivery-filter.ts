import type { ArgsDef } from "citty";

import { LOGIN } from "../domain/account/login.ts";
import { HOST } from "../domain/address/host-name.ts";
import { INSTANT, instantSeenFrom, timeText } from "../domain/clock/time.ts";
import { oneOf } from "../domain/rule.ts";
import { TASK_ID } from "../domain/task/task.ts";
import {
  ATTEMPT_OUTCOMES,
  DELIVERY_KINDS,
  DELIVERY_STATES,
  type DeliveryFilter,
  type DeliveryKind,
} from "../domain/webhook/delivery.ts";
import type { Store } from "../store/store.ts";
import { noAccount } from "./admin-command.ts";
import { flag, valueOf, valuesOf } from "./arguments.ts";
import type { Arguments } from "./arguments.ts";
import { CommandFailure, UsageError } from "./failure.ts";

const KIND = oneOf(DELIVERY_KINDS);
const STATE = oneOf(DELIVERY_STATES);
const OUTCOME = oneOf(ATTEMPT_OUTCOMES);

/** The flag that picks one of a task's two webhooks. */
export const KIND_ARG = { kind: flag(KIND, "Only this one") };

/** The flags that say which deliveries are meant. */
export const FILTER_ARGS = {
  ...KIND_ARG,
  host: flag(HOST, "Host of the webhook's URL"),
  state: flag(STATE, "Where it stands; may be repeated"),
  outcome: flag(OUTCOME, "How its last attempt ended"),
  since: flag(INSTANT, "Ended since: RFC 3339, or how long ago (2h, 1d)"),
  until: flag(INSTANT, "Ended before: in the same forms"),
  account: flag(LOGIN, "Account that posted the task"),
} as const satisfies ArgsDef;

/** Reads the flags of {@link FILTER_ARGS}, and `--task` where there is one. Throws a {@link UsageError}. */
export function filterOf(args: Arguments, now: number): DeliveryFilter {
  const since = valueOf(args, "since", instantSeenFrom(now));
  const until = valueOf(args, "until", instantSeenFrom(now));
  if (since !== null && until !== null && since >= until) {
    throw new UsageError(
      `--since (${timeText(since)}) has to lie before --until (${timeText(until)})`,
    );
  }
  const states = valuesOf(args, "state", STATE);
  return {
    login: valueOf(args, "account", LOGIN),
    taskId: valueOf(args, "task", TASK_ID),
    kind: kindOf(args),
    host: valueOf(args, "host", HOST),
    states: states === null ? null : [...new Set(states)],
    outcome: valueOf(args, "outcome", OUTCOME),
    since,
    until,
  };
}

/** The kind that was asked for; null for any. */
export function kindOf(args: Arguments): DeliveryKind | null {
  return valueOf(args, "kind", KIND);
}

/** Fails where a filter names an account that there is not. */
export async function checkAccount(store: Store, { login }: DeliveryFilter): Promise<void> {
  if (login !== null && (await store.findSecrets(login)) === null) throw noAccount(login);
}

/** For a task id that is unknown, or none at all: what was given is not repeated, for it may be anything. */
export function noTask(): CommandFailure {
  return new CommandFailure(
    "there is no task with this id; tasks are erased when they ended retention_days ago",
  );
}

/** A filter as the flags that would make it; empty for all there is. */
export function filterText(filter: DeliveryFilter): string {
  const { login, taskId, kind, host, states, outcome, since, until } = filter;
  const flags: readonly (readonly [flag: string, value: string | null])[] = [
    ["task", taskId],
    ["kind", kind],
    ["host", host],
    ...(states ?? []).map((state) => ["state", state] as const),
    ["outcome", outcome],
    ["since", since === null ? null : timeText(since)],
    ["until", until === null ? null : timeText(until)],
    ["account", login],
  ];
  return flags.flatMap(([flag, value]) => (value === null ? [] : `--${flag} ${value}`)).join(" ");
}
