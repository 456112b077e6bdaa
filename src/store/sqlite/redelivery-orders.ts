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
import type { LaneRef } from "../store.ts";
import type { BatchChanges } from "./counts.ts";
import { seriesStarter, type EndedDelivery } from "./deliveries.ts";
import { filterReader, NEWEST_ATTEMPTS, passes, type AttemptRange } from "./delivery-filter.ts";
import type { Connection } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";

const ORDER_COLUMNS = `
  id, filter_text AS filterText, per_second AS perSecond, created_at AS createdAt,
  last_attempt_seq AS lastAttempt, examined_seq AS examined, redelivered, ended_at AS endedAt,
  cancelled AS isCancelled`;

const INSERT_ORDER = `
  INSERT INTO redelivery_orders (id, filter_text, per_second, created_at, last_attempt_seq)
  VALUES (@id, @filterText, @perSecond, @createdAt, (SELECT coalesce(max(seq), 0) FROM attempts))`;

export const FIND_ORDER = `SELECT ${ORDER_COLUMNS} FROM redelivery_orders WHERE id = ?`;

const OF_LOGIN = `(@login IS NULL OR filter_text ->> '$.login' = @login)`;

// An order of a disabled account rests: the deliveries that it began would be held, and come all at once when the
// account is enabled.
export const LIST_OPEN_ORDERS = `
  SELECT ${ORDER_COLUMNS} FROM redelivery_orders
  WHERE ended_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM accounts WHERE login = filter_text ->> '$.login' AND disabled_at IS NOT NULL
  )
  ORDER BY seq
  LIMIT @limit`;

export const COUNT_OPEN_ORDERS = `
  SELECT count(*) FROM redelivery_orders WHERE ended_at IS NULL AND filter_text ->> '$.login' = ?`;

export const LIST_ORDERS = `
  SELECT ${ORDER_COLUMNS}
  FROM (SELECT * FROM redelivery_orders ORDER BY seq DESC LIMIT ${ORDERS_LISTED_MAX})
  WHERE ${OF_LOGIN}
  ORDER BY seq DESC
  LIMIT @limit`;

export const CANCEL_ORDER = `
  UPDATE redelivery_orders SET ended_at = @now, cancelled = 1
  WHERE id = @id AND ended_at IS NULL AND ${OF_LOGIN}`;

/** The end of a step that finds little: some attempts further on. */
export const STEP_END = `
  SELECT seq FROM attempts WHERE seq BETWEEN @from AND @to ORDER BY seq LIMIT 1 OFFSET @count`;

/** Deliveries that ended after the order was given are not part of it, even when their attempts began before. */
export const SELECT_ORDERED = `
  SELECT a.seq, a.task_seq AS taskSeq, a.kind, a.host, d.state, a.account_seq AS accountSeq
  FROM ${NEWEST_ATTEMPTS}
  WHERE a.ended_at <= @createdAt AND d.state <> 'open' AND ${passes("a")}
  ORDER BY a.seq
  LIMIT @max`;

// Attempts that this order began are due already.
export const HASTEN_ORDERED = `
  UPDATE attempts SET due_at = @now
  WHERE task_seq = (SELECT seq FROM tasks WHERE id = @taskId) AND (@kind IS NULL OR kind = @kind)
    AND started_at IS NULL AND due_at > @now
  RETURNING account_seq AS accountId, host`;

export const ADVANCE_ORDER = `
  UPDATE redelivery_orders
  SET examined_seq = @examined, redelivered = redelivered + @redelivered, ended_at = @endedAt
  WHERE id = @id`;

interface OrderedRow extends EndedDelivery {
  readonly seq: number;
}

export function redeliveryOrderWrites(connection: Connection, changes: BatchChanges) {
  const insert = connection.prepare(INSERT_ORDER);
  const countOpen = connection.prepare<[string | null], number>(COUNT_OPEN_ORDERS).pluck();
  const find = connection.prepare<[string], OrderRow>(FIND_ORDER);
  const cancel = connection.prepare(CANCEL_ORDER);
  const advance = connection.prepare(ADVANCE_ORDER);
  const search = orderSearch(connection);
  const hasten = connection.prepare<[object], LaneRef>(HASTEN_ORDERED);
  const startSeries = seriesStarter(connection, changes);

  return {
    orderRedelivery({ openMax, ...order }) {
      const { id, filter, perSecond, createdAt } = order;
      const isBounded = openMax !== null;
      if (isBounded && !hasRoomBeside(countOpen.get(filter.login) ?? 0, openMax)) return "busy";
      insert.run({ id, perSecond, createdAt, filterText: JSON.stringify(filter) });
      return { ...order, redelivered: 0, endedAt: null, isCancelled: false };
    },

    cancelRedeliveryOrder(order) {
      cancel.run(order);
      const row = find.get(order.id);
      const found = row === undefined ? null : toOrder(row);
      const isOwn = order.login === null || found?.filter.login === order.login;
      return isOwn ? found : null;
    },

    stepRedeliveryOrder({ id, max, now }) {
      const order = find.get(id);
      if (order === undefined || order.endedAt !== null) return NOTHING_LEFT;
      const filter = toFilter(order);
      const { found, examined } = search(order, filter, stepSize(max));
      const { taskId, kind } = filter;
      const hastened = hastensScheduled(filter) ? hasten.all({ taskId, kind, now }) : [];
      for (const delivery of found) startSeries(delivery, now);
      const isDone = isWorkedOff({ examined, lastAttempt: order.lastAttempt });
      const begun = found.map(({ accountSeq: accountId, host }) => ({ accountId, host }));
      const lanes = [...hastened, ...begun];
      const redelivered = lanes.length;
      advance.run({ id, examined, redelivered, endedAt: isDone ? now : null });
      return { lanes, redelivered, isDone };
    },
  } satisfies Steps;
}

/** Searches for the deliveries of a step; tells them, and how far it came. */
function orderSearch(connection: Connection) {
  const selectEnd = connection.prepare<[object], number>(STEP_END).pluck();
  const select = connection.prepare<[object], OrderedRow>(SELECT_ORDERED);
  const readFilter = filterReader(connection);

  return (order: OrderRow, filter: DeliveryFilter, max: number) => {
    const found: OrderedRow[] = [];
    if (max === 0) return { found, examined: order.examined };
    const left = { from: order.examined + 1, to: order.lastAttempt };
    // A task's attempts are found without a walk.
    const within = filter.taskId === null ? firstOf(left) : left;
    const { params, ranges } = readFilter(filter, within);
    for (const range of ranges) {
      const bounds = { ...range, createdAt: order.createdAt, max: max - found.length };
      found.push(...select.all({ ...params, ...bounds }));
    }
    return { found, examined: examinedBy({ found, max, to: within.to }) };
  };

  function firstOf(left: AttemptRange): AttemptRange {
    const to = selectEnd.get({ ...left, count: STEP_EXAMINED_MAX - 1 });
    return { from: left.from, to: to ?? left.to };
  }
}

export function redeliveryOrderReads(connection: Connection) {
  const list = connection.prepare<[object], OrderRow>(LIST_ORDERS);
  const find = connection.prepare<[string], OrderRow>(FIND_ORDER);
  const listOpen = connection.prepare<[object], OrderRow>(LIST_OPEN_ORDERS);

  return {
    findRedeliveryOrder(id) {
      const row = find.get(id);
      return row === undefined ? null : toOrder(row);
    },

    listRedeliveryOrders: (query) => list.all(query).map(toOrder),
    listOpenRedeliveryOrders: (query) => listOpen.all(query).map(toOrder),
  } satisfies Steps;
}
