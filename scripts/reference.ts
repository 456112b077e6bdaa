import { subCommandsOf, type Command } from "../src/cli/command.ts";
import { toRow, usageWords } from "../src/cli/help.ts";
import { program } from "../src/cli/program.ts";
import { SETTING_LIST } from "../src/config/config.ts";

/** Prints docs/reference/cli.md: every command with its flags. */

const SETTING_FLAGS = new Set(SETTING_LIST.flatMap(({ flag }) => flag ?? []));

/** The page, made from the commands of the program. */
export async function commandReference(): Promise<string> {
  return [
    "# Commands",
    "",
    "`postbackd COMMAND --help` explains a command in full. Every command takes `--db PATH` and `--config PATH` if it needs",
    "the database or the configuration. `start`, `dev`, `doctor` and `config` take a flag for each setting that",
    "`postbackd start --help` lists. `scripts/reference.ts` makes this page.",
    ...(await sectionsOf("postbackd", program)),
    "",
  ].join("\n");
}

async function sectionsOf(name: string, group: Command): Promise<readonly string[]> {
  const below = await subCommandsOf(group);
  const commands = below.filter(([, { subCommands }]) => Object.keys(subCommands).length === 0);
  const groups = below.filter((each) => !commands.includes(each));
  const rows = commands.map(([word, command]) => rowOf(`${name} ${word}`, command));
  const head = ["", `## ${name}`, "", `${group.meta.description}.`];
  const table = ["", "| command | does | flags |", "|---|---|---|", ...rows];
  const parts = await Promise.all(groups.map(([word, sub]) => sectionsOf(`${name} ${word}`, sub)));
  return [...(rows.length === 0 ? [] : [...head, ...table]), ...parts.flat()];
}

function rowOf(name: string, { meta, args }: Command): string {
  const flags = Object.entries(args)
    .filter(([flag, { type }]) => type !== "positional" && !SETTING_FLAGS.has(flag))
    .map((entry) => `\`${toRow(entry)[0]}\``);
  const usage = `${name.split(" ").at(-1)} ${usageWords(args)}`.replace(" [OPTIONS]", "").trim();
  const cells = [`\`${usage}\``, meta.description, flags.join(", ")];
  return `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
}

if (import.meta.main) process.stdout.write(await commandReference());
