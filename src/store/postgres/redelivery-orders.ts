import { hasRoomBeside } from "../../domain/account/quota.ts";
import {
  type DeliveryFilter,
  type DeliveryKind,
  ORDERS_LISTED_MAX,
  STEP_EXAMINED_MAX,
  examinedBy,
  hastensScheduled,
  isWorkedOff,
  stepSize,
} from "../../domain/webhook/delivery.ts";
import { NOTHING_LEFT, toFilter, toOrder, type OrderRow } from "../common/row.ts";
import type { LaneRef, RedeliveryStep, Store } from "../store.ts";
import type { BatchChanges } from "./batch-changes.ts";
import { beginSeries } from "./deliveries.ts";
import {
  ENDED_DELIVERIES,
  PASSES_ENDED,
  readFilter,
  type AttemptRange,
} from "./delivery-filter.ts";
import { type BatchSql, type Sql, named } from "./machine/sql.ts";
import { each, type ArgsOf, type SetSteps, type ValueOf } from "./steps.ts";
import { toUuid } from "./task-columns.ts";

const ORDER_COLUMNS = `
  id, filter_text AS "filterText", per_second AS "perSecond", created_at AS "createdAt",
  last_attempt_seq AS "lastAttempt", examined_seq AS examined, redelivered, ended_at AS "endedAt",
  cancelled AS "isCancelled"`;

// Only one batch counts open orders at a time, at any node. This lock conflicts with itself, not with writes of rows.
const LOCK_COUNT = `LOCK TABLE redelivery_orders IN SHARE UPDATE EXCLUSIVE MODE`;

const OF_LOGIN = `($2::text IS NULL OR filter_text::json ->> 'login' = $2)`;

const COUNT_OPEN_ORDERS = `
  SELECT count(*) AS open FROM redelivery_orders WHERE ended_at IS NULL AND filter_text::json ->> 'login' = $1`;

const INSERT_ORDER = `
  INSERT INTO redelivery_orders (id, filter_text, per_second, created_at, last_attempt_seq)
  VALUES ($1, $2, $3, $4, $5)`;

const FIND_ORDER = `SELECT ${ORDER_COLUMNS} FROM redelivery_orders WHERE id = $1`;
const LOCK_ORDER = `${FIND_ORDER} FOR UPDATE`;

// An order of a disabled account rests: the deliveries that it began would be held, and come all at once when the
// account is enabled.
const LIST_OPEN_ORDERS = `
  SELECT ${ORDER_COLUMNS} FROM redelivery_orders
  WHERE ended_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM accounts WHERE login = filter_text::json ->> 'login' AND disabled_at IS NOT NULL
  )
  ORDER BY seq
  LIMIT $1`;

const LIST_ORDERS = `
  SELECT ${ORDER_COLUMNS}
  FROM (SELECT * FROM redelivery_orders ORDER BY seq DESC LIMIT ${ORDERS_LISTED_MAX}) AS o
  WHERE ${OF_LOGIN}
  ORDER BY seq DESC
  LIMIT $1`;

const CANCEL_ORDER = `
  UPDATE redelivery_orders SET ended_at = $3, cancelled = true
  WHERE id = $1 AND ended_at IS NULL AND ${OF_LOGIN}`;

/** The end of a step that finds little: some attempts further on. */
const STEP_END = `
  SELECT seq FROM attempts WHERE seq BETWEEN $1 AND $2 ORDER BY seq LIMIT 1 OFFSET ${STEP_EXAMINED_MAX - 1}`;

/** Deliveries that ended after the order was given are not part of it, even when their attempts began before. */
const SELECT_ORDERED = named(`
  SELECT a.seq, a.task_seq AS "taskSeq", a.kind, a.account_seq AS "accountSeq"
  FROM ${ENDED_DELIVERIES}
  WHERE a.ended_at <= @createdAt AND ${PASSES_ENDED}
  ORDER BY a.seq
  LIMIT @max`);

// Attempts that this order began are due already.
const HASTEN_ORDERED = `
  UPDATE outbox SET due_at = $3
  WHERE task_seq = (SELECT seq FROM tasks WHERE id = $1) AND ($2::webhook_kind IS NULL OR kind = $2)
    AND started_at IS NULL AND due_at > $3
  RETURNING account_seq AS "accountId", host`;

const ADVANCE_ORDER = `
  UPDATE redelivery_orders SET examined_seq = $2, redelivered = redelivered + $3, ended_at = $4 WHERE id = $1`;

/** An ended delivery that an order means. */
interface OrderedRow {
  /** Of its newest attempt. */
  readonly seq: number;
  readonly taskSeq: number;
  readonly kind: DeliveryKind;
  readonly accountSeq: number;
}

