import { runCommands } from "./kit/command.ts";

/**
 * What a daemon must live through without losing anything: faults of every kind of runner for a long time; kill -9 under
 * the load that it can take; a start on a long queue.
 */
await runCommands("node --import tsx scripts/soak.ts", {
  runners: () => import("./soak/command.ts"),
  crash: () => import("./soak/crash-command.ts"),
  backlog: () => import("./soak/backlog-command.ts"),
});
