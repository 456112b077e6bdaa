import type { ArgsDef } from "citty";

import { loadConfig, problemText, readFileText, SETTING_LIST } from "../config/config.ts";
import type { Config, ConfigVerdict, Setting } from "../config/config.ts";
import type { Arguments } from "./arguments.ts";
import { ConfigurationError } from "./failure.ts";

/** The flags of settings, for a command's definition: those that are named, or all there are. */
export function settingArgs(flags?: readonly string[]): ArgsDef {
  const args: ArgsDef = {};
  for (const setting of SETTING_LIST) {
    const { flag } = setting;
    if (flag === null || flags?.includes(flag) === false) continue;
    args[flag] = settingArg(setting);
  }
  return args;
}

/**
 * The configuration, from a command's flags, the environment and the file. Throws a
 * {@link ConfigurationError} with all that is wrong.
 */
export function loadCommandConfig(args: Arguments): Config {
  return configOf(judgeCommandConfig(args));
}

/** The same as it stands, problems and all, for a command that is about them. */
export function judgeCommandConfig(args: Arguments): ConfigVerdict {
  return judge(givenFlags(args));
}

/**
 * The same for a command that opens no port. The rule about plain HTTP is for `start` alone, which may
 * have been given `--insecure-http` where this command was not.
 */
export function loadOfflineConfig(args: Arguments): Config {
  return configOf(judge({ ...givenFlags(args), "insecure-http": true }));
}

function judge(flags: Readonly<Record<string, unknown>>): ConfigVerdict {
  return loadConfig({
    flags,
    env: process.env,
    cwd: process.cwd(),
    readFile: readFileText,
    isTerminal: process.stderr.isTTY,
  });
}

function configOf(verdict: ConfigVerdict): Config {
  if (verdict.kind === "config") return verdict.config;
  throw new ConfigurationError(verdict.problems.map(problemText));
}

function givenFlags(args: Arguments): Readonly<Record<string, unknown>> {
  const names = SETTING_LIST.flatMap(({ flag }) => flag ?? []);
  return Object.fromEntries(names.map((name) => [name, args.get(name)]));
}

function settingArg({
  rule: { form, hint: valueHint },
  default: standard,
  flagDescription: description,
}: Setting): ArgsDef[string] {
  if (form === "boolean") return { type: "boolean", description };
  const hint = { type: "string" as const, valueHint };
  if (form === "list") return { ...hint, description: `${description}; may be repeated` };
  if (standard === null) return { ...hint, description };
  return { ...hint, description, default: String(standard) };
}
