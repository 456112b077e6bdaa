import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";

import { machineDescription } from "./bench/machine.ts";
import { positive, wholeNumber } from "./kit/number-flag.ts";
import { chooseProgram } from "./program.ts";
import { ScratchFolder } from "./scratch-folder.ts";
import { runScript } from "./script.ts";
import { runTogether, type TogetherOptions } from "./siege/all-at-once.ts";
import type { RowResult } from "./siege/figures.ts";
import { siegeLines, siegeTable, togetherText } from "./siege/report.ts";
import type { SiegeRow } from "./siege/row.ts";
import { SIEGE_ROWS, chooseRows } from "./siege/rows.ts";
import { runRow, type SiegeOptions } from "./siege/siege-run.ts";
import { Target } from "./siege/target.ts";

/**
 * What an account sees of postbackd while somebody else attacks it: row by row, each against a daemon of its own, or all
 * at once beside many honest accounts.
 */

const HELP = `node --import tsx scripts/siege.ts [options]
  --seconds N        of each attack (10)
  --only a,b,…       rows: ${SIEGE_ROWS.map(({ name }) => name).join(", ")}
  --account-bytes S  what an account may store in the row that fills the disk, where there is that setting (32MiB)
  --all-at-once      all rows together against one daemon, for --seconds (600), beside honest accounts
  --honest N         honest accounts, 10 requests a second each (100)
  --json FILE        writes all figures there
  --program P        source, binary or a path (binary)
  --folder DIR       where the databases lie while it runs (the folder for temporary files)
`;

const ALONE_SECONDS = 3;
// A daemon that stands longer than that is not coming back.
const SETTLED_SECONDS_MAX = 120;

await runScript(siege);

async function siege(): Promise<void> {
  const { values } = parseArgs({
    options: {
      help: { type: "boolean", default: false },
      seconds: { type: "string" },
      "all-at-once": { type: "boolean", default: false },
      honest: { type: "string", default: "100" },
      only: { type: "string" },
      "account-bytes": { type: "string", default: "32MiB" },
      json: { type: "string" },
      program: { type: "string", default: "binary" },
      folder: { type: "string" },
    },
  });
  if (values.help) {
    process.stdout.write(HELP);
    return;
  }
  const together = values["all-at-once"];
  const seconds = positive("seconds", values.seconds ?? (together ? "600" : "10"));
  const rows = chooseRows(values.only);
  using scratch = new ScratchFolder(values.folder);
  const place = { program: chooseProgram(values.program), folder: scratch.path };
  const machine = machineDescription(scratch.path);
  process.stderr.write(`besieging ${place.program.name}\n`);
  const hasQuota = await Target.knows(place, "limits.account.bytes");
  const accountBytes = hasQuota ? values["account-bytes"] : null;
  const options = {
    ...{ place, seconds, aloneSeconds: ALONE_SECONDS, accountBytes },
    settledSecondsMax: SETTLED_SECONDS_MAX,
  };
  const honest = wholeNumber("honest", values.honest);
  const save = (figures: object): void => {
    if (values.json !== undefined) writeFileSync(values.json, JSON.stringify(figures, null, 2));
  };
  const { text, figures } = together
    ? await allAtOnce({ ...options, rows, honest, onNews })
    : await oneByOne(rows, options, save);
  save(figures);
  process.stdout.write(`${text}\n\n${place.program.name}; ${seconds} s each.\n${machine}\n`);
}

interface Report {
  readonly text: string;
  readonly figures: object;
}

async function allAtOnce(options: TogetherOptions): Promise<Report> {
  const figures = await runTogether(options);
  return { text: togetherText(figures), figures };
}

/** Calls `save` with what there is after each row: the rows before one that ends badly are not to be lost. */
async function oneByOne(
  rows: readonly SiegeRow[],
  options: SiegeOptions,
  save: (figures: object) => void,
): Promise<Report> {
  const results: RowResult[] = [];
  const failed: string[] = [];
  for (const row of rows) {
    try {
      const result = await runRow(row, options);
      results.push(result);
      save(results);
      onNews(`${siegeTable([result]).split("\n").at(-1)}\n${siegeLines([result])}`);
    } catch (error) {
      // The other rows are worth their time; this one is told of below.
      failed.push(`\`${row.name}\` was not measured: ${String(error)}`);
      onNews(failed.at(-1) ?? "");
    }
  }
  if (failed.length > 0) process.exitCode = 1;
  const lines = [siegeLines(results), ...failed.map((line) => `- ${line}`)].join("\n");
  return { text: `${siegeTable(results)}\n\n${lines}`, figures: results };
}

function onNews(text: string): void {
  process.stderr.write(`${text}\n`);
}
