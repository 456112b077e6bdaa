import { attemptDocument } from "../../domain/webhook/delivery.ts";
import type { DevDesk } from "../dev-desk.ts";
import { invalidField } from "../fields.ts";
import { defineOperation, type Operation } from "../operation.ts";

/** Webhooks without a task. */
export function devWebhooks({ samples }: DevDesk): Operation {
  return defineOperation("POST /dev/webhooks", {
    access: "developer",
    doc: {
      id: "sendSample",
      group: "Development",
      summary: "Send a sample webhook",
      description:
        "Sends one now, signed by an account's secret, and answers what became of it. The task in it never was, nothing is " +
        "recorded, nothing is sent again, and faults that are ordered leave it alone. A URL that a task could not have is 40501.",
      examples: { postback: { url: "http://127.0.0.1:8080/done", kind: "postback" } },
    },
    async handle({ body }) {
      const sent = await samples.send(body);
      if (sent.kind === "no account") {
        throw invalidField("login", "There is no such account: make it with POST /dev/accounts.");
      }
      if (sent.kind === "refused") throw invalidField("url", sent.reason);
      return { fields: { task_id: sent.taskId, attempt: attemptDocument(sent.attempt) } };
    },
  });
}
