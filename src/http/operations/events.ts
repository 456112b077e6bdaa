import { StatusError } from "../../domain/status.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { defineOperation, type AnswerHeaderDoc, type Operation } from "../operation.ts";

const CONTENT_TYPE = "text/event-stream";

// nginx would gather the events of minutes before it passes them on.
const UNBUFFERED = { "x-accel-buffering": "no" } as const;

const HEADER_DOCS: Readonly<Record<string, AnswerHeaderDoc>> = {
  "X-Accel-Buffering": {
    description: "Asks proxies to pass on each event as it comes.",
    schema: { const: "no" },
    isAlways: true,
  },
};

const EXAMPLE = [
  "retry: 2000\n",
  "event: change",
  "id: 5f0c7a1e9b3d.17",
  'data: {"tasks":{"waiting":2,"running":1,"ready":0,"retrying":1,"undelivered":0},"time":"2026-01-01T12:00:00.000Z"}\n\n',
].join("\n");

export function events({ liveFeed }: OperationDeps): Operation {
  return defineOperation("GET /v1/events", {
    access: "viewer",
    isDashboard: true,
    doc: {
      id: "streamEvents",
      group: "Dashboard",
      summary: "Be told of changes as they happen",
      description:
        "Server-sent events. `change`: a task or a delivery has changed; `data` says how much there is to do now. It " +
        "comes at most four times a second, and at once when the stream begins, unless `Last-Event-ID` shows that " +
        "nothing is new. `end`: the daemon stops, or the session or the key is over. A comment comes every 15 seconds. " +
        "A session or a key may have 10 streams open, an account 50; all together 200.",
      headers: {
        "Last-Event-ID": {
          description: "The id of the last event of an earlier stream.",
          schema: { type: "string", examples: ["5f0c7a1e9b3d.17"] },
        },
      },
      answerType: CONTENT_TYPE,
      answerHeaders: HEADER_DOCS,
      answerExamples: { change: EXAMPLE },
      codes: [42900],
    },
    handle({ scope, credential, admitAgain, headers }) {
      const lastEventId = headers("last-event-id")[0] ?? null;
      const stillAdmitted = (): Promise<boolean> => isAdmitted(admitAgain);
      const listener = { scope: scope?.accountId ?? null, credential, stillAdmitted, lastEventId };
      return {
        status: 200,
        text: "",
        headers: UNBUFFERED,
        stream: { contentType: CONTENT_TYPE, open: () => liveFeed.open(listener) },
      };
    },
  });
}

async function isAdmitted(admitAgain: () => Promise<void>): Promise<boolean> {
  try {
    await admitAgain();
    return true;
  } catch (error) {
    if (error instanceof StatusError) return false;
    throw error;
  }
}
