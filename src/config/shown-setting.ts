import type { Config } from "./config.ts";
import { keyPart } from "./file.ts";
import type { Setting } from "./setting-rule.ts";
import { SETTING_LIST, SETTING_SECTIONS, sectionOf } from "./setting.ts";
import type { TypeConfig } from "./type.ts";

/** An effective value; `source` is `flag --port`, `environment POSTBACKD_PORT`, `file …` or `default`. */
export interface ShownSetting {
  readonly key: string;
  /** As it was written, without secrets; null without a value. */
  readonly value: unknown;
  readonly source: string;
}

type ShownConfig = Pick<Config, "file" | "values" | "sources" | "types" | "marketplaces">;

/** Every value: of the settings, then of each type, then the codes of the marketplaces. */
export function shownRows(config: ShownConfig): readonly ShownSetting[] {
  const settings = SETTING_LIST.map(({ key }) => {
    const row = shownSetting(config, key);
    // The file that was read, even when it was not named but found in its standard place.
    return key === "config" ? { ...row, value: config.file } : row;
  });
  const types = [...config.types.values()].flatMap((type) => typeRows(config, type));
  const codes = config.marketplaces.map(({ code }) => code);
  const source = config.sources.get("marketplaces") ?? "default";
  return [...settings, ...types, { key: "marketplaces", value: codes, source }];
}

export function shownSetting({ values, sources }: ShownConfig, key: string): ShownSetting {
  return { key, value: values.get(key) ?? null, source: sources.get(key) ?? "default" };
}

export function shownTypeSettings(
  config: ShownConfig,
  { name }: Pick<TypeConfig, "name">,
): readonly ShownSetting[] {
  const prefix = typeKey(name, "");
  const keys = [...config.values.keys()].filter((key) => key.startsWith(prefix));
  return keys.map((key) => shownSetting(config, key));
}

/** The key of a type's value, as in the file. */
export function typeKey(name: string, key: string): string {
  return `types.${keyPart(name)}.${key}`;
}

function typeRows(config: ShownConfig, type: TypeConfig): readonly ShownSetting[] {
  const settings = shownTypeSettings(config, type);
  const key = `types.${keyPart(type.name)}`;
  // All keys of a type are in one table, so they have one source.
  const given = settings.find(({ source }) => source !== "default");
  return [{ key, value: type.kind, source: given?.source ?? "default" }, ...settings];
}

/** The configuration as a document: settings, types and marketplaces, without secrets. */
export function shownConfig(config: ShownConfig) {
  return {
    file: config.file,
    settings: SETTING_LIST.map(({ key }) => shownSetting(config, key)),
    types: [...config.types.values()].map((type) => ({
      name: type.name,
      kind: type.kind,
      settings: shownTypeSettings(config, type),
    })),
    marketplaces: config.marketplaces.map(({ details, ...head }) => ({ ...head, ...details })),
  };
}

/** A first postbackd.toml: every setting with its default, commented out, then examples of types and marketplaces. */
export function sampleFile(): string {
  const settings = SETTING_LIST.filter(({ inFile }) => inFile);
  // In TOML, keys without a section must come before the first section, or they would belong to it.
  const plain = settings.filter((setting) => sectionOf(setting) === "");
  const sections = SETTING_SECTIONS.map((section) => {
    const own = settings.filter((setting) => sectionOf(setting) === section);
    return [`[${section}]`, "", ...own.map(settingText)].join("\n");
  });
  return [HEAD, ...plain.map(settingText), ...sections, EXAMPLES].join("\n");
}

/** A value as TOML writes it. */
export function tomlText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(tomlText).join(", ")}]`;
  // TOML and JSON escape the same characters of a text in the same way; numbers and truth values are alike.
  return JSON.stringify(value);
}

/** The line at which {@link sampleFile} ends the settings. */
export const EXAMPLES_TITLE = "# Task types";

const HEAD = `\
# Configuration of postbackd.
#
# Each line that begins with # and a key states a default; take the # away to change it. Flags and
# POSTBACKD_* variables count before this file: 'postbackd config print' shows what counts and why,
# 'postbackd config check' what is wrong. Relative paths are relative to this file's folder.
`;

const EXAMPLES = `\
${EXAMPLES_TITLE}
#
# Each [types.NAME] says how tasks of one type are run. Where none is defined there is one, echo, whose
# result is its input.
#
# A command runs once per task, without a shell: the task is one line of JSON on its standard input, and
# what it prints is the result.

#[types.resize]
#command = ["/usr/local/bin/resize", "--json"]
#timeout = "10m"
#concurrency = 4
#retries = 0
#cwd = "."
#env = { LANG = "C.UTF-8" }

# A url is a service of yours: the same JSON is posted to it, and the body of its answer is the result. It
# may be on this machine or in a private network. Every type has timeout, concurrency and retries.

#[types.caption]
#url = "http://127.0.0.1:9000/caption"
#headers = { Authorization = "Bearer secret" }
#concurrency = 16

# A worker type is run by programs of their own, here or elsewhere: 'postbackd worker' is one. They claim
# its tasks; one that is silent for longer than the lease loses them to another.

#[types.transcode]
#runner = "worker"
#lease = "30s"

# Marketplaces
#
# What clients may name in a task's "marketplace". Keys beside code and name are shown as they are.

#[[marketplaces]]
#code = "us"
#name = "United States"
#currency = "USD"
`;

function settingText(setting: Setting): string {
  const { key, default: standard, description, flag, env } = setting;
  const name = key.slice(key.lastIndexOf(".") + 1);
  const names = flag === null ? env : `--${flag}, ${env}`;
  const line =
    standard === null
      ? `# None unless given: ${name} = ${tomlText(setting.rule.hint)}`
      : `#${name} = ${tomlText(standard)}`;
  return `# ${description}. (${names})\n${line}\n`;
}
