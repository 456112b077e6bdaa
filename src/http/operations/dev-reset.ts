import type { DevDesk } from "../dev-desk.ts";
import { defineOperation, type Operation } from "../operation.ts";

/** Beginning again, between two tests. */
export function devReset({ reset }: DevDesk): Operation {
  return defineOperation("POST /dev/reset", {
    access: "developer",
    doc: {
      id: "reset",
      group: "Development",
      summary: "Begin again",
      description:
        "Erases tasks, whatever they are at, with their webhooks and kept answers, and takes back rules and faults. Attempts " +
        "under way are broken off. Accounts stay, and the clock stays as it is.",
      examples: { all: {} },
    },
    async handle() {
      return { fields: { tasks_erased: await reset() } };
    },
  });
}
