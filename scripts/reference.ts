import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { CODE_TABLE, TASK_CODE_TABLE } from "../src/api/status.ts";
import { type Command, subCommandsOf } from "../src/cli/command.ts";
import { toRow, usageWords } from "../src/cli/help.ts";
import { program } from "../src/cli/program.ts";
import { SETTING_LIST } from "../src/config/config.ts";
import type { Setting } from "../src/config/setting-rule.ts";
import { sectionOf } from "../src/config/setting.ts";
import { SERIES, type SeriesKind } from "../src/http/metrics/series.ts";
import { ROOT } from "./manifest.ts";

/**
 * Writes the generated parts of docs/reference, which stand between two comments: `<!-- generated: NAME -->` and
 * `<!-- end -->`. The text around them is written by hand. `--check` changes nothing and fails if a part is not current.
 */

/** The generated parts by their names, and the pages that have them. */
const PARTS: Readonly<Record<string, () => string | Promise<string>>> = {
  commands: async () => (await sectionsOf("postbackd", program)).join("\n\n"),
  metrics: seriesTable,
  settings: settingSections,
  "status codes": () => CODE_TABLE,
  "task codes": () => TASK_CODE_TABLE,
};

const PAGES = ["cli", "configuration", "metrics", "status-codes"];

const SETTING_FLAGS = new Set(SETTING_LIST.flatMap(({ flag }) => flag ?? []));

/** The path of each page with its present text and the text that it should have. */
async function referencePages(): Promise<
  readonly { readonly path: string; readonly text: string; readonly current: string }[]
> {
  return Promise.all(
    PAGES.map(async (name) => {
      const path = `docs/reference/${name}.md`;
      const text = readFileSync(join(ROOT, path), "utf8");
      return { path, text, current: await filled(path, text) };
    }),
  );
}

/** The page with its generated parts made again. */
async function filled(path: string, text: string): Promise<string> {
  const [head = "", ...pieces] = text.split(/(?=<!-- generated: )/);
  const parts = pieces.map(async (piece) => {
    const [, name = "", rest = ""] =
      /^<!-- generated: (.+?) -->.*?(<!-- end -->.*)$/s.exec(piece) ?? [];
    const make = PARTS[name];
    if (make === undefined) throw new Error(`${path} has no part '${name}' with an end`);
    return `<!-- generated: ${name} -->\n\n${await make()}\n\n${rest}`;
  });
  return [head, ...(await Promise.all(parts))].join("");
}

async function sectionsOf(name: string, group: Command): Promise<readonly string[]> {
  const below = await subCommandsOf(group);
  const commands = below.filter(([, { subCommands }]) => Object.keys(subCommands).length === 0);
  const groups = below.filter((each) => !commands.includes(each));
  const rows = commands.map(([word, command]) => commandRow(`${name} ${word}`, command));
  const own = [`## ${name}`, `${group.meta.description}.`, table("command, does, flags", rows)];
  const parts = await Promise.all(groups.map(([word, sub]) => sectionsOf(`${name} ${word}`, sub)));
  return [...(rows.length === 0 ? [] : own), ...parts.flat()];
}

function commandRow(name: string, { meta, args }: Command): readonly string[] {
  const flags = Object.entries(args)
    .filter(([flag, { type }]) => type !== "positional" && !SETTING_FLAGS.has(flag))
    .map((entry) => code(toRow(entry)[0]));
  const usage = `${name.split(" ").at(-1)} ${usageWords(args)}`.replace(" [OPTIONS]", "").trim();
  return [code(usage), meta.description, flags.join(", ")];
}

function settingSections(): string {
  const sections = Map.groupBy(SETTING_LIST, (setting) => sectionOf(setting).split(".")[0] ?? "");
  return [...sections]
    .map(([section, settings]) => {
      const heading = section === "" ? "## Above the first section" : `## [${section}]`;
      return `${heading}\n\n${settingTable(settings)}`;
    })
    .join("\n\n");
}

function settingTable(settings: readonly Setting[]): string {
  const rows = settings.map(({ key, rule, description, default: standard, ...names }) => [
    code(key),
    standard === null ? "–" : code(JSON.stringify(standard).replaceAll(",", ", ")),
    `${description}.`,
    rule.takes,
    [...(names.flag === null ? [] : [code(`--${names.flag}`)]), code(names.env)].join(" "),
  ]);
  return table("key, default, meaning, takes, flag and variable", rows);
}

function seriesTable(): string {
  const rows = Object.entries<SeriesKind>(SERIES).map(([name, { kind, labels, help }]) => [
    code(name),
    kind,
    labels.map(code).join(", "),
    help,
  ]);
  return table("series, kind, labels, meaning", rows);
}

function table(head: string, rows: readonly (readonly string[])[]): string {
  const names = head.split(", ");
  return [names, names.map(() => "---"), ...rows]
    .map((cells) => `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`)
    .join("\n");
}

function code(text: string): string {
  return `\`${text}\``;
}

if (import.meta.main) {
  for (const { path, text, current } of await referencePages()) {
    if (text === current) continue;
    if (process.argv.includes("--check")) {
      process.exitCode = 1;
      process.stderr.write(`${path} is not current: npm run reference\n`);
    } else writeFileSync(join(ROOT, path), current);
  }
}
