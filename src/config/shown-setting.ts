import type { Config } from "./config.ts";
import { keyPart } from "./file.ts";
import { SETTING_LIST } from "./setting.ts";
import type { TypeConfig } from "./type.ts";

/** An effective value; `source` is `flag --port`, `environment POSTBACKD_PORT`, `file …` or `default`. */
export interface ShownSetting {
  readonly key: string;
  /** As it was written, without secrets; null when there is none. */
  readonly value: unknown;
  readonly source: string;
}

type ShownConfig = Pick<Config, "file" | "values" | "sources" | "types" | "marketplaces">;

/** Every value: those of the settings, then of each type, then the codes of the marketplaces. */
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

/** The values of a type. */
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
