import type { KeyContext } from "../admin/context.ts";
import type { Config } from "../config/config.ts";
import { LOGIN } from "../domain/account/account.ts";
import { HOST } from "../domain/address/host-name.ts";
import { systemClock } from "../domain/clock/clock.ts";
import { INSTANT, instantSeenFrom, timeText } from "../domain/clock/time.ts";
import { IdGenerator, isId } from "../domain/id.ts";
import type { WorkProgress } from "../domain/log.ts";
import { integerBetween, oneOf } from "../domain/rule.ts";
import {
  ATTEMPT_OUTCOMES,
  DELIVERY_KINDS,
  DELIVERY_STATES,
  type DeliveryFilter,
} from "../domain/webhook/delivery.ts";
import type { AccountState, Store, TaskDeliveries } from "../store/store.ts";
import { type ArgumentTable, type Given, flag, flags, word } from "./arguments.ts";
import { type Command, type Definition, defineCommand } from "./command.ts";
import { UsageError, fail } from "./failure.ts";
import { type Answer, JSON_ARG, answer } from "./print.ts";
import { loadOfflineConfig, settingArgs } from "./settings.ts";
import { withProgress } from "./terminal.ts";
import { actAsOwner, byCommand } from "./user.ts";

/** The open store and the configuration, as the use cases in `admin/` take them. */
export interface AdminParts extends KeyContext<keyof Store> {
  readonly config: Config;
  /** The owner of the database, if root runs the command; else null. */
  readonly actsAs: string | null;
}

export type AdminStep = (parts: AdminParts) => Promise<Answer>;

type AdminCommand<Args extends ArgumentTable> = Omit<Definition<Args>, "args" | "run"> & {
  readonly args: Args;
  /** Flags of settings that it takes beside `--db` and `--config`. */
  readonly settings?: readonly string[];
  /** Creates the database file if it does not exist; all other commands refuse then. */
  readonly mayCreate?: true;
} & (
    | { readonly run: (given: Given<Args>, parts: AdminParts) => Promise<Answer> }
    /** Checks arguments that must fit together, before any file is looked at; throws a {@link UsageError}. */
    | { readonly plan: (given: Given<Args>, output: Given<typeof JSON_ARG>) => AdminStep }
  );

export function defineAdminCommand<const Args extends ArgumentTable>(
  command: AdminCommand<Args>,
): Command {
  const { args, settings: flags = [], mayCreate = false, ...about } = command;
  const settings = settingArgs(["db", "config", ...flags]);
  const all: ArgumentTable & typeof JSON_ARG = { ...args, ...settings, ...JSON_ARG };
  return defineCommand({
    ...about,
    args: all,
    async run(given) {
      // A flag of its own may have a setting's name: the --host of webhooks is not the one to listen on.
      const own = pick(given, args);
      const step: AdminStep =
        "plan" in command ? command.plan(own, given) : (parts) => command.run(own, parts);
      const config = loadOfflineConfig(pick(given, settings));
      return doWithStore(step, { config, mayCreate });
    },
  });
}

function pick<Args extends ArgumentTable>(given: Given<ArgumentTable>, args: Args): Given<Args> {
  const values = Object.keys(args).map((name) => [name, given[name]]);
  // Each value was read by the argument of its name.
  return Object.fromEntries(values) as Given<Args>;
}

const LISTED_MAX = 1000;
export const LISTED = 50;
export const LIMIT_ARG = {
  limit: flag(integerBetween(1, LISTED_MAX), `Maximum number of lines; ${LISTED} unless given`),
};
/** The flags of a list that goes on at a cursor. */
export const PAGE_ARGS = {
  ...LIMIT_ARG,
  before: flag(
    { ...integerBetween(1, Number.MAX_SAFE_INTEGER), hint: "CURSOR" },
    "Cursor at the end of the previous page",
  ),
};

/** The end of a list, as text and in its document; null if there are no more rows. */
export function pageEnd(next: number | null) {
  return {
    more: next === null ? [] : ["", `More exist; --before ${next} goes on with them.`],
    nextCursor: { next_cursor: next === null ? null : String(next) },
  };
}

export const LOGIN_ARG = { login: word(LOGIN, "Login of the account") };

/** Fails for a login that is well-formed and unknown. */
export function noAccount(login: string): never {
  fail(`account ${login} does not exist; 'postbackd admin account list' shows all`);
}

