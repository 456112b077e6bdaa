import type { TaskStage } from "../../api/dev.ts";
import { systemClock } from "../../domain/clock/clock.ts";
import { momentText } from "../../domain/clock/time.ts";
import { isId } from "../../domain/id.ts";
import { StatusError } from "../../domain/status.ts";
import { isFinished } from "../../domain/task/task.ts";
import {
  explainDelivery,
  type ExplanationReader,
} from "../../domain/webhook/delivery-explanation.ts";
import type { TaskTimeline } from "../../store/store.ts";
import { ClientGoneError } from "../body.ts";
import type { DevDesk } from "../dev-desk.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Operation } from "../operation.ts";
import { TASK_ID_PARAM, taskNotFound } from "./task-get.ts";
import { timelineAnswer } from "./timeline.ts";

const READER: ExplanationReader = { role: "operator", writeTime: momentText };

/** Waits for a task and its webhooks. */
export function devWait(deps: OperationDeps, { clock, news }: DevDesk): Operation {
  return defineOperation("GET /dev/wait/:task_id", {
    access: "developer",
    doc: {
      id: "waitForTask",
      group: "Development",
      summary: "Wait for a task and its webhooks",
      description:
        "Answers what happened to the task when it has come so far, as getTimeline does. 40800, with how far it came, when the " +
        "time is up, and at once when it will never come so far. It moves no clock.",
      params: { task_id: TASK_ID_PARAM },
      codes: [40401, 40403, 40800],
    },
    async handle({ params, query, room, gone, now }) {
      const id = params["task_id"] ?? "";
      if (!isId(id)) throw taskNotFound(id, { ...deps, now });
      const over = new AbortController();
      const timer = systemClock.setTimer(query.timeout * 1000, () => over.abort());
      const stopped = AbortSignal.any([gone(), over.signal]);
      try {
        for (;;) {
          const next = news.next(id, stopped);
          const found = await deps.store.findTimeline({ scope: null, id });
          if (found === null) throw taskNotFound(id, { ...deps, now });
          const progress = progressTo(query.for, found);
          const moment = deps.clock.now();
          if (progress === "there")
            return timelineAnswer(found, { deps, now: moment, reader: READER });
          if (progress === "never" || over.signal.aborted) {
            throw new StatusError(40800, {
              detail: howFar(found, { now: moment, mode: clock.mode }),
            });
          }
          await room.whileWaiting(() => next);
          if (gone().aborted) throw new ClientGoneError("the client closed the connection");
        }
      } finally {
        timer.cancel();
        over.abort();
      }
    },
  });
}

function progressTo(
  stage: TaskStage,
  { task, deliveries }: TaskTimeline,
): "there" | "under way" | "never" {
  if (!isFinished(task.state)) return "under way";
  if (stage === "ended") return "there";
  const isOpen = deliveries.some(({ state }) => state === "scheduled" || state === "in_flight");
  if (stage === "settled") return isOpen ? "under way" : "there";
  const isLost = deliveries.some(({ state }) => state === "given_up" || state === "refused");
  if (isLost || deliveries.length === 0) return "never";
  return isOpen ? "under way" : "there";
}

function howFar(
  { task, deliveries }: TaskTimeline,
  { now, mode }: { readonly now: number; readonly mode: "real" | "manual" },
): string {
  const explanations = deliveries.map((each) => {
    return ` Its ${each.kind}: ${explainDelivery(each, { now, reader: READER, pause: null })}.`;
  });
  const hint =
    mode === "manual" ? " The clock stands still: POST /dev/clock/advance moves it." : "";
  const isWithout = isFinished(task.state) && deliveries.length === 0;
  const none = isWithout ? " It has no webhook that could be delivered." : "";
  return `The task is ${task.state}.${none}${explanations.join("")}${hint}`;
}
