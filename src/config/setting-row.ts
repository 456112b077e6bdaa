import type { SettingRule } from "./setting-rule.ts";

/** One setting: a key of `postbackd.toml`, a variable and, for some, a flag of the command line. */
export interface Setting<T = unknown> {
  /** Key in `postbackd.toml`, section first: `webhooks.timeout`. */
  readonly key: string;
  /** Flag without dashes, or null. The flag of a list is repeated. */
  readonly flag: string | null;
  /** True when the flag switches off a setting that is on: given, it means false. */
  readonly isOffFlag: boolean;
  /** The flag's description in a help text. */
  readonly flagDescription: string;
  /** Name of the environment variable, which every setting has. A list is separated by commas. */
  readonly env: string;
  /** True where the same variable with `_FILE` behind it may name a file that holds the value: it may be a secret. */
  readonly mayBeInFile: boolean;
  /** False for the setting that tells where the file is. */
  readonly inFile: boolean;
  readonly rule: SettingRule<T>;
  /** As in the file; null for no default. */
  readonly default: string | number | boolean | readonly string[] | null;
  /** One line for help texts, without a full stop. */
  readonly description: string;
}

type SettingRow = Pick<Setting, "default" | "description"> &
  Partial<Pick<Setting, "flag" | "isOffFlag" | "flagDescription" | "inFile" | "mayBeInFile">>;

/** Makes a setting of its key, its rule and the rest of its row; without a default its value may be null. */
export function setting<T>(
  key: string,
  rule: SettingRule<T>,
  row: SettingRow & { readonly default: null },
): Setting<T | null>;
export function setting<T>(key: string, rule: SettingRule<T>, row: SettingRow): Setting<T>;
export function setting<T>(key: string, rule: SettingRule<T>, row: SettingRow): Setting<T | null> {
  const { flag = null, isOffFlag = false } = row;
  return Object.freeze({
    inFile: true,
    mayBeInFile: false,
    flagDescription: row.description,
    ...row,
    key,
    flag,
    isOffFlag,
    env: envName(isOffFlag ? key : (flag ?? key)),
    rule: row.default === null ? orNone(rule) : rule,
  });
}

/** TOML has no null: only a default can be one. */
function orNone<T>(rule: SettingRule<T>): SettingRule<T | null> {
  const parse: SettingRule<T | null>["parse"] = (raw, folder) =>
    raw === null ? { kind: "value", value: null } : rule.parse(raw, folder);
  const { takes, hint, form, schema, shown } = rule;
  const all = { takes, hint, form, schema, parse };
  if (shown === undefined) return all;
  return { ...all, shown: (value) => (value === null ? null : shown(value)) };
}

/** `--allow-target` is POSTBACKD_ALLOW_TARGET, `log.level` is POSTBACKD_LOG_LEVEL. */
export function envName(name: string): string {
  return `POSTBACKD_${name.toUpperCase().replaceAll(/[.-]/g, "_")}`;
}
