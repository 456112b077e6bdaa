import { runCommands } from "./kit/command.ts";

/** Measures the throughput of workers (contract §7), and the cost of their waiting. */
await runCommands("node --import tsx scripts/workers.ts", {
  workers: () => import("./workers/command.ts"),
});
