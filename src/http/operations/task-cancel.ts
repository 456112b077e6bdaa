import type { SteadyClock } from "../../domain/clock/clock.ts";
import { retentionEnd } from "../../domain/clock/retention.ts";
import { isId } from "../../domain/id.ts";
import { StatusError } from "../../domain/status.ts";
import type { Store } from "../../store/store.ts";
import { CANCEL_EXAMPLES } from "../openapi/task-example.ts";
import { defineOperation, type Operation } from "../operation.ts";
import { envelopeAnswer, TASK_ID_PARAM, taskNotFound } from "./task-get.ts";

export interface TaskCancelDeps {
  readonly store: Pick<Store, "cancelTask" | "findTask">;
  readonly clock: Pick<SteadyClock, "steady">;
  readonly retentionMs: number;
  /** Tells the engine and everybody who waits that the task was cancelled. */
  readonly cancelled: (id: string) => void;
}

/**
 * POST /v1/tasks/task_cancel/{id}: a queued task never runs, a running one is told to stop; neither is ever ready nor
 * sends anything. Another call answers the same; a task that has completed or failed is 40902.
 */
export function taskCancel(deps: TaskCancelDeps): Operation {
  return defineOperation({
    method: "POST",
    path: "/v1/tasks/task_cancel/:id",
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
