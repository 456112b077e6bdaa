import { runCommands } from "./kit/command.ts";

/** What workers (contract §7) get done, and what they cost while they wait. */
await runCommands("node --import tsx scripts/workers.ts", {
  workers: () => import("./workers/command.ts"),
});
