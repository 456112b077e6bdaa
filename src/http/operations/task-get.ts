import { taskEnvelope } from "../../domain/envelope.ts";
import { isId } from "../../domain/id.ts";
import { isExpiredId } from "../../domain/retention.ts";
import { StatusError } from "../../domain/status.ts";
import { StoreError, type Store } from "../../store/store.ts";
import type { Operation } from "../operation.ts";
import { parseQuery, trueOrFalse } from "../query.ts";

export interface TaskGetDeps {
  readonly store: Pick<Store, "findTask" | "collectTask">;
  readonly retentionMs: number;
}

/**
 * GET /v1/tasks/task_get/{id}: the envelope with one task. The first answer for a finished task takes it
 * out of tasks_ready, unless it is a HEAD or says `collect=false`.
 */
export function taskGet({ store, retentionMs }: TaskGetDeps): Operation {
  return {
    method: "GET",
    path: "/v1/tasks/task_get/:id",
    access: "account",
    async handle({ holder, params, query, isHead, now }) {
      const { collect } = parseQuery(query, { collect: trueOrFalse });
      const { accountId } = holder;
      const id = params["id"] ?? "";
      const found = isId(id) ? await store.findTask({ accountId, id }) : null;
      if (found === null) {
        throw new StatusError(isExpiredId(id, { now, retentionMs }) ? 40403 : 40401);
      }
      if (found.isReady && !isHead && collect !== false) {
        await collectIfPossible(store, { accountId, id });
      }
      return { status: 200, text: taskEnvelope(found.task) };
    },
  };
}

// A result that has been read is given out even when the disk is full or locked: the task then stays ready, and
// the next answer collects it.
async function collectIfPossible(
  store: TaskGetDeps["store"],
  key: { readonly accountId: number; readonly id: string },
): Promise<void> {
  try {
    await store.collectTask(key);
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
  }
}
