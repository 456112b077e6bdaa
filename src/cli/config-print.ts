import { SETTING_LIST, type Config } from "../config/config.ts";
import { tomlText } from "../config/sample.ts";
import { shownRows, shownSetting, shownTypeSettings } from "../config/shown-setting.ts";
import type { ShownSetting } from "../config/shown-setting.ts";
import { defineCommand } from "./command.ts";
import { type Columns, JSON_ARG, printAnswer, shortText, tableLines } from "./print.ts";
import { loadCommandConfig, settingArgs } from "./settings.ts";

export const configPrintCommand = defineCommand({
  description: "Show every value of the configuration and where it comes from",
  example: "postbackd config print --json",
  notes:
    "It takes the flags of 'start' and reads the same variables and the same file; where none is named and none is\n" +
    "here, that of this machine's service. It shows only the names in a type's env and headers, its url without the\n" +
    "query, and the arguments of its command as they are. The table cuts long values; --json shows them in full.",
  args: { ...settingArgs(), ...JSON_ARG },
  run(given) {
    const config = loadCommandConfig(given);
    const lines = tableLines(shownRows(config), COLUMNS);
    printAnswer(given, { document: documentOf(config), lines });
  },
});

/** A value in the table is cut after so many characters. */
const VALUE_LENGTH_MAX = 60;

function documentOf(config: Config) {
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

const COLUMNS: Columns<ShownSetting> = {
  KEY: ({ key }) => key,
  VALUE: ({ value }) => (value === null ? null : shortText(tomlText(value), VALUE_LENGTH_MAX)),
  SOURCE: ({ source }) => source,
};
