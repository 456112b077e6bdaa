import type { InputValues } from "../../api/input.ts";
import type { TASK_INPUTS } from "../../api/task.ts";
import { retentionEnd } from "../../domain/clock/service-clock.ts";
import { isId } from "../../domain/id.ts";
import { StatusError } from "../../domain/status.ts";
import { ANY_TASK } from "../../domain/task/task-search.ts";
import { OPEN_STATES, type OpenState } from "../../domain/task/task.ts";
import { cancelStep, type BulkFilter, type OpenTaskPlace } from "../../store/store.ts";
import { AccountTurns } from "../admission/turns.ts";
import { openCursor, type ListCursors } from "../list-cursor.ts";
import { CANCEL_EXAMPLES } from "../openapi/examples.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Operation } from "../operation.ts";
import { envelopeAnswer, TASK_ID_PARAM, taskNotFound } from "./tasks.ts";

export function taskCancel(deps: OperationDeps): Operation {
  return defineOperation("POST /v1/tasks/task_cancel/:id", {
    access: "account",
    doc: {
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
    },
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

type Fields = InputValues<(typeof TASK_INPUTS)["POST /v1/tasks/cancel"]["body"]>;

// For one request. Each step cancels some tasks, and the writes and reads of others come in between.
const STEPS_MAX = 10;

export function taskCancelMany(deps: OperationDeps): Operation {
  // However many requests an account sends, others wait for one portion of one of them.
  const turns = new AccountTurns();
  return defineOperation("POST /v1/tasks/cancel", {
    access: "account",
    doc: {
      id: "cancelTasks",
      group: "Tasks",
      summary: "Cancel many tasks",
      description:
        "Cancels the account's queued and running tasks that pass the filter, as one by one: all of them when it is empty. " +
        "The newest come first, and what is posted meanwhile is left alone. A request cancels a bounded number: add up the " +
        "answers, each with the `next_cursor` of the one before, until it is null. It is safe to repeat at any point, from the " +
        "beginning too: what is cancelled is not counted again.",
      codes: [50700],
      examples: {
        tag: { tag: "holiday", state: "queued" },
        preview: { created_before: "2030-01-31T09:00:00.000Z", dry_run: true },
      },
    },
    async handle({ holder: { accountId }, body, gone }) {
      const filter = toFilter(body, accountId);
      const begin = openPlace(body, { accountId, cursors: deps.cursors });
      const walk = { filter, begin, isDry: body.dry_run, gone: gone() };
      const { next, ...counts } = await turns.take(accountId, () => cancelMany(deps, walk));
      const view = next && ({ list: next.state, scope: accountId } as const);
      const cursor = view && deps.cursors.seal(next, view);
      return { fields: { ...counts, dry_run: body.dry_run, next_cursor: cursor } };
    },
  });
}

interface BulkWalk {
  readonly filter: BulkFilter;
  readonly begin: OpenTaskPlace | null;
  readonly isDry: boolean;
  readonly gone: AbortSignal;
}

async function cancelMany(
  { store, clock, retentionMs, cancelled }: OperationDeps,
  { filter, begin, isDry, gone }: BulkWalk,
) {
  const total = { queued: 0, running: 0 };
  let next = begin;
  for (let steps = 0; steps < STEPS_MAX && !gone.aborted; steps++) {
    const moment = { at: clock.now(), steadyAt: clock.steady() };
    const end = { cancelledAt: moment.at, ...retentionEnd(moment, retentionMs) };
    const page = await cancelStep(store, { filter, after: next, end: isDry ? null : end });
    for (const id of page.ids) cancelled(id);
    total.queued += page.queued;
    total.running += page.running;
    next = page.next;
    if (next === null) break;
  }
  return { ...total, next };
}

function toFilter(body: Fields, accountId: number): BulkFilter {
  const { state, dry_run: _dry, cursor: _cursor, created_after, created_before, ...asked } = body;
  const times = { createdAfter: created_after, createdBefore: created_before };
  const states = state === null ? OPEN_STATES : [state];
  return { accountId, states, search: { ...ANY_TASK, ...asked, ...times } };
}

// The state that the walk has reached is part of what the cursor was sealed for.
function openPlace(
  { state, cursor }: Fields,
  { accountId, cursors }: { readonly accountId: number; readonly cursors: ListCursors },
): OpenTaskPlace | null {
  if (cursor === null) return null;
  const isIn = (list: OpenState): boolean =>
    cursors.open(cursor, { list, scope: accountId }) !== null;
  const reached = state ?? OPEN_STATES.find(isIn) ?? OPEN_STATES[0];
  const view = { list: reached, scope: accountId };
  const place = openCursor(cursor, { cursors, isField: true, ...view });
  return place && { state: reached, ...place };
}
