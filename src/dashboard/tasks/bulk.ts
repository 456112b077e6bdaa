import type { FoundTask } from "../../api/search.ts";
import { UNDELIVERED_STATES } from "../../domain/webhook/delivery.ts";
import { call, errorText } from "../shell/api.ts";
import { isOperator } from "../shell/session.ts";

/** What is done to several tasks at once. */

export type TaskAction = "redeliver" | "cancel";

/** Requests under way at a time. */
const WIDTH = 4;

/** A task as far as it matters here. */
interface Sendable extends Pick<FoundTask, "state"> {
  readonly deliveries: readonly Pick<FoundTask["deliveries"][number], "state">[];
}

/** True for a task whose webhooks can be sent again: it has ended, and has some. */
export function canRedeliver({ state, deliveries }: Sendable): boolean {
  const hasEnded = state === "completed" || state === "failed";
  return hasEnded && deliveries.some((each) => each.state !== "waiting");
}

/** True for a task with a webhook that was given up or refused. */
export function hasUndelivered({ deliveries }: Pick<Sendable, "deliveries">): boolean {
  return deliveries.some(({ state }) => UNDELIVERED_STATES.some((each) => each === state));
}

/** True for a task that has not ended. */
export function canCancel({ state }: Pick<FoundTask, "state">): boolean {
  return state === "queued" || state === "running";
}

/** The tasks among these that a action can be done to: of those to redeliver, also those with nothing but what arrived. */
export function tasksFor(action: TaskAction, rows: readonly FoundTask[]): readonly FoundTask[] {
  return rows.filter(action === "redeliver" ? canRedeliver : canCancel);
}

/** Does it to one task. An operator acts for its account. Throws an ApiError. */
export async function doToTask(
  action: TaskAction,
  { id, login }: Pick<FoundTask, "id" | "login">,
  body: object = {},
): Promise<void> {
  const verb = action === "redeliver" ? "redeliver" : "task_cancel";
  const account = isOperator.value ? { account: login } : {};
  await call(`POST /v1/tasks/${verb}/:id`, { params: { id }, body, ...account });
}

export interface BulkFailure {
  readonly id: string;
  readonly reason: string;
}

/** The body that asks for what did not arrive and for nothing else. */
export const ONLY_UNDELIVERED = { states: UNDELIVERED_STATES };

interface BulkOrder {
  readonly action: TaskAction;
  /** Of each request. */
  readonly body: object;
  readonly tell: (done: number) => void;
  readonly stop: AbortSignal;
}

/** Does it to each, four at a time; tells after each how many are done. Gives those that failed. */
export async function doToTasks(
  rows: readonly FoundTask[],
  { action, body, tell, stop }: BulkOrder,
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
      tell(++done);
    }
  }
  await Promise.all(Array.from({ length: WIDTH }, work));
  return failures;
}
