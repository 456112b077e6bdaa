import type { Command } from "./command.ts";

/** `postbackd admin …`. */
export const adminCommand: Command = {
  name: "postbackd admin",
  description:
    "Manage accounts, keys, secrets, access, workers, tasks, deliveries, sign-ins, also while serving",
  example: "postbackd admin account create alice",
  subCommands: {
    account: async () => (await import("./admin-account.ts")).accountCommand,
    key: async () => (await import("./admin-key.ts")).keyCommand,
    secret: async () => (await import("./admin-secret.ts")).secretCommand,
    access: async () => (await import("./admin-access.ts")).accessCommand,
    worker: async () => (await import("./admin-worker.ts")).workerCommand,
    task: async () => (await import("./admin-task.ts")).taskCommand,
    delivery: async () => (await import("./admin-delivery.ts")).deliveryCommand,
    link: async () => (await import("./admin-link.ts")).linkCommand,
  },
};
