import type { BodyOf } from "../../api/operations.ts";
import type { FoundTask } from "../../api/search.ts";
import { UNDELIVERED_STATES } from "../../domain/webhook/delivery.ts";
import { call, errorText } from "../shell/api.ts";
import { isOperator } from "../shell/session.ts";

/** The actions on several tasks at once. */

export type TaskAction = "redeliver" | "cancel";

/** Which webhooks of a task are sent again; to cancel one takes none of it. */
type RedeliverBody = BodyOf<"POST /v1/tasks/redeliver/:id">;

/** How many requests are under way at a time. */
const WIDTH = 4;

/** The part of a task that matters here. */
interface Sendable extends Pick<FoundTask, "state"> {
  readonly deliveries: readonly Pick<FoundTask["deliveries"][number], "state" | "is_paused">[];
}

/** True for an ended task with a webhook that can be sent again or earlier: a paused one waits in any case. */
export function canRedeliver({ state, deliveries }: Sendable): boolean {
  const hasEnded = state === "completed" || state === "failed";
  return hasEnded && deliveries.some((each) => each.state !== "waiting" && !each.is_paused);
}

/** True for a task with a webhook that was given up or refused. */
export function hasUndelivered({ deliveries }: Pick<Sendable, "deliveries">): boolean {
  return deliveries.some(({ state }) => UNDELIVERED_STATES.some((each) => each === state));
}

/** True for a task that has not ended. */
export function canCancel({ state }: Pick<FoundTask, "state">): boolean {
  return state === "queued" || state === "running";
}

/** The tasks among these that an action applies to. For redelivery that includes tasks whose webhooks all arrived. */
export function tasksFor(action: TaskAction, rows: readonly FoundTask[]): readonly FoundTask[] {
  return rows.filter(action === "redeliver" ? canRedeliver : canCancel);
}

/** Does an action to one task. An operator acts for the task's account. Throws an ApiError. */
export async function doToTask(
  action: TaskAction,
  { id, login }: Pick<FoundTask, "id" | "login">,
  body: RedeliverBody = {},
): Promise<void> {
  const verb = action === "redeliver" ? "redeliver" : "task_cancel";
  const account = isOperator.value ? { account: login } : {};
  await call(`POST /v1/tasks/${verb}/:id`, { params: { id }, body, ...account });
}

export interface BulkFailure {
  readonly id: string;
  readonly reason: string;
}

/** The body that asks only for webhooks that did not arrive. */
export const ONLY_UNDELIVERED = { states: UNDELIVERED_STATES };

interface BulkOrder {
  readonly action: TaskAction;
  /** The body of each request. */
  readonly body: RedeliverBody;
  readonly report: (done: number) => void;
  readonly stop: AbortSignal;
}

/** Does an action to each task, four at a time; reports after each how many are done. Returns the failures. */
export async function doToTasks(
  rows: readonly FoundTask[],
  { action, body, report, stop }: BulkOrder,
): Promise<readonly BulkFailure[]> {
  const rest = [...rows];
  const failures: BulkFailure[] = [];
  let done = 0;
  async function work(): Promise<void> {
    for (let row = rest.shift(); row !== undefined && !stop.aborted; row = rest.shift()) {
      try {
        await doToTask(action, row, body);
      } catch (error) {
        failures.push({ id: row.id, reason: errorText(error) });
      }
      report(++done);
    }
  }
  await Promise.all(Array.from({ length: WIDTH }, work));
  return failures;
}
