import { constant, object, text } from "../../api/schema.ts";
import { defineOperation, type Operation } from "../operation.ts";

const UNAVAILABLE = object({
  status: constant("unavailable"),
  reason: text({ description: "Why, in words." }),
});

const PROBE = {
  method: "GET",
  access: "public",
  isHealthCheck: true,
} as const;

/** GET /livez: the process serves requests. If this answers, a restart would not help. */
export function livez(): Operation {
  return defineOperation({
    ...PROBE,
    path: "/livez",
    doc: {
      id: "isAlive",
      group: "Health",
      summary: "Is the process alive",
      description:
        "Answers as long as the process serves requests: restarting it would not help. Never asks for HTTPS.",
      codes: [],
    },
    handle: () => ({ status: 200, text: '{"status":"ok"}' }),
  });
}

/** GET /readyz: tasks can be posted now; 503 with the reason while they cannot. */
export function readyz(deps: { readonly notReadyReason: () => Promise<string | null> }): Operation {
  return defineOperation({
    ...PROBE,
    path: "/readyz",
    doc: {
      id: "isReady",
      group: "Health",
      summary: "Can tasks be posted",
      description: "503 with the reason while they cannot. Never asks for HTTPS.",
      codes: [],
      otherAnswers: { 503: { description: "Tasks cannot be posted now.", schema: UNAVAILABLE } },
    },
    async handle() {
      const reason = await deps.notReadyReason();
      if (reason === null) return { status: 200, text: '{"status":"ok"}' };
      return { status: 503, text: JSON.stringify({ status: "unavailable", reason }) };
    },
  });
}
