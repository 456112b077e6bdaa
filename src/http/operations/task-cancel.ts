import { retentionEnd } from "../../domain/clock/retention.ts";
import { isId } from "../../domain/id.ts";
import { StatusError } from "../../domain/status.ts";
import { CANCEL_EXAMPLES } from "../openapi/task-example.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Operation } from "../operation.ts";
import { envelopeAnswer, TASK_ID_PARAM, taskNotFound } from "./task-get.ts";

export function taskCancel(deps: OperationDeps): Operation {
  return defineOperation("POST /v1/tasks/task_cancel/:id", {
    access: "account",
    doc: DOC,
    async handle({ holder, params, now }) {
      const key = { accountId: holder.accountId, id: params["id"] ?? "" };
      const notFound = (): StatusError => taskNotFound(key.id, { ...deps, now });
      if (!isId(key.id)) throw notFound();
      const moment = { at: now, steadyAt: deps.clock.steady() };
      const end = retentionEnd(moment, deps.retentionMs);
      const outcome = await deps.store.cancelTask({ ...key, ...end, cancelledAt: now });
      if (outcome === "unknown") throw notFound();
      if (outcome === "finished") throw new StatusError(40902);
      if (outcome === "cancelled") deps.cancelled(key.id);
      const found = await deps.store.findTask(key);
      if (found === null) throw notFound();
      return envelopeAnswer(found);
    },
  });
}

const DOC: Operation["doc"] = {
  id: "cancelTask",
  group: "Tasks",
  summary: "Cancel a task",
  description:
    "A queued task never runs, a running one is told to stop. A cancelled task is never ready and sends no webhook. " +
    "Cancelling it again answers the same.",
  params: { id: TASK_ID_PARAM },
  answerExamples: CANCEL_EXAMPLES,
  codes: [40401, 40403, 40902, 50700],
  examples: { empty: {} },
};
