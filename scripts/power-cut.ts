import { runCommands } from "./kit/command.ts";

/** Finds what a power cut would leave of the daemon's files, and whether the daemon keeps its promises on that. */
await runCommands("node --import tsx scripts/power-cut.ts", {
  "power-cut": async () => (await import("./power-cut/command.ts")).command,
});
