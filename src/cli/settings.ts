import {
  flagFault,
  loadConfig,
  problemText,
  readFileText,
  SETTING_LIST,
} from "../config/config.ts";
import type { Config, ConfigVerdict, Setting } from "../config/config.ts";
import { flags as repeated, textOf, toggle, type Argument } from "./arguments.ts";
import { ConfigurationError, UsageError } from "./failure.ts";

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
 * The configuration, from a command's flags, the environment and the file. Throws a {@link ConfigurationError} with
 * everything that is wrong.
 */
export function loadCommandConfig(given: GivenSettings): Config {
  const verdict = judgeCommandConfig(given);
  if (verdict.kind === "config") return verdict.config;
  throw new ConfigurationError(verdict.problems.map(problemText));
}

/** The same with its problems, for a command that is about them. */
export function judgeCommandConfig(given: GivenSettings): ConfigVerdict {
  const names = SETTING_LIST.flatMap(({ flag }) => flag ?? []);
  return loadConfig({
    flags: Object.fromEntries(names.map((name) => [name, given[name] ?? undefined])),
    env: process.env,
    cwd: process.cwd(),
    readFile: readFileText,
    isTerminal: process.stderr.isTTY,
  });
}

/**
 * The same for a command that opens no port. The rule about plain HTTP is for `start` alone, which may have been given
 * `--insecure-http` when this command was not.
 */
export function loadOfflineConfig(given: GivenSettings): Config {
  return loadCommandConfig({ ...given, "insecure-http": true });
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
