import { defineCommand } from "../kit/command.ts";
import { median } from "../kit/durations.ts";
import { optional, text, whole } from "../kit/flags.ts";
import { numberColumns, textTable } from "../kit/text-table.ts";
import { BOUNDS, type BoundName } from "./bounds.ts";
import { prepareCases } from "./cases.ts";
import { measure } from "./measure.ts";
import { withWorld, type World } from "./world.ts";

const UNCOUNTED = 3;

export const command = defineCommand({
  about: `Sends each operation the worst input that the limits let through, one request at a time, and measures what it costs
the daemon's main thread: the time that Linux gave the thread (schedstat), from before the request until its answer has
been read. What waits, and what other threads do, is not in it. scripts/main-thread/bounds.ts has what each may cost.`,
  flags: {
    repeat: whole("requests of each, after three that are not counted", 20),
    only: optional(text("NAME", "one row of bounds.ts alone, by its name there")),
  },
  async run({ repeat: counted, only }, { place, print }) {
    const rows = await withWorld(place, (world) => measureAll(world, { counted, only }));
    const numbers = numberColumns(["status", "may cost ms", "median ms", "worst ms"]);
    print(textTable([{ name: "operation" }, { name: "worst input" }, ...numbers], rows));
  },
});

async function measureAll(
  world: World,
  { counted, only }: { readonly counted: number; readonly only: string | null },
): Promise<readonly (readonly string[])[]> {
  const cases = await prepareCases(world);
  const { anybody: caller, daemon } = world;
  const rows: (readonly string[])[] = [];
  for (const [name, bound] of Object.entries(BOUNDS)) {
    if (only !== null && name !== only) continue;
    // The compiler knows names of members only as text.
    const each = cases[name as BoundName];
    const options = { caller, pid: daemon.pid, uncounted: UNCOUNTED, counted };
    const { status, costsMs } = await measure(each, options);
    const figures = [median(costsMs), Math.max(...costsMs)].map((ms) => ms.toFixed(2));
    rows.push([bound.what, bound.worst, String(status), String(bound.ms), ...figures]);
  }
  return rows;
}
