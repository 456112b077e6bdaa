import type { ArgsDef } from "citty";

import {
  ATTEMPT_OUTCOMES,
  DELIVERY_KINDS,
  DELIVERY_STATES,
  type DeliveryFilter,
  type DeliveryKind,
} from "../domain/delivery.ts";
import { HOST, parseHost } from "../domain/host-name.ts";
import { isId } from "../domain/id.ts";
import { DURATION, quote } from "../domain/rule.ts";
import { parseTime, timeText } from "../domain/time.ts";
import type { Store } from "../store/store.ts";
import { loginOf, noAccount } from "./admin-command.ts";
import { textOf } from "./arguments.ts";
import type { Arguments } from "./arguments.ts";
import { CommandFailure, UsageError } from "./failure.ts";

/** The flag that picks one of a task's two webhooks. */
export const KIND_ARG = {
  kind: { type: "string", valueHint: DELIVERY_KINDS.join("|"), description: "Only this one" },
} as const satisfies ArgsDef;

/** The flags that say which deliveries are meant. */
export const FILTER_ARGS = {
  ...KIND_ARG,
  host: { type: "string", valueHint: "HOST", description: "Host of the webhook's URL" },
  state: {
    type: "string",
    valueHint: DELIVERY_STATES.join("|"),
    description: "Where it stands; may be repeated",
  },
  outcome: {
    type: "string",
    valueHint: ATTEMPT_OUTCOMES.join("|"),
    description: "How its last attempt ended",
  },
  since: {
    type: "string",
    valueHint: "TIME",
    description: "Ended since: RFC 3339, or how long ago (2h, 1d)",
  },
  until: { type: "string", valueHint: "TIME", description: "Ended before: in the same forms" },
  account: { type: "string", valueHint: "LOGIN", description: "Account that posted the task" },
} as const satisfies ArgsDef;

/** Reads the flags of {@link FILTER_ARGS}, and `--task` where there is one. Throws a {@link UsageError}. */
export function filterOf(args: Arguments, now: number): DeliveryFilter {
  const since = timeOf(args, "since", now);
  const until = timeOf(args, "until", now);
  if (since !== null && until !== null && since >= until) {
    throw new UsageError(
      `--since (${timeText(since)}) has to lie before --until (${timeText(until)})`,
    );
  }
  const states = args.get("state")?.map((word) => oneOf(word, "state", DELIVERY_STATES)) ?? null;
  return {
    login: accountOf(args),
    taskId: taskOf(args),
    kind: kindOf(args),
    host: hostOf(args),
    states: states === null ? null : [...new Set(states)],
    outcome: wordOf(args, "outcome", ATTEMPT_OUTCOMES),
    since,
    until,
  };
}

/** The kind that was asked for; null for any. */
export function kindOf(args: Arguments): DeliveryKind | null {
  return wordOf(args, "kind", DELIVERY_KINDS);
}

/** A whole number of a flag, within both bounds; `standard` where it was not given. */
export function integerOf(
  args: Arguments,
  name: string,
  { min, max, standard }: { readonly min: number; readonly max: number; readonly standard: number },
): number {
  const text = textOf(args, name);
  if (text === undefined) return standard;
  const value = /^\d{1,16}$/.test(text) ? Number(text) : NaN;
  if (value >= min && value <= max) return value;
  throw new UsageError(`--${name} takes a whole number from ${min} to ${max}, not ${quote(text)}`);
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

function accountOf(args: Arguments): string | null {
  const login = textOf(args, "account");
  return login === undefined ? null : loginOf(new Map([["login", [login]]]));
}

function taskOf(args: Arguments): string | null {
  const id = textOf(args, "task");
  if (id === undefined || isId(id)) return id ?? null;
  throw new UsageError(`--task takes the id of a task, not ${quote(id)}`);
}

function wordOf<const Word extends string>(
  args: Arguments,
  name: string,
  words: readonly Word[],
): Word | null {
  const text = textOf(args, name);
  return text === undefined ? null : oneOf(text, name, words);
}

function oneOf<const Word extends string>(
  text: string,
  name: string,
  words: readonly Word[],
): Word {
  const word = words.find((known) => known === text);
  if (word !== undefined) return word;
  throw new UsageError(`--${name} takes one of ${words.join(", ")}, not ${quote(text)}`);
}

function timeOf(args: Arguments, name: "since" | "until", now: number): number | null {
  const text = textOf(args, name);
  if (text === undefined) return null;
  const timeMs = parseTime(text);
  if (timeMs !== null) return timeMs;
  const length = DURATION.parse(text);
  if (length.kind === "value") return now - length.value;
  throw new UsageError(
    `--${name} takes a time such as 2026-01-31T09:00:00Z, or how long ago it was, ` +
      `such as 30m, 2h or 1d, not ${quote(text)}`,
  );
}

function hostOf(args: Arguments): string | null {
  const text = textOf(args, "host");
  if (text === undefined) return null;
  const host = parseHost(text);
  if (host !== null) return host;
  throw new UsageError(`--host takes ${HOST.takes}, not ${quote(text)}`);
}
