import type { ArgsDef } from "citty";

import type { Config } from "../config/config.ts";
import { LOGIN } from "../domain/account/login.ts";
import { StoreError } from "../store/store.ts";
import type { Store } from "../store/store.ts";
import { textOf } from "./arguments.ts";
import type { Arguments } from "./arguments.ts";
import type { Command } from "./command.ts";
import { CommandFailure, UsageError } from "./failure.ts";
import { printAnswer } from "./print.ts";
import type { Answer } from "./print.ts";
import { loadOfflineConfig, settingArgs } from "./settings.ts";

/** What a command does with the store, once its arguments are known to be right. The configuration is the one at hand. */
export type AdminStep = (store: Store, config: Config) => Promise<Answer>;

/** A command that does one thing to the database and says what came of it. */
export interface AdminCommand extends Omit<Command, "subCommands" | "run"> {
  readonly args: ArgsDef;
  /** Flags of settings that it takes beside `--db` and `--config`. */
  readonly settings?: readonly string[];
  /** Makes the database file where there is none; all other commands refuse then. */
  readonly mayCreate?: true;
  /** Checks the arguments, before any file is looked at; throws a {@link UsageError}. */
  readonly plan: (args: Arguments) => AdminStep;
}

/** Defines a command of `admin`, with the flags that all of them take. */
export function defineAdminCommand(command: AdminCommand): Command {
  const { args: own, settings: flags = [], mayCreate = false, plan, ...about } = command;
  const json = { type: "boolean", description: "Print one JSON document" } as const;
  const args: ArgsDef = { ...own, ...settingArgs(["db", "config", ...flags]), json };
  return {
    ...about,
    args,
    async run(given) {
      const step = plan(given);
      // A flag of its own may have a setting's name: the --host of webhooks is not the one to listen on.
      const settings = new Map([...given].filter(([name]) => !Object.hasOwn(own, name)));
      const config = loadOfflineConfig(settings);
      printAnswer(given, await doWithStore(step, { config, mayCreate }));
    },
  };
}

/** The positional argument that names an account. */
export const LOGIN_ARG = {
  login: { type: "positional", description: "Login of the account" },
} as const satisfies ArgsDef;

/** The login that was given; throws a {@link UsageError} when it is none. */
export function loginOf(args: Arguments): string {
  return checkLogin(textOf(args, "login") ?? "");
}

/** The same of a text. */
export function checkLogin(login: string): string {
  const parsed = LOGIN.parse(login);
  if (parsed.kind === "value") return parsed.value;
  throw new UsageError(`a login ${parsed.reason}`);
}

/** For a login that is well-formed and unknown. */
export function noAccount(login: string): CommandFailure {
  return new CommandFailure(
    `there is no account ${login}; 'postbackd admin account list' shows all`,
  );
}

async function doWithStore(
  step: AdminStep,
  { config, mayCreate }: { readonly config: Config; readonly mayCreate: boolean },
): Promise<Answer> {
  const { DatabaseError, openAdminStore } = await import("../daemon/store.ts");
  try {
    const { store, isNew } = await openAdminStore(config, { mayCreate });
    try {
      const answer = await step(store, config);
      return isNew ? withNewFile(answer, config) : answer;
    } finally {
      await store.close();
    }
  } catch (error) {
    const isExpected = error instanceof DatabaseError || error instanceof StoreError;
    throw isExpected ? new CommandFailure(error.message, { cause: error }) : error;
  }
}

// Whoever meant another file, or wrote its name wrong, sees it here.
function withNewFile({ document, lines, ...answer }: Answer, { database }: Config): Answer {
  return {
    ...answer,
    document: { ...document, database_created: database },
    lines: [...lines, "", `There was no database: made ${database}.`],
  };
}
