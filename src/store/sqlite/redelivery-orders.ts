import { hasRoomBeside } from "../../domain/account/quota.ts";
import type {
  DeliveryFilter,
  DeliveryKind,
  EndedDeliveryState,
} from "../../domain/webhook/delivery.ts";
import {
  examinedBy,
  isWorkedOff,
  STEP_EXAMINED_MAX,
  stepSize,
} from "../../domain/webhook/redelivery-order.ts";
import type { LaneRef, RedeliveryOrder, RedeliveryRequest, RedeliveryStep } from "../store.ts";
import type { BatchChanges } from "./batch-changes.ts";
import { seriesStarter } from "./deliveries.ts";
import { filterReader, NEWEST_ATTEMPTS, passes, type AttemptRange } from "./delivery-filter.ts";
import type { Connection } from "./machine/connection.ts";

const ORDER_COLUMNS = `
  id, filter_text, per_second, created_at, last_attempt_seq, examined_seq, redelivered, ended_at, cancelled`;

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

// The owner of an order is in its filter: so many orders are looked at, in 1 ms (measured).
const LISTED_MAX = 5000;

export const LIST_ORDERS = `
  SELECT ${ORDER_COLUMNS}
  FROM (SELECT seq, ${ORDER_COLUMNS} FROM redelivery_orders ORDER BY seq DESC LIMIT ${LISTED_MAX})
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
  SELECT a.seq, a.task_seq, a.kind, a.host, d.state, a.account_seq
  FROM ${NEWEST_ATTEMPTS}
  WHERE a.ended_at <= @createdAt AND d.state <> 'open' AND ${passes("a")}
  ORDER BY a.seq
  LIMIT @max`;

export const ADVANCE_ORDER = `
  UPDATE redelivery_orders
  SET examined_seq = @examined, redelivered = redelivered + @redelivered, ended_at = @endedAt
  WHERE id = @id`;

interface OrderRow {
  id: string;
  filter_text: string;
  per_second: number;
  created_at: number;
  last_attempt_seq: number;
  examined_seq: number;
  redelivered: number;
  ended_at: number | null;
  cancelled: 0 | 1;
}

interface OrderedRow {
  seq: number;
  task_seq: number;
  kind: DeliveryKind;
  host: string;
  state: EndedDeliveryState;
  account_seq: number;
}

/** The progress of a step, and what it found on its way. */
interface StepFindings {
  readonly found: readonly OrderedRow[];
  readonly examined: number;
}

/** Who cancels; null stands for the operator. */
interface OrderCancel {
  readonly id: string;
  readonly login: string | null;
  readonly now: number;
}

const NOTHING_LEFT: RedeliveryStep = { lanes: [], redelivered: 0, isDone: true };

/** The writes on redelivery orders. Each runs inside the transaction of its batch. */
export function redeliveryOrderWrites(connection: Connection, changes: BatchChanges) {
  const insert = connection.prepare(INSERT_ORDER);
  const countOpen = connection.prepare<[string | null], number>(COUNT_OPEN_ORDERS).pluck();
  const find = connection.prepare<[string], OrderRow>(FIND_ORDER);
  const cancel = connection.prepare(CANCEL_ORDER);
  const advance = connection.prepare(ADVANCE_ORDER);
  const search = orderSearch(connection);
  const startSeries = seriesStarter(connection, changes);

  return {
    orderRedelivery({ openMax, ...order }: RedeliveryRequest): RedeliveryOrder | "busy" {
      const { id, filter, perSecond, createdAt } = order;
      const isBounded = openMax !== null;
      if (isBounded && !hasRoomBeside(countOpen.get(filter.login) ?? 0, openMax)) return "busy";
      insert.run({ id, perSecond, createdAt, filterText: JSON.stringify(filter) });
      return { ...order, redelivered: 0, endedAt: null, isCancelled: false };
    },

    cancelRedeliveryOrder(order: OrderCancel): RedeliveryOrder | null {
      cancel.run(order);
      const row = find.get(order.id);
      const found = row === undefined ? null : toOrder(row);
      const isOwn = order.login === null || found?.filter.login === order.login;
      return isOwn ? found : null;
    },

    stepRedeliveryOrder({ id, max, now }: { id: string; max: number; now: number }) {
      const order = find.get(id);
      if (order === undefined || order.ended_at !== null) return NOTHING_LEFT;
      const { found, examined } = search(order, stepSize(max));
      for (const { task_seq: taskSeq, account_seq: accountSeq, kind, host, state } of found) {
        startSeries({ accountSeq, taskSeq, kind, host, state, now });
      }
      const isDone = isWorkedOff({ examined, lastAttempt: order.last_attempt_seq });
      const redelivered = found.length;
      advance.run({ id, examined, redelivered, endedAt: isDone ? now : null });
      return { lanes: found.map(toLaneRef), redelivered, isDone };
    },
  };
}

function toLaneRef({ account_seq: accountId, host }: OrderedRow): LaneRef {
  return { accountId, host };
}

function orderSearch(connection: Connection): (order: OrderRow, max: number) => StepFindings {
  const selectEnd = connection.prepare<[object], number>(STEP_END).pluck();
  const select = connection.prepare<[object], OrderedRow>(SELECT_ORDERED);
  const readFilter = filterReader(connection);

  return (order, max) => {
    if (max === 0) return { found: [], examined: order.examined_seq };
    const filter = toFilter(order.filter_text);
    const left = { from: order.examined_seq + 1, to: order.last_attempt_seq };
    // A task's attempts are found without a walk.
    const within = filter.taskId === null ? firstOf(left) : left;
    const { params, ranges } = readFilter(filter, within);
    const found: OrderedRow[] = [];
    for (const range of ranges) {
      const bounds = { ...range, createdAt: order.created_at, max: max - found.length };
      found.push(...select.all({ ...params, ...bounds }));
    }
    return { found, examined: examinedBy({ found, max, to: within.to }) };
  };

  function firstOf(left: AttemptRange): AttemptRange {
    const to = selectEnd.get({ ...left, count: STEP_EXAMINED_MAX - 1 });
    return { from: left.from, to: to ?? left.to };
  }
}

/** The reads on redelivery orders. */
export function redeliveryOrderReads(connection: Connection) {
  const list = connection.prepare<[object], OrderRow>(LIST_ORDERS);
  const listOpen = connection.prepare<[object], OrderRow>(LIST_OPEN_ORDERS);

  return {
    listRedeliveryOrders(query: {
      login: string | null;
      limit: number;
    }): readonly RedeliveryOrder[] {
      return list.all(query).map(toOrder);
    },

    listOpenRedeliveryOrders(query: { limit: number }): readonly RedeliveryOrder[] {
      return listOpen.all(query).map(toOrder);
    },
  };
}

function toOrder(row: OrderRow): RedeliveryOrder {
  return {
    id: row.id,
    filter: toFilter(row.filter_text),
    perSecond: row.per_second,
    createdAt: row.created_at,
    redelivered: row.redelivered,
    endedAt: row.ended_at,
    isCancelled: row.cancelled === 1,
  };
}

function toFilter(text: string): DeliveryFilter {
  // Only orderRedelivery writes this column.
  return JSON.parse(text) as DeliveryFilter;
}
