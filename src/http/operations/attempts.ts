import type { ListedAttempt as ListedAttemptShown } from "../../api/delivery.ts";
import { timeOrNull, timeText } from "../../domain/clock/time.ts";
import { openCursor } from "../list-cursor.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Operation } from "../operation.ts";

export function attemptList({ store, cursors }: OperationDeps): Operation {
  return defineOperation("GET /v1/tasks/attempts", {
    access: "account",
    doc: {
      id: "listAttempts",
      group: "Tasks",
      summary: "Follow the attempts of all webhooks",
      description:
        "Every attempt of the account's webhooks once, in the order in which they were scheduled. Without a cursor: the " +
        "attempts that are scheduled now, soonest due first (of 5,000 at most, those to one host first), and the cursor " +
        "behind the newest one. With it: those that " +
        "were scheduled since, whether they have started or not. A page may be empty and still have `more`. Several " +
        "daemons on one database list an attempt ten seconds after it was scheduled.",
    },
    async handle({ holder, query, now }) {
      const { accountId } = holder;
      const view = { list: "webhooks", scope: accountId } as const;
      const seal = (seq: number): string => cursors.seal({ timeMs: 0, seq }, view);
      const after = openCursor(query.cursor, { cursors, ...view })?.seq ?? null;
      const page = await store.listAttempts({ accountId, after, limit: query.limit, now });
      const attempts = page.attempts.map(
        ({ seq, taskId, type, tag, kind, number, dueAt, startedAt }): ListedAttemptShown => ({
          task_id: taskId,
          type,
          tag,
          kind,
          number,
          due_at: timeText(dueAt),
          started_at: timeOrNull(startedAt),
          cursor: startedAt === null ? seal(seq - 1) : null,
        }),
      );
      return { fields: { attempts, next_cursor: seal(page.next), more: page.hasMore } };
    },
  });
}
