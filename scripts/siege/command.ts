import { defineCommand } from "../kit/command.ts";
import { number, optional, text, toggle, whole } from "../kit/flags.ts";
import { runTogether } from "./all-at-once.ts";
import type { RowResult } from "./figures.ts";
import { siegeLines, siegeTable, togetherText } from "./report.ts";
import type { SiegeRow } from "./row.ts";
import { SIEGE_ROWS, chooseRows } from "./rows.ts";
import { runRow, type SiegeOptions } from "./siege-run.ts";

const ALONE_SECONDS = 3;
// A daemon that stands still for longer is not coming back.
const SETTLED_SECONDS_MAX = 120;

export const command = defineCommand({
  about: `What an account sees of postbackd while somebody else attacks it: row by row, each against a daemon of its own, or all
at once beside many honest accounts.`,
  flags: {
    seconds: optional(number("of each attack (10)")),
    only: optional(text("a,b,…", `rows: ${SIEGE_ROWS.map(({ name }) => name).join(", ")} (all)`)),
    "all-at-once": toggle(
      "all rows against one daemon, for --seconds (600), beside honest accounts",
    ),
    honest: whole("honest accounts, 10 requests a second each", 100),
  },
  program: "binary",
  async run(values, { place, note: onNews, print }) {
    const isTogether = values["all-at-once"];
    const seconds = values.seconds ?? (isTogether ? 600 : 10);
    const options = {
      place,
      seconds,
      aloneSeconds: ALONE_SECONDS,
      settledSecondsMax: SETTLED_SECONDS_MAX,
      rows: chooseRows(values.only ?? undefined),
    };
    const report = isTogether
      ? togetherText(await runTogether({ ...options, honest: values.honest, onNews }))
      : await oneByOne(options, onNews);
    print(`${report}\n\n${seconds} s each.`);
  },
});

async function oneByOne(
  options: SiegeOptions & { readonly rows: readonly SiegeRow[] },
  onNews: (text: string) => void,
): Promise<string> {
  const results: RowResult[] = [];
  const failed: string[] = [];
  for (const row of options.rows) {
    try {
      const result = await runRow(row, options);
      results.push(result);
      onNews(`${siegeTable([result]).split("\n").at(-1)}\n${siegeLines([result])}`);
    } catch (error) {
      // The other rows are worth their time; this one is reported below.
      failed.push(`\`${row.name}\` was not measured: ${String(error)}`);
      onNews(failed.at(-1) ?? "");
    }
  }
  if (failed.length > 0) process.exitCode = 1;
  const lines = [siegeLines(results), ...failed.map((line) => `- ${line}`)].join("\n");
  return `${siegeTable(results)}\n\n${lines}`;
}
