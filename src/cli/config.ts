import { defineCommand } from "citty";

import { programMeta } from "./usage.ts";

/** `postbackd config …`. */
export const configCommand = defineCommand({
  meta: programMeta({
    name: "postbackd config",
    description: "Check, show and begin a configuration",
    example: "postbackd config check",
  }),
  subCommands: {
    check: async () => (await import("./config-check.ts")).configCheckCommand,
    print: async () => (await import("./config-print.ts")).configPrintCommand,
    init: async () => (await import("./config-init.ts")).configInitCommand,
  },
});
