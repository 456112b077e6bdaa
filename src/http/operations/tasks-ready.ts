import { summaryJson, tasksEnvelope } from "../../domain/envelope.ts";
import { TAG_LENGTH_MAX } from "../../domain/task-post.ts";
import type { ReadyCursor, Store } from "../../store/store.ts";
import type { Operation } from "../operation.ts";
import { parseQuery, textUpTo, wholeNumber } from "../query.ts";

const LIMIT_DEFAULT = 100;
const LIMIT_MAX = 1000;
const TYPE_LENGTH_MAX = 64;

/** GET /v1/tasks/tasks_ready: finished tasks that were not collected, oldest completion first. */
export function tasksReady({ store }: { readonly store: Pick<Store, "listReady"> }): Operation {
  return {
    method: "GET",
    path: "/v1/tasks/tasks_ready",
    access: "account",
    async handle({ holder, query }) {
      const { limit, cursor, tag, type } = parseQuery(query, {
        limit: wholeNumber(1, LIMIT_MAX),
        cursor: parseCursor,
        // A code point takes two units at most.
        tag: textUpTo(2 * TAG_LENGTH_MAX),
        type: textUpTo(TYPE_LENGTH_MAX),
      });
      const { accountId } = holder;
      const page = { accountId, limit: limit ?? LIMIT_DEFAULT, after: cursor, tag, type };
      const { tasks, next } = await store.listReady(page);
      const items = tasks.map((task) => ({ code: task.statusCode, text: summaryJson(task) }));
      const nextText = next === null ? "null" : `"${formatCursor(next)}"`;
      return { status: 200, text: tasksEnvelope(items, `"next_cursor":${nextText}`) };
    },
  };
}

const CURSOR = /^(\d{1,15})-(\d{1,15})$/;

function formatCursor({ completedAt, seq }: ReadyCursor): string {
  return Buffer.from(`${completedAt}-${seq}`).toString("base64url");
}

// Only what formatCursor wrote: decoding and encoding again must give the same text.
function parseCursor(text: string): ReadyCursor | null {
  const match = CURSOR.exec(Buffer.from(text, "base64url").toString("latin1"));
  if (match === null) return null;
  const cursor = { completedAt: Number(match[1]), seq: Number(match[2]) };
  return formatCursor(cursor) === text ? cursor : null;
}
