import type { DeliveryFilter } from "../../domain/webhook/delivery.ts";
import {
  cutHosts,
  NOTHING_COUNTED,
  toCount,
  toDeliverySummary,
  type DeliverySummaryRow,
} from "../common/row.ts";
import type { DeliveryCount, DeliveryCountStep, Store } from "../store.ts";
import {
  ALL_ATTEMPTS,
  ENDED_DELIVERIES,
  OPEN_DELIVERIES,
  OPEN_STATE,
  PASSES_ENDED,
  PASSES_OPEN,
  readFilter,
  type AttemptRange,
} from "./delivery-filter.ts";
import { type NamedStatement, type Sql, named } from "./machine/sql.ts";

/** The lists of deliveries that the operator is shown, of any account. */

/** Walks backwards through the attempts and stops at the limit: nothing is sorted. */
function listOf(from: string, columns: string, condition: string): NamedStatement {
  return named(`
  SELECT a.seq, t.id AS "taskId", c.login, a.kind, d.url, ${columns}
  FROM ${from}
  JOIN tasks AS t ON t.seq = a.task_seq
  JOIN accounts AS c ON c.seq = a.account_seq
  WHERE ${condition}
  ORDER BY a.seq DESC
  LIMIT @limit`);
}

function endOf(row: "a" | "l"): string {
  return `${row}.number, ${row}.outcome, ${row}.http_status AS "httpStatus", ${row}.error, ${row}.ended_at AS "endedAt"`;
}

const LIST_OPEN = listOf(
  OPEN_DELIVERIES,
  `${OPEN_STATE} AS state, CASE WHEN a.started_at IS NULL THEN a.due_at END AS "nextDueAt", ${endOf("l")}`,
  PASSES_OPEN,
);

const LIST_ENDED = listOf(
  ENDED_DELIVERIES,
  `d.ended AS state, NULL::bigint AS "nextDueAt", ${endOf("a")}`,
  PASSES_ENDED,
);

const COUNT_ENDED = named(`
  SELECT a.host, count(*) AS deliveries FROM ${ENDED_DELIVERIES} WHERE ${PASSES_ENDED} GROUP BY a.host`);

/** The first attempt of a step that looks at $2 of them up to $1, and whether there are others before it. */
const STEP_START = `
  SELECT a.seq AS "from", a.ended_at AS "examinedUntil",
    EXISTS (SELECT 1 FROM attempts AS o WHERE o.seq < a.seq) AS "hasMore"
  FROM (SELECT seq, ended_at FROM attempts WHERE seq <= $1 ORDER BY seq DESC LIMIT $2) AS a
  ORDER BY a.seq LIMIT 1`;

/** The first attempt of the log. */
const LOG_START = `
  SELECT seq AS "from", ended_at AS "examinedUntil", false AS "hasMore"
  FROM attempts WHERE seq <= $1 ORDER BY seq LIMIT 1`;

// The most attempts of a step.
const EXAMINED_MAX = 5000;

interface CountTurn extends DeliveryCountStep {
  readonly examineMax?: number | undefined;
}

interface StepStart {
  readonly from: number;
  readonly examinedUntil: number;
  readonly hasMore: boolean;
}

/** The operator's reads that may walk through the whole log of attempts. */
export function deliveryLogReads(sql: Sql) {
  return {
    async listAllDeliveries({ filter, limit, before }) {
      const within = { ...ALL_ATTEMPTS, to: (before ?? Number.MAX_SAFE_INTEGER) - 1 };
      const ranges = await readFilter(sql, filter, within);
      const lists = await Promise.all(
        ranges.flatMap((values) =>
          [LIST_OPEN, LIST_ENDED].map((list) =>
            list.all<DeliverySummaryRow>(sql, { ...values, limit }),
          ),
        ),
      );
      return lists
        .flat()
        .toSorted((a, b) => b.seq - a.seq)
        .slice(0, limit)
        .map(toDeliverySummary);
    },

    async countEndedDeliveries(filter) {
      return cutHosts(await countWithin(sql, filter, ALL_ATTEMPTS));
    },

    async countEndedDeliveriesStep({ examineMax = EXAMINED_MAX, ...step }: CountTurn) {
      const to = (step.before ?? Number.MAX_SAFE_INTEGER) - 1;
      // A task's attempts are found without a walk.
      const start =
        step.filter.taskId === null
          ? await sql.get<StepStart>(STEP_START, [to, examineMax])
          : await sql.get<StepStart>(LOG_START, [to]);
      if (start === undefined) return NOTHING_COUNTED;
      const { from, examinedUntil, hasMore } = start;
      const counted = await countWithin(sql, step.filter, { from, to });
      return { ...counted, next: hasMore ? from : null, examinedUntil };
    },
  } satisfies Partial<Store>;
}

async function countWithin(
  sql: Sql,
  filter: DeliveryFilter,
  within: AttemptRange,
): Promise<DeliveryCount> {
  const ranges = await readFilter(sql, filter, within);
  const counted = await Promise.all(
    ranges.map((values) => COUNT_ENDED.all<DeliveryCount["hosts"][number]>(sql, values)),
  );
  const counts = new Map<string, number>();
  for (const { host, deliveries } of counted.flat()) {
    counts.set(host, (counts.get(host) ?? 0) + deliveries);
  }
  return toCount(counts);
}
