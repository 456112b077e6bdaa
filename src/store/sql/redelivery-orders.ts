import { hasRoomBeside } from "../../domain/account/quota.ts";
import {
  type DeliveryFilter,
  ORDERS_LISTED_MAX,
  STEP_EXAMINED_MAX,
  examinedBy,
  hastensScheduled,
  isWorkedOff,
  stepSize,
} from "../../domain/webhook/delivery.ts";
import { NOTHING_LEFT, toFilter, toOrder, type OrderRow } from "../common/row.ts";
import { STEP_WRITE, type WriteRules } from "../common/write-rule.ts";
import type { LaneRef } from "../store.ts";
import { beginSeries, type EndedDelivery } from "./deliveries.ts";
import { type AttemptRange, readFilter, selectEnded } from "./delivery-log.ts";
import { eachDialect, onlyPostgres, statement } from "./statement.ts";
import { all, get, send, type Batch, type StoreUseCases, type UseCase } from "./use-case.ts";

const ORDER_COLUMNS = `
  id, filter_text AS "filterText", per_second AS "perSecond", created_at AS "createdAt",
  last_attempt_seq AS "lastAttempt", examined_seq AS examined, redelivered, ended_at AS "endedAt",
  cancelled AS "isCancelled"`;

// Only one batch counts open orders at a time, at any node. This lock conflicts with itself, not with writes of rows.
const LOCK_COUNT = onlyPostgres(`LOCK TABLE bulk_redeliveries IN SHARE UPDATE EXCLUSIVE MODE`);

const OF_LOGIN = `(@login::text IS NULL OR filter_text::json ->> 'login' = @login)`;

export const COUNT_OPEN_ORDERS = statement(`
  SELECT count(*) AS open FROM bulk_redeliveries WHERE ended_at IS NULL AND filter_text::json ->> 'login' = @login`);

const insertOrder = (last: string): string => `
  INSERT INTO bulk_redeliveries (id, filter_text, per_second, created_at, last_attempt_seq)
  VALUES (@id, @filterText, @perSecond, @createdAt, ${last})`;

/** Attempts that are made later have larger numbers. */
const INSERT_ORDER = eachDialect({
  sqlite: insertOrder(`(SELECT coalesce(max(seq), 0) FROM attempts)`),
  postgres: insertOrder(`@last`),
});

export const FIND_ORDER = statement(
  `SELECT ${ORDER_COLUMNS} FROM bulk_redeliveries WHERE id = @id`,
);
const LOCK_ORDER = statement(
  `SELECT ${ORDER_COLUMNS} FROM bulk_redeliveries WHERE id = @id FOR UPDATE`,
);

// An order of a suspended account rests: the deliveries that it began would be held, and be sent all together when the
// account is enabled.
export const LIST_OPEN_ORDERS = statement(`
  SELECT ${ORDER_COLUMNS} FROM bulk_redeliveries
  WHERE ended_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM accounts WHERE login = filter_text::json ->> 'login' AND disabled_at IS NOT NULL
  )
  ORDER BY seq
  LIMIT @limit`);

export const LIST_ORDERS = statement(`
  SELECT ${ORDER_COLUMNS}
  FROM (SELECT * FROM bulk_redeliveries ORDER BY seq DESC LIMIT ${ORDERS_LISTED_MAX}) AS o
  WHERE ${OF_LOGIN}
  ORDER BY seq DESC
  LIMIT @limit`);

export const CANCEL_ORDER = statement(`
  UPDATE bulk_redeliveries SET ended_at = @now, cancelled = true
  WHERE id = @id AND ended_at IS NULL AND ${OF_LOGIN}`);

/** The end of a step that finds little: some attempts further on. */
export const STEP_END = statement(`
  SELECT seq FROM attempts WHERE seq BETWEEN @from AND @to ORDER BY seq LIMIT 1 OFFSET ${STEP_EXAMINED_MAX - 1}`);

/** Deliveries that ended after the order was given are not part of it, even when their attempts began before. */
export const SELECT_ORDERED = selectEnded(
  `a.seq, a.task_seq AS "taskSeq", a.kind, a.account_seq AS "accountId"`,
  `AND a.ended_at <= @createdAt ORDER BY a.seq LIMIT @max`,
);

// Attempts that this order began are due already.
const hastenOrdered = (table: string): string => `
  UPDATE ${table} SET due_at = @now
  WHERE task_seq = (SELECT seq FROM tasks WHERE id = @taskId::uuid)
    AND (@kind::webhook_kind IS NULL OR kind = @kind) AND started_at IS NULL AND due_at > @now
  RETURNING account_seq AS "accountId", host`;

