import type { OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Operation } from "../operation.ts";

export function systemShow({ systemFacts, serviceStatus }: OperationDeps): Operation {
  return defineOperation("GET /v1/operator/system", {
    access: "operator",
    doc: {
      id: "getSystem",
      group: "Operator",
      summary: "Get the system",
      description:
        "The process, its database, its configuration with the source of each value, and the last lines of its log.",
    },
    async handle() {
      const [facts, status] = await Promise.all([systemFacts(), serviceStatus()]);
      return { fields: { ...facts, status } };
    },
  });
}
