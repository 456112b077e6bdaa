import type { TaskSearch } from "../../domain/task/task-search.ts";
import { STATE_CODES } from "../../domain/task/task.ts";
import { EARLIEST, LATEST, type AccountSearch } from "../common/list-source.ts";
import { storedStates } from "../common/stored-states.ts";
import { toUuid } from "./task-columns.ts";

/**
 * A search in SQL: conditions on a task in `tasks AS t`. Whatever lies in another table is looked up by a subquery with
 * one value: the server runs it only for a task that it comes to, and never makes a join of it that reads a whole table.
 */

/** A delivery with the attempt that is scheduled or in flight, if there is one. */
export const DELIVERIES = `
  deliveries AS d LEFT JOIN outbox AS o ON o.task_seq = d.task_seq AND o.kind = d.kind`;

/** The state of a delivery of {@link DELIVERIES} as it is shown. */
export const SHOWN_STATE = `
  CASE WHEN d.ended IS NOT NULL THEN d.ended::text WHEN o.seq IS NULL THEN 'waiting'
    WHEN o.started_at IS NULL THEN 'scheduled' ELSE 'in_flight' END`;

// One of the task's webhooks goes to the host and is in the requested state.
const HAS_DELIVERY = `
  (SELECT true FROM ${DELIVERIES}
    WHERE d.task_seq = t.seq AND (@host::text IS NULL OR d.host = @host)
      AND (@deliveries::text[] IS NULL
        OR ${SHOWN_STATE} = ANY(@deliveries)
        OR (@retrying::boolean AND o.started_at IS NULL AND o.retry > 0))
    LIMIT 1)`;

const IS_READY = `(SELECT true FROM ready AS r WHERE r.task_seq = t.seq)`;

const STATE = `
  coalesce((SELECT q.state FROM queue AS q WHERE q.task_seq = t.seq), (SELECT e.state FROM ends AS e WHERE e.task_seq = t.seq))`;

const CODE = `
  coalesce((SELECT e.status_code FROM ends AS e WHERE e.task_seq = t.seq), (
    SELECT CASE q.state WHEN 'running' THEN ${STATE_CODES.running} ELSE ${STATE_CODES.queued} END
    FROM queue AS q WHERE q.task_seq = t.seq))`;

/**
 * The condition for each part of a search, where that is given. {@link searchParams} has the parameters that they name.
 */
const CONDITIONS: Readonly<Record<Exclude<keyof TaskSearch, "host">, string>> = {
  login: "(@accountSeq::bigint IS NULL OR t.account_seq = @accountSeq)",
  id: "(@id::uuid IS NULL OR t.id = @id)",
  type: "(@type::text IS NULL OR t.type = @type)",
  tag: "(@tag::text IS NULL OR t.tag = @tag)",
  createdAfter: "t.created_at >= @createdAfter::bigint",
  createdBefore: "t.created_at < @createdBefore::bigint",
  code: `(@code::int IS NULL OR ${CODE} = @code)`,
  states: `(@states::task_state[] IS NULL OR (@ready::boolean AND ${IS_READY}) OR ${STATE} = ANY(@states))`,
  // The webhook to the host must itself be in that state.
  deliveries: `(NOT @delivers::boolean OR ${HAS_DELIVERY})`,
};

/** The whole search holds. */
export const PASSES = Object.values(CONDITIONS).join("\n  AND ");

/** The parameters of a search. */
export function searchParams({ accountSeq, search }: AccountSearch) {
  const { id, type, tag, host, code, states, deliveries, createdAfter, createdBefore } = search;
  const shown = states?.filter((state) => state !== "ready");
  return {
    accountSeq,
    id: id === null ? null : toUuid(id),
    type,
    tag,
    host,
    code,
    createdAfter: createdAfter ?? EARLIEST,
    createdBefore: createdBefore ?? LATEST,
    states: shown?.flatMap(storedStates) ?? null,
    ready: states?.includes("ready") === true,
    deliveries,
    retrying: deliveries?.includes("retrying") === true,
    delivers: host !== null || deliveries !== null,
  };
}
