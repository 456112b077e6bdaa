import { runCommands } from "./kit/command.ts";

/**
 * What a daemon must live through without losing anything: faults of every kind of runner for a long time; kill -9
 * under the load that it can take.
 */
await runCommands("node --import tsx scripts/soak.ts", {
  runners: async () => ({ command: (await import("./soak/commands.ts")).runners }),
  crash: async () => ({ command: (await import("./soak/commands.ts")).crash }),
});
