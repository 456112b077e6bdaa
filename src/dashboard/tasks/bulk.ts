import { call, errorText } from "../shell/api.ts";
import type { TaskRow } from "../shell/envelope.ts";
import { isOperator } from "../shell/session.ts";

/** What is done to several tasks at once. */

export type BulkDeed = "redeliver" | "cancel";

/** Requests under way at a time. */
const WIDTH = 4;

/** A task as far as it matters here. */
interface Sendable extends Pick<TaskRow, "state"> {
  readonly deliveries: readonly Pick<TaskRow["deliveries"][number], "state">[];
}

/** True for a task whose webhooks can be sent again: it has ended, and has some. */
export function canRedeliver({ state, deliveries }: Sendable): boolean {
  const hasEnded = state === "completed" || state === "failed";
  return hasEnded && deliveries.some((each) => each.state !== "waiting");
}

/** True for a task that has not ended. */
export function canCancel({ state }: Pick<TaskRow, "state">): boolean {
  return state === "queued" || state === "running";
}

/** The tasks among these that a deed does something to. */
export function tasksFor(deed: BulkDeed, rows: readonly TaskRow[]): readonly TaskRow[] {
  return rows.filter(deed === "redeliver" ? canRedeliver : canCancel);
}

/** Does it to one task. An operator acts for its account. Throws an ApiError. */
export async function doToTask(
  deed: BulkDeed,
  { id, login }: Pick<TaskRow, "id" | "login">,
  body: object = {},
): Promise<void> {
  const path = deed === "redeliver" ? "redeliver" : "task_cancel";
  const account = isOperator.value ? { account: login } : {};
  await call(`/v1/tasks/${path}/${encodeURIComponent(id)}`, { method: "POST", body, ...account });
}

export interface BulkFailure {
  readonly id: string;
  readonly reason: string;
}

/** Does it to each, four at a time; tells after each how many are done. Gives those that failed. */
export async function doToTasks(
  deed: BulkDeed,
  rows: readonly TaskRow[],
  { tell, stop }: { readonly tell: (done: number) => void; readonly stop: AbortSignal },
): Promise<readonly BulkFailure[]> {
  const rest = [...rows];
  const failures: BulkFailure[] = [];
  let done = 0;
  async function work(): Promise<void> {
    for (let row = rest.shift(); row !== undefined && !stop.aborted; row = rest.shift()) {
      try {
        await doToTask(deed, row);
      } catch (error) {
        failures.push({ id: row.id, reason: errorText(error) });
      }
      tell(++done);
    }
  }
  await Promise.all(Array.from({ length: WIDTH }, work));
  return failures;
}
