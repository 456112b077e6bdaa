import type { TaskSearch } from "../../domain/task/task-search.ts";
import { STATE_CODES } from "../../domain/task/task.ts";
import { type AccountSearch, EARLIEST, LATEST } from "../common/list.ts";
import { storedStates } from "../common/row.ts";

/** A search in SQL: conditions on a task in `tasks AS t`. */

/** How a database finds what a search asks for. */
interface SearchDialect {
  readonly state: string;
  readonly code: string;
  readonly isReady: string;
  /** One of the task's webhooks goes to the host and is in the requested state. */
  readonly hasDelivery: string;
}

/**
 * A retry is searched for among the retries, of which a webhook has one: by its other attempts, a row would cost more the
 * more often it was sent.
 */
const SEARCH_ON_SQLITE: SearchDialect = {
  state: "t.state",
  code: "t.status_code",
  isReady: "t.ready = 1",
  hasDelivery: `
  EXISTS (SELECT 1 FROM deliveries AS d
    WHERE d.task_seq = t.seq AND (@host IS NULL OR d.host = @host)
      AND (@deliveries IS NULL
        OR coalesce(d.ended, (
          SELECT iif(started_at IS NULL, 'scheduled', 'in_flight') FROM attempts
          WHERE task_seq = d.task_seq AND kind = d.kind ORDER BY seq DESC LIMIT 1
        ), 'waiting') IN (SELECT value FROM json_each(@deliveries))
        OR (@retrying AND d.ended IS NULL AND EXISTS (SELECT 1 FROM attempts INDEXED BY attempts_retrying
          WHERE task_seq = d.task_seq AND kind = d.kind AND started_at IS NULL AND retry > 0))))`,
};

/** A delivery with the attempt that is scheduled or in flight, if it has one. */
export const DELIVERIES_ON_POSTGRES = `
  deliveries AS d LEFT JOIN outbox AS o ON o.task_seq = d.task_seq AND o.kind = d.kind`;

/** Of such a delivery, on both databases. */
export const SHOWN_STATE = `
  CASE WHEN d.ended IS NOT NULL THEN d.ended::text WHEN o.seq IS NULL THEN 'waiting'
    WHEN o.started_at IS NULL THEN 'scheduled' ELSE 'in_flight' END`;

/**
 * Another table is looked up by a subquery with one value: the server runs it only for a task that it comes to, and never
 * makes a join of it that reads a whole table.
 */
const SEARCH_ON_POSTGRES: SearchDialect = {
  state: `
  coalesce((SELECT q.state FROM queue AS q WHERE q.task_seq = t.seq), (SELECT e.state FROM ends AS e WHERE e.task_seq = t.seq))`,
  code: `
  coalesce((SELECT e.status_code FROM ends AS e WHERE e.task_seq = t.seq), (
    SELECT CASE q.state WHEN 'running' THEN ${STATE_CODES.running} ELSE ${STATE_CODES.queued} END
    FROM queue AS q WHERE q.task_seq = t.seq))`,
  isReady: `(SELECT true FROM ready AS r WHERE r.task_seq = t.seq)`,
  hasDelivery: `
  (SELECT true FROM ${DELIVERIES_ON_POSTGRES}
    WHERE d.task_seq = t.seq AND (@host::text IS NULL OR d.host = @host)
      AND (@deliveries::text[] IS NULL
        OR ${SHOWN_STATE} = ANY(@deliveries)
        OR (@retrying::boolean AND o.started_at IS NULL AND o.retry > 0))
    LIMIT 1)`,
};

/** The condition for each part of a search that is given. {@link searchValues} has the parameters that they name. */
function conditions(of: SearchDialect): string {
  const each: Readonly<Record<Exclude<keyof TaskSearch, "host">, string>> = {
    login: "(@accountId::bigint IS NULL OR t.account_seq = @accountId)",
    id: "(@id::uuid IS NULL OR t.id = @id)",
    type: "(@type::text IS NULL OR t.type = @type)",
    tag: "(@tag::text IS NULL OR t.tag = @tag)",
    createdAfter: "t.created_at >= @createdAfter::bigint",
    createdBefore: "t.created_at < @createdBefore::bigint",
    code: `(@code::int IS NULL OR ${of.code} = @code)`,
    states: `(@states::task_state[] IS NULL OR (@ready::boolean AND ${of.isReady}) OR ${of.state} = ANY(@states))`,
    // The webhook to the host must itself be in that state.
    deliveries: `(NOT @delivers::boolean OR ${of.hasDelivery})`,
  };
  return Object.values(each).join("\n  AND ");
}

/** The whole search holds. */
export const PASSES = {
  sqlite: conditions(SEARCH_ON_SQLITE),
  postgres: conditions(SEARCH_ON_POSTGRES),
};

/** The parameters of a search. */
export function searchValues({ accountId, search }: AccountSearch) {
  const { id, type, tag, host, code, states, deliveries, createdAfter, createdBefore } = search;
  const shown = states?.filter((state) => state !== "ready");
  return {
    accountId,
    id,
    type,
    tag,
    host,
    code,
    createdAfter: createdAfter ?? EARLIEST,
    createdBefore: createdBefore ?? LATEST,
    states: shown?.flatMap(storedStates) ?? null,
    ready: states?.includes("ready") === true ? 1 : 0,
    deliveries,
    retrying: deliveries?.includes("retrying") === true ? 1 : 0,
    delivers: host === null && deliveries === null ? 0 : 1,
  };
}
