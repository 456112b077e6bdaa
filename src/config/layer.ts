import { resolve } from "node:path";

import { codeOf } from "../domain/error.ts";
import { quote, rawOf } from "../domain/rule.ts";
import { nearestName } from "../domain/text.ts";
import { type Setting, type SettingRule, envName } from "./setting-rule.ts";
import { SETTING_LIST } from "./setting.ts";

/** One fault; `message` is a sentence that says how to fix it. */
export interface ConfigProblem {
  /** The key that the problem is about, as in the file; the name as given when no such key exists. */
  readonly key: string;
  /** The place of the value: `flag --port`, `environment POSTBACKD_PORT`, `file …`, `default`. */
  readonly source: string;
  readonly message: string;
}

/** The findings so far: every problem, and each value that counts with its source. */
export interface Findings {
  readonly problems: ConfigProblem[];
  readonly sources: Map<string, string>;
  /** For showing: secrets are left out, see {@link shownValue} and `SettingRule.shown`. */
  readonly values: Map<string, unknown>;
  /** Reads the text of a value that counts again, from the file that its variable names. */
  readonly readAgain: Map<string, ReadAgain>;
}

type ReadAgain = () => string | null;

/** A value as it was given, before its check. Relative paths are relative to `folder`. */
export interface Given {
  readonly raw: unknown;
  readonly source: string;
  readonly folder: string;
  readonly readAgain?: ReadAgain;
}

export type Layer = ReadonlyMap<string, Given>;

/** The values on the command line. A flag that is `undefined` was not given. */
export function flagLayer(
  flags: Readonly<Record<string, unknown>>,
  place: { readonly cwd: string; readonly findings: Findings },
): Layer {
  const layer = new Map<string, Given>();
  for (const [name, value] of Object.entries(flags)) {
    if (value === undefined) continue;
    const source = `flag --${name}`;
    const setting = SETTING_LIST.find(({ flag }) => flag === name);
    if (setting === undefined) {
      const message = unknownNameMessage(`--${name}`, { what: "flag" });
      place.findings.problems.push({ key: name, source, message });
      continue;
    }
    layer.set(setting.key, { raw: flagRaw(setting, value), source, folder: place.cwd });
  }
  return layer;
}

/** Returns why a flag of the command line cannot have this value; null if it can. `cwd` is absolute. */
export function flagFault(setting: Setting, text: string, cwd: string): string | null {
  const parsed = setting.rule.parse(flagRaw(setting, text), cwd);
  return parsed.kind === "fault" ? parsed.reason : null;
}

// The variables that `postbackd worker` reads, and the variables of a command, which may call postbackd itself.
const OTHER_VARIABLES: ReadonlySet<string> = new Set([
  ...["POSTBACKD_TOKEN", "POSTBACKD_TOKEN_FILE", "POSTBACKD_RUN_OF", "POSTBACKD_TASK_ID"],
  "POSTBACKD_ADDON_FOLDER",
  "POSTBACKD_PROGRESS_FD",
]);

interface EnvPlace {
  readonly cwd: string;
  readonly findings: Findings;
  readonly readFile: (path: string) => string | null;
}

/**
 * The values in the environment. An empty variable counts as not set, because compose files leave such variables. A
 * setting that may be a secret is also read from the file that its variable with `_FILE` names, as of a mounted secret.
 */
export function envLayer(
  env: Readonly<Record<string, string | undefined>>,
  place: EnvPlace,
): Layer {
  const layer = new Map<string, Given>();
  for (const [name, text] of Object.entries(env)) {
    if (!name.startsWith("POSTBACKD_") || text === undefined || text === "") continue;
    if (OTHER_VARIABLES.has(name)) continue;
    const source = `environment ${name}`;
    const inFile = SETTING_LIST.find((known) => known.mayBeInFile && fileVariable(known) === name);
    if (inFile !== undefined) {
      const raw = textInFile(inFile, text, { ...place, env });
      const readAgain: ReadAgain = () => place.readFile(resolve(place.cwd, text))?.trim() ?? null;
      if (raw !== null) layer.set(inFile.key, { raw, source, folder: place.cwd, readAgain });
      continue;
    }
    const setting = SETTING_LIST.find((known) => known.env === name);
    if (setting === undefined || isServiceLink(text)) {
      place.findings.problems.push({ key: name, source, message: badVariableMessage(name, text) });
      continue;
    }
    layer.set(setting.key, { raw: rawOf(setting.rule, text), source, folder: place.cwd });
  }
  return layer;
}

function fileVariable({ env }: Setting): string {
  return `${env}_FILE`;
}

