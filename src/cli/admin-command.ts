import type { KeyContext } from "../admin/context.ts";
import type { Config } from "../config/config.ts";
import { LOGIN } from "../domain/account/login.ts";
import { systemClock } from "../domain/clock/clock.ts";
import { IdGenerator } from "../domain/id.ts";
import { integerBetween } from "../domain/rule.ts";
import { StoreError, type Store, type AccountState } from "../store/store.ts";
import { word, type ArgumentTable, type Given, flag } from "./arguments.ts";
import { defineCommand, type Command, type Definition } from "./command.ts";
import { CommandFailure } from "./failure.ts";
import { JSON_ARG, printAnswer, type Answer } from "./print.ts";
import { loadOfflineConfig, settingArgs } from "./settings.ts";
import { actAsOwner, byCommand } from "./user.ts";

/** The open store and the configuration, as the use cases in `admin/` take them. */
export interface AdminParts extends KeyContext<keyof Store> {
  readonly config: Config;
  /** The owner of the database, if root runs the command; else null. */
  readonly actsAs: string | null;
}

/** The command's work, once its arguments are known to be right. */
export type AdminStep = (parts: AdminParts) => Promise<Answer>;

/** A command that does one thing to the database and reports the result. */
type AdminCommand<Args extends ArgumentTable> = Omit<Definition<Args>, "args" | "run"> & {
  readonly args: Args;
  /** Flags of settings that it takes beside `--db` and `--config`. */
  readonly settings?: readonly string[];
  /** Makes the database file if there is none; all other commands refuse then. */
  readonly mayCreate?: true;
} & (
    | { readonly run: (given: Given<Args>, parts: AdminParts) => Promise<Answer> }
    /** Checks arguments that must fit together, before any file is looked at; throws a {@link UsageError}. */
    | { readonly plan: (given: Given<Args>, output: Given<typeof JSON_ARG>) => AdminStep }
  );

/** Defines a command of `admin`, with the flags that all of them take. */
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
      printAnswer(given, await doWithStore(step, { config, mayCreate }));
    },
  });
}

function pick<Args extends ArgumentTable>(given: Given<ArgumentTable>, args: Args): Given<Args> {
  const values = Object.keys(args).map((name) => [name, given[name]]);
  // Each value was read by the argument of its name.
  return Object.fromEntries(values) as Given<Args>;
}

const LISTED_MAX = 1000;
/** The number of rows of a list without `--limit`. */
export const LISTED = 50;
export const LIMIT_ARG = {
  limit: flag(integerBetween(1, LISTED_MAX), `How many at most; ${LISTED} unless given`),
};
/** The flags of a list that goes on at a cursor. */
export const PAGE_ARGS = {
  ...LIMIT_ARG,
  before: flag(
    { ...integerBetween(1, Number.MAX_SAFE_INTEGER), hint: "CURSOR" },
    "Where to go on: the cursor at the end of the list before",
  ),
};

/** The end of a list, as text and in its document; null if there are no more rows. */
export function pageEnd(next: number | null) {
  return {
    more: next === null ? [] : ["", `There are more; --before ${next} goes on with them.`],
    nextCursor: { next_cursor: next === null ? null : String(next) },
  };
}

export const LOGIN_ARG = { login: word(LOGIN, "Login of the account") };

/** For a login that is well-formed and unknown. */
export function noAccount(login: string): CommandFailure {
  return new CommandFailure(
    `there is no account ${login}; 'postbackd admin account list' shows all`,
  );
}

/** Returns what was found by the login of an account. Throws if that is null. */
export function ofAccount<Found>(login: string, found: Found | null): Found {
  if (found === null) throw noAccount(login);
  return found;
}

/** Finds the account of this login, or fails. */
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
  const { DatabaseError, databaseOf } = await import("../daemon/store.ts");
  try {
    const database = databaseOf(config);
    const actsAs = actAsOwner(database, config);
    const { store, isNew } = await database.openAdminStore({ mayCreate });
    try {
      const context = { store, now: systemClock.now(), audit: byCommand, ids: new IdGenerator() };
      const answer = await step({ ...context, config, actsAs });
      if (!isNew) return answer;
      // The operator may have meant another file, or misspelt its name: this shows it.
      return {
        ...answer,
        document: { ...answer.document, database_created: config.database },
        lines: [...answer.lines, "", `There was no database: made ${config.database}.`],
      };
    } finally {
      await store.close();
    }
  } catch (error) {
    const isExpected = error instanceof DatabaseError || error instanceof StoreError;
    throw isExpected ? new CommandFailure(error.message, { cause: error }) : error;
  }
}
