import { runCommands } from "./kit/command.ts";

/** `npm run bench`: what postbackd does on this machine, and what that costs. */
await runCommands("npm run bench --", {
  phases: () => import("./bench/command.ts"),
  reads: () => import("./reads/command.ts"),
  runs: () => import("./runs/command.ts"),
  dashboards: () => import("./dashboards/command.ts"),
});
