import { parseArgs } from "node:util";

import { createDaemonFile, startDaemon } from "./bench/bench-daemon.ts";
import { fillTraffic } from "./dashboards/fill-traffic.ts";
import { measurePaint } from "./dashboards/paint.ts";
import { printPaint, printRequests, printThroughput } from "./dashboards/report.ts";
import { measureRequests } from "./dashboards/requests.ts";
import { measureThroughput } from "./dashboards/throughput.ts";
import { wholeNumber } from "./kit/number-flag.ts";
import { chooseProgram } from "./program.ts";
import { fillDatabase } from "./reads/fill.ts";
import { ScratchFolder } from "./scratch-folder.ts";
import { runScript } from "./script.ts";

const HELP = `node --import tsx scripts/dashboards.ts [options]

Fills a database with tasks and with thirty days of traffic, then measures what the dashboard costs: how soon its
first paint is there (in Chromium), how long the requests of each screen take, and the rate of task_post with open
dashboards against that with none, in turn.

  --tasks N       tasks in the file before (1000000)
  --rounds N      measurements of the rate, with and without (7)
  --tabs N        open dashboards (10)
  --only a,b      of: paint, requests, throughput (all)
  --program P     source, binary, or an executable (the binary, if it is newer than the sources)
  --folder DIR    where the database lies while it runs (the folder for temporary files)
`;

const PARTS = ["paint", "requests", "throughput"];

await runScript(dashboards);

async function dashboards(): Promise<void> {
  const { values } = parseArgs({
    options: {
      help: { type: "boolean", default: false },
      tasks: { type: "string", default: "1000000" },
      rounds: { type: "string", default: "7" },
      tabs: { type: "string", default: "10" },
      only: { type: "string", default: PARTS.join(",") },
      program: { type: "string" },
      folder: { type: "string" },
    },
  });
  if (values.help) {
    process.stdout.write(HELP);
    return;
  }
  const parts = parseParts(values.only);
  using scratch = new ScratchFolder(values.folder);
  const program = chooseProgram(values.program);
  process.stderr.write(`measuring ${program.name}\n`);
  const file = await createDaemonFile({ program, folder: scratch.path });
  const filler = await startDaemon(file);
  await fillDatabase({ file, daemon: filler, tasks: wholeNumber("tasks", values.tasks) });
  await filler.stop();
  fillTraffic(file.database);
  await using daemon = await startDaemon(file);
  const place = { file, daemon };
  if (parts.includes("paint")) printPaint(await measurePaint(place));
  if (parts.includes("requests")) printRequests(await measureRequests(place));
  if (parts.includes("throughput")) {
    const rounds = wholeNumber("rounds", values.rounds);
    const tabs = wholeNumber("tabs", values.tabs);
    printThroughput(await measureThroughput(place, { rounds, tabs }));
  }
}

function parseParts(text: string): readonly string[] {
  const parts = text.split(",");
  const unknown = parts.find((part) => !PARTS.includes(part));
  if (unknown === undefined) return parts;
  throw new Error(`--only knows ${PARTS.join(", ")}; not ${unknown}`);
}
