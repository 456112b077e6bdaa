import { oneOf } from "../domain/rule.ts";
import { WAIT_SECONDS_MAX } from "../domain/task/task-wait.ts";
import { wholeNumber, withDefault, type InputsFor } from "./input.ts";
import { TIMELINE_ANSWERS } from "./timeline.ts";

/** Waiting for a task and its webhooks (contract §9). */

export const TASK_STAGES = ["ended", "delivered", "settled"] as const;
export type TaskStage = (typeof TASK_STAGES)[number];

export const DEV_WAIT_ANSWERS = {
  "GET /dev/wait/:task_id": TIMELINE_ANSWERS["GET /v1/tasks/timeline/:id"],
};

export const DEV_WAIT_INPUTS = {
  "GET /dev/wait/:task_id": {
    query: {
      for: withDefault(
        oneOf(TASK_STAGES),
        "settled",
        "`ended`: the task has; `delivered`: and every webhook of it has arrived; `settled`: and none is still to be sent.",
      ),
      timeout: wholeNumber(
        { min: 0, max: WAIT_SECONDS_MAX, standard: 30 },
        "Seconds of the machine's time, whatever the daemon's clock shows.",
      ),
    },
  },
} satisfies InputsFor<typeof DEV_WAIT_ANSWERS>;
