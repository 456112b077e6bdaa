import { writeFileSync } from "node:fs";
import { resolve } from "node:path";

import { SETTING_LIST, problemText } from "../config/config.ts";
import {
  type ShownSetting,
  sampleFile,
  shownConfig,
  shownRows,
  tomlText,
} from "../config/shown-setting.ts";
import { systemClock } from "../domain/clock/clock.ts";
import { codeOf, messageOf } from "../domain/error.ts";
import { TEXT, optionalWord } from "./arguments.ts";
import { defineCommand } from "./command.ts";
import { ConfigurationError, EXIT, UsageError, fail } from "./failure.ts";
import {
  type Columns,
  JSON_ARG,
  answer,
  printError,
  shortText,
  tableLines,
  countText,
} from "./print.ts";
import { configOf, judgeCommandConfig, settingArgs } from "./settings.ts";

const check = defineCommand({
  description: "Check the configuration, and list all problems",
  example: "postbackd config check --config ./next.toml",
  notes:
    "It takes the flags of 'start' and reads the same variables and the same file; without one, the file of\n" +
    "this machine's service. It exits with 0 when a daemon would start with them and with 78, naming\n" +
    "every problem, when not. A missing command is a warning: the tasks of its type would fail.",
  args: { ...settingArgs(), ...JSON_ARG },
  async run(given) {
    const verdict = judgeCommandConfig(given);
    const isRead = verdict.kind === "config";
    const config = isRead ? verdict.config : verdict.draft;
    const { inspectConfig } = await import("../ops/check.ts");
    const found = await inspectConfig(config, { now: systemClock.now(), env: process.env });
    const problems = [...(isRead ? [] : verdict.problems), ...found.problems];
    const isValid = problems.length === 0;
    const warnings = found.warnings.map((warning) => `warning: ${warning}`);
    if (!isValid && !given.json) {
      for (const warning of warnings) printError(warning);
      throw new ConfigurationError(problems.map(problemText));
    }
    const counts = {
      types: config.types.size,
      marketplaces: config.marketplaces.length,
      settings: SETTING_LIST.filter(
        ({ key, inFile }) => inFile && config.sources.get(key) !== "default",
      ).length,
    };
    const { file } = config;
    const document = { file, valid: isValid, problems, warnings: found.warnings, ...counts };
    const names = [...config.types.keys()].join(", ");
    const counted = [
      `${countText(counts.types, "task type")} (${names})`,
      ...(counts.marketplaces === 0 ? [] : [countText(counts.marketplaces, "marketplace")]),
      `${countText(counts.settings, "setting")} given`,
    ];
    const lines = [
      file === null ? "No configuration file exists." : `Read ${file}.`,
      `${counted.join(", ")}; the rest are defaults.`,
      "The configuration is valid.",
      ...warnings,
    ];
    return { document, lines, exit: isValid ? EXIT.done : EXIT.configuration };
  },
});

const print = defineCommand({
  description: "Show every value of the configuration and where it comes from",
  example: "postbackd config print --json",
  notes:
    "It takes the flags of 'start' and reads the same variables and the same file; without one, the file of\n" +
    "this machine's service. It shows only the names in a type's env and headers, its url without the\n" +
    "query, and the arguments of its command as they are. The table cuts long values; --json shows them in full.",
  args: { ...settingArgs(), ...JSON_ARG },
  run(given) {
    const config = configOf(judgeCommandConfig(given));
    return answer(shownConfig(config), ...tableLines(shownRows(config), COLUMNS));
  },
});

const VALUE_LENGTH_MAX = 60;

const COLUMNS: Columns<ShownSetting> = {
  KEY: ({ key }) => key,
  VALUE: ({ value }) => (value === null ? null : shortText(tomlText(value), VALUE_LENGTH_MAX)),
  SOURCE: ({ source }) => source,
};

const STANDARD_FILE = "./postbackd.toml";

const FILE = optionalWord(TEXT, `File to create; ${STANDARD_FILE} unless given`);

const init = defineCommand({
  description: "Create a configuration file that explains every setting",
  example: "postbackd config init",
  notes:
    "Every setting is in it with its default, commented out. It does not change an existing file.",
  args: { file: { ...FILE, valueHint: "PATH" }, ...JSON_ARG },
  run(given) {
    const file = given.file ?? STANDARD_FILE;
    if (file === "") throw new UsageError("FILE is empty; leave it out or name a file");
    const path = resolve(file);
    writeNew(path);
    const next = `See what it changes with: postbackd config print --config ${file}`;
    return answer({ file: path }, `Made ${path}.`, next);
  },
});

export const configCommand = defineCommand({
  description: "Check, print or create a configuration",
  example: "postbackd config check",
  subCommands: { check, print, init },
});

/** For its owner only: types may get secrets in it later. */
function writeNew(path: string): void {
  try {
    writeFileSync(path, sampleFile(), { flag: "wx", mode: 0o600 });
  } catch (error) {
    const fault =
      codeOf(error) === "EEXIST"
        ? "exists already and is not changed; name another file"
        : `cannot be written: ${messageOf(error)}`;
    fail(`${path} ${fault}`, error);
  }
}
