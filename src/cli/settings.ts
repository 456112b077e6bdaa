import { existsSync, statSync } from "node:fs";
import { resolve } from "node:path";

import {
  flagFault,
  loadConfig,
  problemText,
  readFileText,
  SETTING_LIST,
} from "../config/config.ts";
import type { Config, ConfigVerdict, Setting } from "../config/config.ts";
import { SERVICE_CONFIG_FILE } from "../config/setting.ts";
import { flags as repeated, textOf, toggle, type Argument } from "./arguments.ts";
import { ConfigurationError, UsageError } from "./failure.ts";
import { printError } from "./print.ts";

/** The values of settings' flags, as they were written. The configuration reports what is wrong with them. */
type GivenSettings = Readonly<Record<string, unknown>>;

/** The flags of settings, for a command's definition: those that are named, or all of them. */
export function settingArgs(flags?: readonly string[]): Readonly<Record<string, Argument<Texts>>> {
  const args: Record<string, Argument<Texts>> = {};
  for (const setting of SETTING_LIST) {
    const { flag } = setting;
    if (flag === null || flags?.includes(flag) === false) continue;
    args[flag] = settingArg(setting);
  }
  return args;
}

type Texts = readonly string[] | null;

/**
 * Reads the configuration of a command that serves, from its flags, the environment and the file. It never reads the file
 * of this machine's service: a daemon that is started by hand would serve the service's database as another user.
 */
export function judgeServingConfig(given: GivenSettings): ConfigVerdict {
  return judge(given, null);
}

/**
 * Reads the configuration of a command that looks after a daemon. In a folder with neither a configuration nor a database
 * it reads the file of this machine's service, unless a setting names one of the two.
 */
export function judgeCommandConfig(given: GivenSettings): ConfigVerdict {
  if (!isService()) return judge(given, null);
  const own = FOLDER_FILES.find((name) => existsSync(resolve(name)));
  if (own === undefined) return judge(given, SERVICE_CONFIG_FILE);
  const verdict = judge(given, null);
  const { sources } = verdict.kind === "config" ? verdict.config : verdict.draft;
  const isNamed = ["config", "database"].some((key) =>
    /^(?:flag|environment) /.test(sources.get(key) ?? ""),
  );
  // The operator may have meant the service: a database may lie here since a mistake.
  if (!isNamed) {
    printError(
      `using ./${own}, which is in this folder, and not this machine's service; for that: --config ${SERVICE_CONFIG_FILE}`,
    );
  }
  return verdict;
}

/** The configuration that was read. Throws a {@link ConfigurationError} with everything that is wrong. */
export function configOf(verdict: ConfigVerdict): Config {
  if (verdict.kind === "config") return verdict.config;
  throw new ConfigurationError(verdict.problems.map(problemText));
}

/** The configuration of a command that opens no port: the rule about plain HTTP is for `start` alone. */
export function loadOfflineConfig(given: GivenSettings): Config {
  return configOf(judgeCommandConfig({ ...given, "insecure-http": true }));
}

/** Either of them makes a folder one in which `start` serves, or served, for itself. */
const FOLDER_FILES = ["postbackd.toml", "postbackd.db"];

/** True also if the folder cannot be read: a user without rights gets an error, and makes no database. */
function isService(): boolean {
  try {
    return statSync(SERVICE_CONFIG_FILE, { throwIfNoEntry: false }) !== undefined;
  } catch {
    return true;
  }
}

function judge(given: GivenSettings, serviceFile: string | null): ConfigVerdict {
  const names = SETTING_LIST.flatMap(({ flag }) => flag ?? []);
  return loadConfig({
    flags: Object.fromEntries(names.map((name) => [name, given[name] ?? undefined])),
    env: process.env,
    cwd: process.cwd(),
    readFile: readFileText,
    isTerminal: process.stderr.isTTY,
    serviceFile,
  });
}

function settingArg(setting: Setting): Argument<Texts> {
  const { form, hint } = setting.rule;
  const { default: standard, flagDescription: description } = setting;
  const texts = { ...repeated(textOf(hint), description), read: textsOf(setting) };
  if (form === "boolean") return { ...toggle(description), read: texts.read };
  if (form === "list") return { ...texts, description: `${description}; may be repeated` };
  return standard === null ? texts : { ...texts, standard: String(standard) };
}

/** A value that the flag cannot have is wrong usage of the command, wherever the others come from. */
function textsOf(setting: Setting): Argument<Texts>["read"] {
  return (texts, shown) => {
    for (const text of texts) {
      const reason = flagFault(setting, text, process.cwd());
      if (reason !== null) throw new UsageError(`${shown} ${reason}`);
    }
    return texts.length === 0 ? null : texts;
  };
}
