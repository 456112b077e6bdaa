import { defineCommand } from "../kit/command.ts";
import { createDaemonFile, startDaemon } from "../kit/daemon-file.ts";
import { fillDatabase } from "../kit/fill-tasks.ts";
import { fillTraffic } from "../kit/fill-traffic.ts";
import { names, whole } from "../kit/flags.ts";
import { measurePaint } from "./paint.ts";
import { measureRequests } from "./requests.ts";
import { measureThroughput } from "./throughput.ts";

export const command = defineCommand({
  about: `Fills a database with tasks and with thirty days of traffic, then measures what the dashboard costs: how soon its
first paint is there (in Chromium), how long the requests of each screen take, and the rate of task_post with open
dashboards against that with none, in turn.`,
  flags: {
    tasks: whole("tasks in the file before", 1_000_000),
    rounds: whole("measurements of the rate, with and without", 7),
    tabs: whole("open dashboards", 10),
    only: names("of", ["paint", "requests", "throughput"]),
  },
  async run({ tasks, rounds, tabs, only }, { place, print }) {
    const file = await createDaemonFile(place);
    const filler = await startDaemon(file);
    await fillDatabase({ file, daemon: filler, tasks });
    await filler.stop();
    fillTraffic(file.database);
    await using daemon = await startDaemon(file);
    const measured = { file, daemon };
    if (only.includes("paint")) print(await measurePaint(measured));
    if (only.includes("requests")) print(await measureRequests(measured));
    if (only.includes("throughput")) print(await measureThroughput(measured, { rounds, tabs }));
  },
});
