import type { Command } from "./command.ts";

/** `postbackd config …`. */
export const configCommand: Command = {
  name: "postbackd config",
  description: "Check, show and begin a configuration",
  example: "postbackd config check",
  subCommands: {
    check: async () => (await import("./config-check.ts")).configCheckCommand,
    print: async () => (await import("./config-print.ts")).configPrintCommand,
    init: async () => (await import("./config-init.ts")).configInitCommand,
  },
};