/** Returns what was found by the login of an account. Fails if that is null. */
export function ofAccount<Found>(login: string, found: Found | null): Found {
  return found ?? noAccount(login);
}

export async function accountNamed(
  login: string,
  store: Pick<Store, "findAccount">,
): Promise<AccountState> {
  return ofAccount(login, await store.findAccount(login));
}

async function doWithStore(
  step: AdminStep,
  { config, mayCreate }: { readonly config: Config; readonly mayCreate: boolean },
): Promise<Answer> {
  const { databaseOf } = await import("../ops/database-of.ts");
  const database = databaseOf(config);
  const actsAs = actAsOwner(database, config);
  const { store, isNew } = await database.openAdminStore({ mayCreate });
  try {
    const context = { store, now: systemClock.now(), audit: byCommand, ids: new IdGenerator() };
    const done = await step({ ...context, config, actsAs });
    if (!isNew) return done;
    // The operator may have meant another file, or misspelt its name: this shows it.
    return {
      ...done,
      document: { ...done.document, database_created: config.database },
      lines: [...done.lines, "", `Created the database ${config.database}.`],
    };
  } finally {
    await store.close();
  }
}

// A process runs one command, and loads this when the command begins.
const TIME = { ...instantSeenFrom(systemClock.now()), hint: INSTANT.hint };

export const KIND_ARG = { kind: flag(oneOf(DELIVERY_KINDS), "Only this one") };

export const FILTER_ARGS = {
  ...KIND_ARG,
  host: flag(HOST, "Host of the webhook's URL"),
  state: flags(oneOf(DELIVERY_STATES), "State; may be repeated"),
  outcome: flag(oneOf(ATTEMPT_OUTCOMES), "How its last attempt ended"),
  since: flag(TIME, "Ended since: RFC 3339, or how long ago (2h, 1d)"),
  until: flag(TIME, "Ended before: RFC 3339, or how long ago"),
  account: flag(LOGIN, "Account that posted the task"),
};

/** The filter from the flags in {@link FILTER_ARGS}, for any task. Throws a {@link UsageError}. */
export function filterOf(given: Given<typeof FILTER_ARGS>): DeliveryFilter {
  const { account: login, kind, host, state: states, outcome, since, until } = given;
  if (since !== null && until !== null && since >= until) {
    throw new UsageError(
      `--since (${timeText(since)}) must be before --until (${timeText(until)})`,
    );
  }
  const each = states === null ? null : [...new Set(states)];
  return { login, taskId: null, kind, host, states: each, outcome, since, until };
}

export async function checkAccount(store: Store, { login }: DeliveryFilter): Promise<void> {
  if (login !== null) ofAccount(login, await store.findSecrets(login));
}

/** Fails for a task id that is unknown or malformed. It does not repeat the given text, which may be anything. */
export function noTask(): never {
  fail(
    "no task has this id: it was erased retention_days after its end, or a restored backup does not have it. " +
      "Check the id and --db, or post the task again",
  );
}

export async function taskNamed(
  id: string,
  store: Pick<Store, "findTaskDeliveries">,
): Promise<TaskDeliveries> {
  return (isId(id) ? await store.findTaskDeliveries(id) : null) ?? noTask();
}

const PAUSE_MS_MIN = 5;

/** Runs steps until one returns false. A pause after each, as long as the step, leaves the file to the daemon. */
export async function bySteps(
  step: () => Promise<boolean>,
  progress: () => WorkProgress,
): Promise<void> {
  await withProgress(async (tell) => {
    for (;;) {
      const begunAt = performance.now();
      if (!(await step())) return;
      tell(progress());
      pause(Math.max(PAUSE_MS_MIN, performance.now() - begunAt));
    }
  });
}

// The process has nothing else to do, and timers of the clock would let it end.
function pause(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

/** Returns the space of erased data to the file system and empties the `-wal`, which still holds that data. */
export async function giveRoomBack(store: Store, config: Config): Promise<Answer> {
  let steps = 0;
  await bySteps(
    async () => (await store.reclaimSpace()) === "more",
    () => ({ part: "steps of reclaiming disk space", done: ++steps, of: null }),
  );
  const { databaseOf } = await import("../ops/database-of.ts");
  const isEmpty = databaseOf(config).clearWal();
  return answer({ wal_emptied: isEmpty }, ...(isEmpty ? [] : [WAL_HOLDS]));
}

const WAL_HOLDS =
  "The -wal next to the database still has parts of it, because another process reads it: later writes remove them.";
