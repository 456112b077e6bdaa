import type { TaskSearch } from "../../domain/task/task-search.ts";
import { ATTEMPTS_COUNTED_MAX } from "../../domain/webhook/delivery.ts";
import { type AccountSearch, EARLIEST, LATEST } from "../common/list.ts";
import { storedStates } from "../common/row.ts";
import type { Attempt, FoundDelivery } from "../store.ts";
import type { Connection } from "./machine/connection.ts";

/** A search in SQL: conditions on a task in `tasks AS t`. */

/** The state of a delivery as it is shown; `open` in the table stands for two of them. */
export const SHOWN_STATE = `
  CASE WHEN d.state <> 'open' THEN d.state
    WHEN (SELECT started_at FROM attempts
      WHERE task_seq = d.task_seq AND kind = d.kind ORDER BY seq DESC LIMIT 1) IS NULL
    THEN 'scheduled' ELSE 'in_flight' END`;

/**
 * True when one of the task's webhooks goes to the host and is in the requested state. A retry is searched for among
 * the retries, of which a webhook has one: by its other attempts, a row would cost more the more often it was sent.
 */
const HAS_DELIVERY = `
  EXISTS (SELECT 1 FROM deliveries AS d
    WHERE d.task_seq = t.seq AND (@host IS NULL OR d.host = @host)
      AND (@deliveriesText IS NULL
        OR ${SHOWN_STATE} IN (SELECT value FROM json_each(@deliveriesText))
        OR (@retrying AND d.state = 'open' AND EXISTS (SELECT 1 FROM attempts INDEXED BY attempts_retrying
          WHERE task_seq = d.task_seq AND kind = d.kind AND started_at IS NULL AND retry > 0))))`;

const IS_IN_STATE = `
  (@ready AND t.ready = 1) OR t.state IN (SELECT value FROM json_each(@statesText))`;

/**
 * The condition for each part of a search, where that is given. {@link searchParams} has the parameters that they name.
 */
const CONDITIONS: Readonly<Record<Exclude<keyof TaskSearch, "host">, string>> = {
  login: "(@accountSeq IS NULL OR t.account_seq = @accountSeq)",
  id: "(@id IS NULL OR t.id = @id)",
  type: "(@type IS NULL OR t.type = @type)",
  tag: "(@tag IS NULL OR t.tag = @tag)",
  code: "(@code IS NULL OR t.status_code = @code)",
  createdAfter: "t.created_at >= @createdAfter",
  createdBefore: "t.created_at < @createdBefore",
  states: `(@statesText IS NULL OR ${IS_IN_STATE})`,
  // The webhook to the host must itself be in that state.
  deliveries: `(NOT @delivers OR ${HAS_DELIVERY})`,
};

/** The whole search holds. */
export const PASSES = Object.values(CONDITIONS).join("\n  AND ");

/** The parameters of a search. */
export function searchParams({ accountSeq, search }: AccountSearch) {
  const { id, type, tag, host, code, states, deliveries, createdAfter, createdBefore } = search;
  const shown = states?.filter((state) => state !== "ready");
  return {
    accountSeq,
    id,
    type,
    tag,
    host,
    code,
    createdAfter: createdAfter ?? EARLIEST,
    createdBefore: createdBefore ?? LATEST,
    statesText: shown === undefined ? null : JSON.stringify(shown.flatMap(storedStates)),
    ready: states?.includes("ready") === true ? 1 : 0,
    deliveriesText: deliveries === null ? null : JSON.stringify(deliveries),
    retrying: deliveries?.includes("retrying") === true ? 1 : 0,
    delivers: host === null && deliveries === null ? 0 : 1,
  };
}

export const DELIVERIES_FOUND = `
  SELECT d.kind, d.host, ${SHOWN_STATE} AS state FROM deliveries AS d WHERE d.task_seq = ? ORDER BY d.kind`;

export const ATTEMPTS_FOUND = `
  SELECT count(*) FROM (SELECT 1 FROM attempts WHERE task_seq = ? AND kind = ? LIMIT ${ATTEMPTS_COUNTED_MAX})`;

/** The attempt that is scheduled or under way, if there is one, and the last that has ended. */
export const LAST_ATTEMPTS = `
  SELECT due_at AS dueAt, started_at AS startedAt, ended_at AS endedAt, outcome,
    http_status AS httpStatus, error
  FROM attempts WHERE task_seq = ? AND kind = ? ORDER BY seq DESC LIMIT 2`;

type LastAttempt = Pick<
  Attempt,
  "dueAt" | "startedAt" | "endedAt" | "outcome" | "httpStatus" | "error"
>;

/** Reads the state of a task's webhooks. */
export function foundDeliveries(
  connection: Connection,
): (taskSeq: number) => readonly FoundDelivery[] {
  const select = connection.prepare<[number], Pick<FoundDelivery, "kind" | "host" | "state">>(
    DELIVERIES_FOUND,
  );
  const count = connection.prepare<[number, string], number>(ATTEMPTS_FOUND).pluck();
  const lastOf = connection.prepare<[number, string], LastAttempt>(LAST_ATTEMPTS);

  return (taskSeq) =>
    select.all(taskSeq).map(({ kind, host, state }) => {
      const newest = state === "waiting" ? [] : lastOf.all(taskSeq, kind);
      const isScheduled = newest[0] !== undefined && newest[0].startedAt === null;
      const counted = newest.length === 0 ? 0 : (count.get(taskSeq, kind) ?? 0);
      return {
        kind,
        host,
        state,
        attempts: counted - (isScheduled ? 1 : 0),
        last: newest.map(toLast).find((each) => each !== null) ?? null,
        nextDueAt: isScheduled ? (newest[0]?.dueAt ?? null) : null,
      };
    });
}

function toLast({ outcome, httpStatus, error, endedAt }: LastAttempt): FoundDelivery["last"] {
  // Both are null while it has not ended.
  return outcome === null || endedAt === null ? null : { outcome, httpStatus, error, endedAt };
}
