import { constant, object, text } from "../../api/schema.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Operation } from "../operation.ts";

const UNAVAILABLE = object({
  status: constant("unavailable"),
  reason: text("Why, in words."),
});

const PROBE = { access: "public", isHealthCheck: true } as const;

export function livez(): Operation {
  return defineOperation("GET /livez", {
    ...PROBE,
    doc: {
      id: "isAlive",
      group: "Health",
      summary: "Is the process alive",
      description:
        "Answers as long as the process serves requests: restarting it would not help. Never asks for HTTPS.",
    },
    handle: () => ({ status: 200, text: '{"status":"ok"}' }),
  });
}

export function readyz({ notReadyReason, databaseWarnings }: OperationDeps): Operation {
  return defineOperation("GET /readyz", {
    ...PROBE,
    doc: {
      id: "isReady",
      group: "Health",
      summary: "Can tasks be posted",
      description:
        "503 with the reason while they cannot at this daemon. `warnings` names what the operator should mend in the " +
        "database that all of them share. Never asks for HTTPS.",
      otherAnswers: { 503: { description: "Tasks cannot be posted now.", schema: UNAVAILABLE } },
    },
    async handle() {
      const reason = await notReadyReason();
      if (reason !== null) {
        return { status: 503, text: JSON.stringify({ status: "unavailable", reason }) };
      }
      const warnings = databaseWarnings();
      const status = "ok";
      return {
        status: 200,
        text: JSON.stringify(warnings.length === 0 ? { status } : { status, warnings }),
      };
    },
  });
}
