import { problemText, SETTING_LIST, type Config, type ConfigVerdict } from "../config/config.ts";
import { systemClock } from "../domain/clock/clock.ts";
import type { Given } from "./arguments.ts";
import { defineCommand } from "./command.ts";
import { ConfigurationError, EXIT } from "./failure.ts";
import { JSON_ARG, printAnswer, printError } from "./print.ts";
import { judgeCommandConfig, settingArgs } from "./settings.ts";

export const configCheckCommand = defineCommand({
  description: "Find everything that is wrong with the configuration",
  example: "postbackd config check --config ./next.toml",
  notes:
    "It takes the flags of 'start' and reads the same variables and the same file; where none is named and none is\n" +
    "here, that of this machine's service. It exits with 0 when a daemon would start with them and with 78, naming\n" +
    "every problem, when not. A missing command is a warning: the tasks of its type would fail.",
  args: { ...settingArgs(), ...JSON_ARG },
  async run(given) {
    return report(given, await inspect(judgeCommandConfig(given)));
  },
});

async function inspect(verdict: ConfigVerdict) {
  const isConfig = verdict.kind === "config";
  const config = isConfig ? verdict.config : verdict.draft;
  const found = isConfig ? [] : verdict.problems;
  const {
    checkAuthorities,
    checkCertificate,
    checkServerFiles,
    missingPrograms,
    retentionWarning,
  } = await import("../daemon/check.ts");
  const certificate = checkCertificate(config, systemClock.now());
  const programs = await missingPrograms(config, process.env);
  const retention = retentionWarning(config);
  return {
    config,
    problems: [
      ...found,
      ...checkServerFiles(config),
      ...certificate.problems,
      ...checkAuthorities(config),
    ],
    warnings: [
      ...certificate.warnings,
      ...programs,
      ...(retention === null ? [] : [`${retention.text}; ${retention.remedy}`]),
    ],
  };
}

function report(
  given: Given<typeof JSON_ARG>,
  { config, problems, warnings }: Awaited<ReturnType<typeof inspect>>,
): number {
  const isValid = problems.length === 0;
  const lines = [...summaryLines(config), ...warnings.map(warningText)];
  if (isValid || given.json) {
    const document = { file: config.file, valid: isValid, problems, warnings, ...countsOf(config) };
    printAnswer(given, { document, lines });
    return isValid ? EXIT.done : EXIT.configuration;
  }
  for (const warning of warnings) printError(warningText(warning));
  throw new ConfigurationError(problems.map(problemText));
}

function countsOf(config: Config) {
  return {
    types: config.types.size,
    marketplaces: config.marketplaces.length,
    settings: SETTING_LIST.filter(
      ({ key, inFile }) => inFile && config.sources.get(key) !== "default",
    ).length,
  };
}

function summaryLines(config: Config): readonly string[] {
  const { types, marketplaces, settings } = countsOf(config);
  const names = [...config.types.keys()].join(", ");
  return [
    config.file === null ? "There is no configuration file." : `Read ${config.file}.`,
    `${countText(types, "task type")} (${names}), ${countText(marketplaces, "marketplace")}, ` +
      `${countText(settings, "setting")} given; the rest are defaults.`,
    "The configuration is in order.",
  ];
}

function countText(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

function warningText(warning: string): string {
  return `warning: ${warning}`;
}