/** The tools that the steps of a batch work with. */
interface Batch {
  readonly sql: BatchSql;
  readonly changes: BatchChanges;
}

export function redeliveryOrderWrites(sql: BatchSql, changes: BatchChanges) {
  return {
    orderRedelivery: each((order) => orderRedelivery(sql, order)),

    cancelRedeliveryOrder: each(async ({ id, login, now }) => {
      await sql.run(CANCEL_ORDER, [id, login, now]);
      const row = await sql.get<OrderRow>(FIND_ORDER, [id]);
      const found = row === undefined ? null : toOrder(row);
      const isOwn = login === null || found?.filter.login === login;
      return isOwn ? found : null;
    }),

    stepRedeliveryOrder: each((step) => stepOrder({ sql, changes }, step)),
  } satisfies SetSteps;
}

async function orderRedelivery(
  sql: BatchSql,
  { openMax, ...order }: ArgsOf<"orderRedelivery">,
): Promise<Awaited<ValueOf<"orderRedelivery">>> {
  const { id, filter, perSecond, createdAt } = order;
  if (openMax !== null) {
    await sql.run(LOCK_COUNT);
    const { open } = (await sql.get<{ open: number }>(COUNT_OPEN_ORDERS, [filter.login])) ?? NONE;
    if (!hasRoomBeside(open, openMax)) return "busy";
  }
  // Attempts that are made later have larger numbers.
  const last = sql.nextSeq();
  await sql.run(INSERT_ORDER, [id, JSON.stringify(filter), perSecond, createdAt, last]);
  return { ...order, redelivered: 0, endedAt: null, isCancelled: false };
}

const NONE = { open: 0 };

async function stepOrder(
  batch: Batch,
  { id, max, now }: ArgsOf<"stepRedeliveryOrder">,
): Promise<RedeliveryStep> {
  const { sql } = batch;
  const order = await sql.get<OrderRow>(LOCK_ORDER, [id]);
  if (order === undefined || order.endedAt !== null) return NOTHING_LEFT;
  const filter = toFilter(order);
  const { found, examined } = await search(sql, { order, filter, max: stepSize(max) });
  const { taskId, kind } = filter;
  const hastened =
    taskId !== null && hastensScheduled(filter)
      ? await sql.all<LaneRef>(HASTEN_ORDERED, [toUuid(taskId), kind, now])
      : [];
  const begun = await beginSeries(batch, found, now);
  const isDone = isWorkedOff({ examined, lastAttempt: order.lastAttempt });
  const redelivered = hastened.length + begun.length;
  sql.send(ADVANCE_ORDER, [id, examined, redelivered, isDone ? now : null]);
  const bySeq = new Map(
    begun.map((delivery) => [`${delivery.taskSeq} ${delivery.kind}`, delivery]),
  );
  const lanes = found.flatMap((ended) => {
    const delivery = bySeq.get(`${ended.taskSeq} ${ended.kind}`);
    return delivery === undefined ? [] : [{ accountId: delivery.accountSeq, host: delivery.host }];
  });
  return { lanes: [...hastened, ...lanes], redelivered, isDone };
}

/** Searches for the deliveries of a step; tells them, and how far it came. */
async function search(
  sql: Sql,
  {
    order,
    filter,
    max,
  }: { readonly order: OrderRow; readonly filter: DeliveryFilter; readonly max: number },
) {
  const found: OrderedRow[] = [];
  if (max === 0) return { found, examined: order.examined };
  const left = { from: order.examined + 1, to: order.lastAttempt };
  // A task's attempts are found without a walk.
  const within = filter.taskId === null ? await firstOf(sql, left) : left;
  for (const values of await readFilter(sql, filter, within)) {
    const bounds = { createdAt: order.createdAt, max: max - found.length };
    found.push(...(await SELECT_ORDERED.all<OrderedRow>(sql, { ...values, ...bounds })));
  }
  return { found, examined: examinedBy({ found, max, to: within.to }) };
}

async function firstOf(sql: Sql, { from, to }: AttemptRange): Promise<AttemptRange> {
  const end = await sql.get<{ seq: number }>(STEP_END, [from, to]);
  return { from, to: end?.seq ?? to };
}

export function redeliveryOrderReads(sql: Sql) {
  return {
    async findRedeliveryOrder(id) {
      const row = await sql.get<OrderRow>(FIND_ORDER, [id]);
      return row === undefined ? null : toOrder(row);
    },
    async listRedeliveryOrders({ login, limit }) {
      return (await sql.all<OrderRow>(LIST_ORDERS, [limit, login])).map(toOrder);
    },
    async listOpenRedeliveryOrders({ limit }) {
      return (await sql.all<OrderRow>(LIST_OPEN_ORDERS, [limit])).map(toOrder);
    },
  } satisfies Partial<Store>;
}
