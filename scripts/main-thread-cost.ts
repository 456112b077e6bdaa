import { parseArgs } from "node:util";

import { median } from "./kit/durations.ts";
import { machineDescription } from "./kit/machine.ts";
import { chooseProgram } from "./kit/program.ts";
import { ScratchFolder } from "./kit/scratch-folder.ts";
import { runScript } from "./kit/script.ts";
import { textTable } from "./kit/text-table.ts";
import { BOUNDS, type BoundName } from "./main-thread/bounds.ts";
import { prepareCases } from "./main-thread/cases.ts";
import { measure } from "./main-thread/measure.ts";
import { withWorld, type World } from "./main-thread/world.ts";

const HELP = `node --import tsx scripts/main-thread-cost.ts [options]

Sends each operation the worst input that the limits let through, one request at a time, and measures what it costs
the daemon's main thread: the time that Linux gave the thread (schedstat), from before the request until its answer has
been read. What waits, and what other threads do, is not in it. scripts/main-thread/bounds.ts has what each may cost.

  --repeat N      requests of each, after three that are not counted (20)
  --only NAME     one row of bounds.ts alone, by its name there
  --program P     source, binary, or an executable (the binary, if it is newer than the sources)
  --folder DIR    where the database lies while it runs (the folder for temporary files)
`;

const UNCOUNTED = 3;

await runScript(mainThreadCost);

async function mainThreadCost(): Promise<void> {
  const { values } = parseArgs({
    options: {
      help: { type: "boolean", default: false },
      repeat: { type: "string", default: "20" },
      only: { type: "string" },
      program: { type: "string" },
      folder: { type: "string" },
    },
  });
  if (values.help) {
    process.stdout.write(HELP);
    return;
  }
  using scratch = new ScratchFolder(values.folder);
  const machine = machineDescription(scratch.path);
  const program = chooseProgram(values.program);
  const counted = Number(values.repeat);
  const rows = await withWorld({ program, folder: scratch.path }, (world) =>
    measureAll(world, { counted, only: values.only }),
  );
  const right = { align: "right" } as const;
  const numbers = ["status", "may cost ms", "median ms", "worst ms"];
  const columns = [
    { name: "operation" },
    { name: "worst input" },
    ...numbers.map((name) => ({ name, ...right })),
  ];
  process.stdout.write(`${textTable(columns, rows)}\n\n${program.name}. ${machine}\n`);
}

async function measureAll(
  world: World,
  { counted, only }: { readonly counted: number; readonly only: string | undefined },
): Promise<readonly (readonly string[])[]> {
  const cases = await prepareCases(world);
  const { anybody: caller, daemon } = world;
  const rows: (readonly string[])[] = [];
  for (const [name, bound] of Object.entries(BOUNDS)) {
    if (only !== undefined && name !== only) continue;
    // The compiler knows names of members only as text.
    const each = cases[name as BoundName];
    const options = { caller, pid: daemon.pid, uncounted: UNCOUNTED, counted };
    const { status, costsMs } = await measure(each, options);
    const figures = [median(costsMs), Math.max(...costsMs)].map((ms) => ms.toFixed(2));
    rows.push([bound.what, bound.worst, String(status), String(bound.ms), ...figures]);
  }
  return rows;
}
