import { defineCommand } from "citty";

import { SETTING_LIST } from "../config.ts";
import type { Config, TypeConfig } from "../config.ts";
import { keyPart } from "../config/file.ts";
import { tomlText } from "../config/sample.ts";
import { readArguments } from "./arguments.ts";
import { cellText, JSON_ARG, printAnswer, shortText, tableLines } from "./print.ts";
import { loadCommandConfig, settingArgs } from "./settings.ts";
import { programMeta } from "./usage.ts";

const args = { ...settingArgs(), ...JSON_ARG };

/** `postbackd config print`. */
export const configPrintCommand = defineCommand({
  meta: programMeta({
    name: "postbackd config print",
    description: "Show every value of the configuration and where it comes from",
    example: "postbackd config print --json",
    notes:
      "It takes the flags of 'start' and reads the same variables and the same file. Of a type's env and\n" +
      "headers only the names are shown, and of its url no query; the arguments of its command are shown as\n" +
      "they are. Long values are cut in the table; --json shows them whole.",
  }),
  args,
  run({ rawArgs }) {
    const given = readArguments(rawArgs, args);
    const config = loadCommandConfig(given);
    printAnswer(given, { document: documentOf(config), lines: linesOf(config) });
  },
});

/** A value in the table is cut behind this many characters. */
const VALUE_LENGTH_MAX = 60;

/** A value as it counts; `source` is `flag --port`, `environment POSTBACKD_PORT`, `file …` or `default`. */
interface ShownSetting {
  readonly key: string;
  readonly value: unknown;
  readonly source: string;
}

function documentOf(config: Config) {
  return {
    file: config.file,
    settings: SETTING_LIST.map(({ key }) => shown(config, key)),
    types: [...config.types.values()].map((type) => ({
      name: type.name,
      kind: type.kind,
      settings: typeSettings(config, type),
    })),
    marketplaces: config.marketplaces.map(({ code, name, details }) => ({
      code,
      name,
      ...details,
    })),
  };
}

function shown({ values, sources }: Config, key: string): ShownSetting {
  return { key, value: values.get(key) ?? null, source: sources.get(key) ?? "default" };
}

function typeSettings(config: Config, { name }: TypeConfig): readonly ShownSetting[] {
  const prefix = `types.${keyPart(name)}.`;
  const keys = [...config.values.keys()].filter((key) => key.startsWith(prefix));
  return keys.map((key) => shown(config, key));
}

function linesOf(config: Config): readonly string[] {
  const settings = SETTING_LIST.map(({ key }) => {
    const row = shown(config, key);
    // The file that was read, also where it was not named but found in its standard place.
    return key === "config" ? { ...row, value: config.file } : row;
  });
  const types = [...config.types.values()].flatMap((type) => typeRows(config, type));
  const codes = config.marketplaces.map(({ code }) => code);
  const source = config.sources.get("marketplaces") ?? "default";
  const rows = [...settings, ...types, { key: "marketplaces", value: codes, source }];
  return tableLines(["KEY", "VALUE", "SOURCE"], rows.map(toRow));
}

function typeRows(config: Config, type: TypeConfig): readonly ShownSetting[] {
  const settings = typeSettings(config, type);
  const key = `types.${keyPart(type.name)}`;
  // All keys of a type are in one table: where one of them comes from, the type does.
  const given = settings.find(({ source }) => source !== "default");
  return [{ key, value: type.kind, source: given?.source ?? "default" }, ...settings];
}

function toRow({ key, value, source }: ShownSetting): readonly string[] {
  const text = value === null ? null : shortText(tomlText(value), VALUE_LENGTH_MAX);
  return [key, cellText(text), source];
}
