import { runCommands } from "./kit/command.ts";

/** `npm run bench`: what postbackd does on this machine, what that costs, and what others see meanwhile. */
await runCommands("npm run bench --", {
  phases: () => import("./bench/command.ts"),
  flat: () => import("./flat/command.ts"),
  reads: () => import("./reads/command.ts"),
  deliveries: () => import("./deliveries/command.ts"),
  workers: () => import("./workers/command.ts"),
  "main-thread": () => import("./main-thread/command.ts"),
  backups: () => import("./backups/command.ts"),
  siege: () => import("./siege/command.ts"),
  starts: () => import("./starts/command.ts"),
  peers: () => import("./peers/command.ts"),
  timeline: () => import("./timeline/command.ts"),
});
