import { defineCommand, type Bench } from "../kit/command.ts";
import { names, number, optional, toggle, whole } from "../kit/flags.ts";
import { siegeLines, siegeTable, togetherText } from "./report.ts";
import { SIEGE_ROWS, type SiegeRow } from "./rows.ts";
import { runRow, runTogether, type RowResult, type SiegeOptions } from "./siege-run.ts";

const ALONE_SECONDS = 3;
// A daemon that stands still for longer is not coming back.
const SETTLED_SECONDS_MAX = 120;

export const rowsFlag = names(
  "rows",
  SIEGE_ROWS.map(({ name }) => name),
);

export const command = defineCommand({
  about: `What an account sees of postbackd while somebody else attacks it: row by row, each against a daemon of its own, or all
at once beside many honest accounts.`,
  flags: {
    seconds: optional(number("of each attack (10)")),
    only: rowsFlag,
    "all-at-once": toggle(
      "all rows against one daemon, for --seconds (600), beside honest accounts",
    ),
    honest: whole("honest accounts, 10 requests a second each", 100),
  },
  program: "binary",
  async run({ only, honest, "all-at-once": isTogether, ...values }, bench) {
    const seconds = values.seconds ?? (isTogether ? 600 : 10);
    const times = { seconds, aloneSeconds: ALONE_SECONDS, settledSecondsMax: SETTLED_SECONDS_MAX };
    const options = { ...times, place: bench.place };
    const rows = SIEGE_ROWS.filter(({ name }) => only.includes(name));
    const report = isTogether
      ? togetherText(await runTogether(rows, { ...options, honest, onNews: bench.note }))
      : await oneByOne(rows, options, bench);
    bench.print(`${report}\n\n${seconds} s each.`);
  },
});

async function oneByOne(
  rows: readonly SiegeRow[],
  options: SiegeOptions,
  { note }: Bench,
): Promise<string> {
  const results: RowResult[] = [];
  const failed: string[] = [];
  for (const row of rows) {
    try {
      const result = await runRow(row, options);
      results.push(result);
      note(`${siegeTable([result]).split("\n").at(-1)}\n${siegeLines([result])}`);
    } catch (error) {
      // The other rows are worth their time; this one is reported below.
      failed.push(`- \`${row.name}\` was not measured: ${String(error)}`);
      note(failed.at(-1) ?? "");
    }
  }
  if (failed.length > 0) process.exitCode = 1;
  return `${siegeTable(results)}\n\n${[siegeLines(results), ...failed].join("\n")}`;
}