/** The text of the file that a variable names, without the line break at its end; null where that is a problem. */
function textInFile(
  setting: Setting,
  path: string,
  { cwd, env, readFile, findings }: EnvPlace & { readonly env: Parameters<typeof envLayer>[0] },
): string | null {
  const name = fileVariable(setting);
  const unusable = (message: string): null => {
    findings.problems.push({ key: setting.key, source: `environment ${name}`, message });
    return null;
  };
  // It is unclear which of the two was meant.
  if ((env[setting.env] ?? "") !== "") {
    return unusable(`${setting.env} is set too: remove one of the two`);
  }
  return secretInFile(resolve(cwd, path), { readFile, unusable });
}

/** The text of a secret's file without white space at its ends. `unusable` gets the reason if the file cannot be used. */
export function secretInFile(
  file: string,
  by: Pick<EnvPlace, "readFile"> & { readonly unusable: (reason: string) => null },
): string | null {
  try {
    return by.readFile(file)?.trim() ?? by.unusable(`file ${file} does not exist`);
  } catch (error) {
    return by.unusable(`${file} cannot be read (${codeOf(error) ?? "unknown error"})`);
  }
}

/** Takes a value and records its source. The default replaces a wrong value, so that later checks still run. */
export function takeValue<T>(
  rule: SettingRule<T>,
  at: {
    readonly key: string;
    readonly given: Given | undefined;
    readonly fallback: Given;
    readonly findings: Findings;
  },
): T {
  const { raw, source, folder } = at.given ?? at.fallback;
  at.findings.sources.set(at.key, source);
  const parsed = rule.parse(raw, folder);
  if (parsed.kind === "value") {
    const { value } = parsed;
    const shown = rule.shown === undefined ? shownValue(raw, value) : rule.shown(value);
    at.findings.values.set(at.key, shown);
    if (at.given?.readAgain !== undefined) at.findings.readAgain.set(at.key, at.given.readAgain);
    return value;
  }
  if (at.given === undefined) throw new Error(`the default of ${at.key} ${parsed.reason}`);
  at.findings.problems.push({ key: at.key, source, message: `${at.key} ${parsed.reason}` });
  return takeValue(rule, { ...at, given: undefined });
}

/** A value as an operator may see it: of a table such as a type's `env` only the names, as values may be secrets. */
function shownValue(raw: unknown, value: unknown): unknown {
  if (typeof value === "string") return value;
  return typeof raw === "object" && raw !== null && !Array.isArray(raw) ? Object.keys(raw) : raw;
}

/** Lists take one value or several; of anything else the last value counts. */
function flagRaw(setting: Setting, value: unknown): unknown {
  if (setting.rule.form === "list") return Array.isArray(value) ? value : [value];
  const one: unknown = Array.isArray(value) ? value.at(-1) : value;
  const raw = typeof one === "string" ? rawOf(setting.rule, one) : one;
  return setting.isOffFlag && typeof raw === "boolean" ? !raw : raw;
}

function badVariableMessage(name: string, text: string): string {
  if (isServiceLink(text) || /^POSTBACKD_(SERVICE_|PORT_\d)/.test(name)) {
    return (
      `${name} comes from Kubernetes, for a Service named postbackd: ` +
      "set enableServiceLinks: false in the pod"
    );
  }
  return unknownNameMessage(name, { what: "variable" });
}

/** Kubernetes gives every pod POSTBACKD_PORT=tcp://… where a Service has that name. */
function isServiceLink(text: string): boolean {
  return /^(tcp|udp|sctp):\/\//.test(text);
}

/** The three ways to name a setting. */
type Spelling = "key" | "flag" | "variable";

/** The message about an unknown name, with the nearest one; `others` exist beside the settings. */
export function unknownNameMessage(
  name: string,
  { what, others = [] }: { readonly what: Spelling; readonly others?: readonly string[] },
): string {
  const unknown = `unknown ${what} ${quote(name)}`;
  const meant = SETTING_LIST.find(({ key, flag }) =>
    [key, flag].some((known) => isSame(known, name)),
  );
  if (meant?.inFile === true && spelled(meant, what) === null) {
    return `${unknown}; ${meant.key} in the file and ${meant.env} set this`;
  }
  const names = SETTING_LIST.flatMap((known) => spelled(known, what) ?? []);
  const nearest = (meant && spelled(meant, what)) ?? nearestName(name, [...names, ...others]);
  return `${unknown}; did you mean ${nearest}?`;
}

function spelled(setting: Setting, what: Spelling): string | null {
  if (what === "variable") return setting.env;
  if (what === "key") return setting.inFile ? setting.key : null;
  return setting.flag === null ? null : `--${setting.flag}`;
}

/** True for one name in two spellings: `webhooks.timeout`, POSTBACKD_WEBHOOKS_TIMEOUT. */
function isSame(known: string | null, name: string): boolean {
  return known !== null && envName(known) === envName(name.replace(/^(--|POSTBACKD_)/, ""));
}