export const HASTEN_ORDERED = eachDialect({
  sqlite: hastenOrdered("attempts"),
  postgres: hastenOrdered("outbox"),
});

export const ADVANCE_ORDER = statement(`
  UPDATE bulk_redeliveries
  SET examined_seq = @examined, redelivered = redelivered + @redelivered, ended_at = @endedAt
  WHERE id = @id`);

/** An ended delivery that an order covers, with the seq of its newest attempt. */
interface OrderedRow extends EndedDelivery {
  readonly seq: number;
}

export function redeliveryOrderWrites(batch: Batch) {
  return {
    *orderRedelivery({ openMax, ...order }) {
      const { id, filter, perSecond, createdAt } = order;
      if (openMax !== null) {
        yield* send(LOCK_COUNT);
        const found = yield* get<{ open: number }>(COUNT_OPEN_ORDERS, { login: filter.login });
        if (!hasRoomBeside(found?.open ?? 0, openMax)) return "busy";
      }
      const filterText = JSON.stringify(filter);
      yield* send(INSERT_ORDER, { id, filterText, perSecond, createdAt, last: batch.nextSeq() });
      return { ...order, redelivered: 0, endedAt: null, isCancelled: false };
    },

    *cancelRedeliveryOrder({ id, login, now }) {
      yield* send(CANCEL_ORDER, { id, login, now });
      const found = yield* findOrder(id);
      return login === null || found?.filter.login === login ? found : null;
    },

    *stepRedeliveryOrder({ id, max, now }) {
      const order = yield* get<OrderRow>(LOCK_ORDER, { id });
      if (order === undefined || order.endedAt !== null) return NOTHING_LEFT;
      const filter = toFilter(order);
      const { found, examined } = yield* search(order, filter, stepSize(max));
      const { taskId, kind } = filter;
      const hastened = hastensScheduled(filter)
        ? yield* all<LaneRef>(HASTEN_ORDERED, { taskId, kind, now })
        : [];
      const begun = yield* beginSeries(batch, found, now);
      const isDone = isWorkedOff({ examined, lastAttempt: order.lastAttempt });
      const redelivered = hastened.length + begun.length;
      yield* send(ADVANCE_ORDER, { id, examined, redelivered, endedAt: isDone ? now : null });
      // In the order of the attempts.
      const hosts = new Map(begun.map((each) => [`${each.taskSeq} ${each.kind}`, each.host]));
      const lanes = found.flatMap(({ taskSeq, kind: of, accountId }): LaneRef[] => {
        const host = hosts.get(`${taskSeq} ${of}`);
        return host === undefined ? [] : [{ accountId, host }];
      });
      return { lanes: [...hastened, ...lanes], redelivered, isDone };
    },
  } satisfies StoreUseCases;
}

/** Searches for the deliveries of a step; returns them, and the last attempt that it examined. */
function* search(
  { createdAt, ...order }: OrderRow,
  filter: DeliveryFilter,
  max: number,
): UseCase<{ found: readonly OrderedRow[]; examined: number }> {
  const found: OrderedRow[] = [];
  if (max === 0) return { found, examined: order.examined };
  const left = { from: order.examined + 1, to: order.lastAttempt };
  // A task's attempts are found without a walk.
  const within = filter.taskId === null ? yield* firstOf(left) : left;
  for (const values of yield* readFilter(filter, within)) {
    const bounds = { createdAt, max: max - found.length };
    found.push(...(yield* all<OrderedRow>(SELECT_ORDERED, { ...values, ...bounds })));
  }
  return { found, examined: examinedBy({ found, max, to: within.to }) };
}

function* firstOf({ from, to }: AttemptRange): UseCase<AttemptRange> {
  return { from, to: (yield* get<{ seq: number }>(STEP_END, { from, to }))?.seq ?? to };
}

function* findOrder(id: string) {
  const row = yield* get<OrderRow>(FIND_ORDER, { id });
  return row === undefined ? null : toOrder(row);
}

export const redeliveryOrderReads = {
  findRedeliveryOrder: findOrder,

  *listRedeliveryOrders({ login, limit }) {
    return (yield* all<OrderRow>(LIST_ORDERS, { login, limit })).map(toOrder);
  },

  *listOpenRedeliveryOrders({ limit }) {
    return (yield* all<OrderRow>(LIST_OPEN_ORDERS, { limit })).map(toOrder);
  },
} satisfies StoreUseCases;

export const redeliveryOrderRules = {
  orderRedelivery: { hasEffect: (order) => order !== "busy" },
  cancelRedeliveryOrder: {},
  stepRedeliveryOrder: { weight: STEP_WRITE, news: (_, { lanes }) => ({ lanes }) },
} satisfies WriteRules;
