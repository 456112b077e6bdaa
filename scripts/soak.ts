import { runCommands } from "./kit/command.ts";

/**
 * What daemons must survive without losing anything: faults of every kind of runner for a long time, kill -9 under load,
 * and faults of a cluster.
 */
await runCommands("node --import tsx scripts/soak.ts", {
  runners: async () => (await import("./soak/profiles.ts")).runners,
  crash: async () => (await import("./soak/profiles.ts")).crash,
  cluster: async () => (await import("./soak/profiles.ts")).cluster,
});
