import { runCommands } from "./kit/command.ts";

/** `npm run bench`: what postbackd does on this machine, and what that costs. */
await runCommands("npm run bench --", {
  phases: async () => (await import("./bench/phases.ts")).phases,
  flat: async () => (await import("./bench/phases.ts")).flat,
  reads: async () => (await import("./bench/reads.ts")).reads,
  deliveries: async () => (await import("./bench/deliveries.ts")).deliveries,
  workers: async () => (await import("./bench/workers.ts")).workers,
  "main-thread": async () => (await import("./bench/main-thread/main-thread.ts")).mainThread,
  backups: async () => (await import("./bench/backups.ts")).backups,
  siege: async () => (await import("./bench/siege/siege.ts")).siege,
  starts: async () => (await import("./bench/starts.ts")).starts,
  peers: async () => (await import("./bench/peers/peers.ts")).peers,
  timeline: async () => (await import("./bench/timeline.ts")).timeline,
});
