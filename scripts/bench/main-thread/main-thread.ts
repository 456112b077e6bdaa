import { defineCommand, optional, text, whole } from "../../kit/command.ts";
import { markdownTable, median } from "../../kit/measure.ts";
import { measure } from "./case.ts";
import { prepareCases } from "./cases.ts";
import { withWorld } from "./world.ts";

const UNCOUNTED = 3;

export const mainThread = defineCommand({
  about: `Sends each operation the worst input that the limits accept, one request at a time, and measures what it costs the
daemon's main thread: the time that Linux gave the thread (schedstat), from before the request until its response has been
read. Waits, and the work of other threads, are not in it. scripts/bench/main-thread/cases.ts has the bounds.`,
  flags: {
    repeat: whole("requests of each, after three that are not counted", 20),
    only: optional(text("NAME", "one operation, by its name in cases.ts")),
  },
  async run({ repeat: counted, only }, { place, print }) {
    const rows: (readonly string[])[] = [];
    await withWorld(place, async (world) => {
      const { anybody: caller, daemon } = world;
      for (const each of await prepareCases(world)) {
        if (only !== null && each.operation !== only) continue;
        const options = { caller, pid: daemon.pid, uncounted: UNCOUNTED, counted };
        const costsMs = await measure(each, options);
        const figures = [median(costsMs), Math.max(...costsMs)].map((ms) => ms.toFixed(2));
        const { operation, worst, status = 200, ms } = each;
        rows.push([operation, worst, String(status), String(ms), ...figures]);
      }
    });
    const figures = ["status", "may cost ms", "median ms", "worst ms"];
    print(markdownTable(["operation", "worst input", ...figures], rows, 2));
  },
});
