import type { DEV_INPUTS, TaskStage } from "../api/dev.ts";
import type { InputValues } from "../api/input.ts";
import { systemClock } from "../domain/clock/clock.ts";
import { momentText, timeText } from "../domain/clock/time.ts";
import { isId } from "../domain/id.ts";
import { StatusError } from "../domain/status.ts";
import { isFinished } from "../domain/task/task.ts";
import { type ExplanationReader, explainDelivery } from "../domain/webhook/delivery-explanation.ts";
import { ClientGoneError } from "../http/body.ts";
import { invalidField } from "../http/inputs.ts";
import type { OperationDeps } from "../http/operation-deps.ts";
import { type Operation, defineOperation } from "../http/operation.ts";
import { timelineAnswer } from "../http/operations/task-search.ts";
import { TASK_ID_PARAM, taskNotFound } from "../http/operations/tasks.ts";
import type { DueItem, TaskTimeline } from "../store/store.ts";
import type { ClockDesk, Destination } from "./clock-desk.ts";
import type { TaskNews } from "./ordered-results.ts";

const NEXT_MAX = 20;

/** Reading and moving the clock of a daemon for development. */
export function devClock(clock: ClockDesk): readonly Operation[] {
  return [
    defineOperation("GET /dev/clock", {
      access: "developer",
      id: "showClock",
      summary: "Show the clock",
      description:
        "Returns the daemon's time, and the next due items of tasks and webhooks. Internal work of the daemon, such as " +
        "storing the last use of a key, is not listed, but an advance stops at it too.",
      handle: () => ({ fields: shown(clock) }),
    }),
    defineOperation("PUT /dev/clock", {
      access: "developer",
      id: "setClock",
      summary: "Stop or start the clock",
      description:
        "The clock stands still until it is advanced (`manual`), or follows the machine's clock (`real`).",
      examples: { manual: { mode: "manual" } },
      handle({ body: { mode } }) {
        clock.mode = mode;
        return { fields: shown(clock) };
      },
    }),
    advance(clock),
  ];
}

function advance(clock: ClockDesk): Operation {
  return defineOperation("POST /dev/clock/advance", {
    access: "developer",
    id: "advanceClock",
    summary: "Advance the clock",
    description:
      "Advances the clock. Retries, starts, timeouts and erasures that become due happen one after the other, with their " +
      "network requests and effects. Give one of `by`, `to`, `until`. Returns 40800 if something that takes real time " +
      "does not end within 30 s, or if work is still due after 60 days of `until`; what has happened until then " +
      "stays. Returns the events since the previous advance, if the clock stood still meanwhile. A " +
      "running clock is advanced too, and runs on.",
    codes: [40800],
    examples: { later: { by: "21m" }, idle: { until: "idle" } },
    async handle({ body, gone }) {
      const journey = await clock
        .advance(destination(body, clock), gone())
        .catch((error: unknown) => {
          throw gone().aborted ? new ClientGoneError("the client closed the connection") : error;
        });
      if (journey.waitsFor.length > 0) {
        const detail =
          `The clock stands at ${timeText(journey.now)} and waits for ${journey.waitsFor.join(", ")}. ` +
          "Let it end, or cancel its task, and advance again.";
        throw new StatusError(40800, { detail });
      }
      const open =
        body.until === null ? undefined : clock.next(Number.MAX_SAFE_INTEGER).find(isOpen);
      if (open !== undefined) {
        const detail =
          `The clock stands at ${timeText(journey.now)}, 60 days on, and ${open.what} is still due at ${timeText(open.at)}. ` +
          "Advance again, or to that time.";
        throw new StatusError(40800, { detail });
      }
      return { fields: { now: timeText(journey.now), events: journey.events } };
    },
  });
}

// Results are kept for weeks, so an erasure does not count as work.
function isOpen({ what }: DueItem): boolean {
  return what !== "erasure";
}

type Given = InputValues<(typeof DEV_INPUTS)["POST /dev/clock/advance"]["body"]>;

function destination({ by, to, until }: Given, clock: ClockDesk): Destination {
  const given = [by, to, until].filter((each) => each !== null);
  if (given.length !== 1) {
    const detail = 'Give exactly one of by ("21m"), to (a time) and until ("idle").';
    throw new StatusError(40000, { detail });
  }
  if (until !== null) return until;
  const at = to ?? clock.now() + (by ?? 0);
  if (at >= clock.now()) return { at };
  throw invalidField("to", `The clock shows ${timeText(clock.now())}, and never goes back.`);
}

function shown(clock: ClockDesk) {
  const next = clock.next(NEXT_MAX).map(({ at, what, taskId, kind }) => {
    return { at: timeText(at), what, task_id: taskId, kind };
  });
  return { mode: clock.mode, now: timeText(clock.now()), next };
}

const READER: ExplanationReader = { role: "operator", writeTime: momentText };

export interface WaitParts {
  readonly clock: ClockDesk;
  readonly news: TaskNews;
}

/** Waits for a task and its webhooks. */
export function devWait({ clock, news }: WaitParts, deps: OperationDeps): Operation {
  return defineOperation("GET /dev/wait/:task_id", {
    access: "developer",
    id: "waitForTask",
    summary: "Wait for a task and its webhooks",
    description:
      "Returns the timeline of the task, as getTimeline does, when it has reached `for`. Returns 40800 with its progress if the " +
      "timeout ends, and immediately if it can never reach `for`. It does not move the clock.",
    params: { task_id: TASK_ID_PARAM },
    codes: [40401, 40403, 40800],
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
  found: TaskTimeline,
  { now, mode }: { readonly now: number; readonly mode: "real" | "manual" },
): string {
  const { task, deliveries } = found;
  const of = { now, reader: READER, account: found, pause: null };
  const explanations = deliveries.map((each) => {
    return ` Its ${each.kind}: ${explainDelivery(each, of)}.`;
  });
  const hint =
    mode === "manual" ? " The clock stands still: POST /dev/clock/advance moves it." : "";
  const isWithout = isFinished(task.state) && deliveries.length === 0;
  const none = isWithout ? " It has no webhook that could be delivered." : "";
  return `The task is ${task.state}.${none}${explanations.join("")}${hint}`;
}
