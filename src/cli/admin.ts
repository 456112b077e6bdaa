import { defineCommand } from "citty";

import { programMeta } from "./usage.ts";

/** `postbackd admin …`. */
export const adminCommand = defineCommand({
  meta: programMeta({
    name: "postbackd admin",
    description: "Manage accounts and API keys, also while the daemon serves",
    example: "postbackd admin account create alice",
  }),
  subCommands: {
    account: async () => (await import("./admin-account.ts")).accountCommand,
    key: async () => (await import("./admin-key.ts")).keyCommand,
  },
});
