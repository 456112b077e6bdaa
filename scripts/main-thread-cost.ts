import { runCommands } from "./kit/command.ts";

/** Measures what each operation costs the daemon's main thread. */
await runCommands("node --import tsx scripts/main-thread-cost.ts", {
  "main-thread": () => import("./main-thread/command.ts"),
});
