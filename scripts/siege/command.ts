import { writeFileSync } from "node:fs";

import { defineCommand } from "../kit/command.ts";
import { number, optional, text, toggle, whole } from "../kit/flags.ts";
import { runTogether, type TogetherOptions } from "./all-at-once.ts";
import type { RowResult } from "./figures.ts";
import { siegeLines, siegeTable, togetherText } from "./report.ts";
import type { SiegeRow } from "./row.ts";
import { SIEGE_ROWS, chooseRows } from "./rows.ts";
import { runRow, type SiegeOptions } from "./siege-run.ts";
import { Target } from "./target.ts";

const ALONE_SECONDS = 3;
// A daemon that stands still for longer is not coming back.
const SETTLED_SECONDS_MAX = 120;

export const command = defineCommand({
  about: `What an account sees of postbackd while somebody else attacks it: row by row, each against a daemon of its own, or all
at once beside many honest accounts.`,
  flags: {
    seconds: optional(number("of each attack (10)")),
    only: optional(text("a,b,…", `rows: ${SIEGE_ROWS.map(({ name }) => name).join(", ")} (all)`)),
    "account-bytes": text(
      "S",
      "what an account may store in the row that fills the disk, where there is that setting",
      "32MiB",
    ),
    "all-at-once": toggle(
      "all rows against one daemon, for --seconds (600), beside honest accounts",
    ),
    honest: whole("honest accounts, 10 requests a second each", 100),
    json: optional(text("FILE", "writes all figures there")),
  },
  program: "binary",
  async run(values, { place, note: onNews, print }) {
    const isTogether = values["all-at-once"];
    const seconds = values.seconds ?? (isTogether ? 600 : 10);
    const hasQuota = await Target.knows(place, "limits.account.bytes");
    const options = {
      place,
      seconds,
      aloneSeconds: ALONE_SECONDS,
      settledSecondsMax: SETTLED_SECONDS_MAX,
      accountBytes: hasQuota ? values["account-bytes"] : null,
      rows: chooseRows(values.only ?? undefined),
    };
    const save = (figures: object): void => {
      if (values.json !== null) writeFileSync(values.json, JSON.stringify(figures, null, 2));
    };
    const report = isTogether
      ? await allAtOnce({ ...options, honest: values.honest, onNews })
      : await oneByOne(options, { onNews, save });
    save(report.figures);
    print(`${report.text}\n\n${seconds} s each.`);
  },
});

interface Report {
  readonly text: string;
  readonly figures: object;
}

async function allAtOnce(options: TogetherOptions): Promise<Report> {
  const figures = await runTogether(options);
  return { text: togetherText(figures), figures };
}

/** The output that is written during the measurement. */
interface Notes {
  readonly onNews: (text: string) => void;
  readonly save: (figures: object) => void;
}

/** Calls `save` with the results after each row: the rows before one that fails must not be lost. */
async function oneByOne(
  options: SiegeOptions & { readonly rows: readonly SiegeRow[] },
  { onNews, save }: Notes,
): Promise<Report> {
  const results: RowResult[] = [];
  const failed: string[] = [];
  for (const row of options.rows) {
    try {
      const result = await runRow(row, options);
      results.push(result);
      save(results);
      onNews(`${siegeTable([result]).split("\n").at(-1)}\n${siegeLines([result])}`);
    } catch (error) {
      // The other rows are worth their time; this one is reported below.
      failed.push(`\`${row.name}\` was not measured: ${String(error)}`);
      onNews(failed.at(-1) ?? "");
    }
  }
  if (failed.length > 0) process.exitCode = 1;
  const lines = [siegeLines(results), ...failed.map((line) => `- ${line}`)].join("\n");
  return { text: `${siegeTable(results)}\n\n${lines}`, figures: results };
}
