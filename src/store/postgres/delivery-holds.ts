import { HOLDS_MAX, type DeliveryHold } from "../../domain/webhook/delivery-hold.ts";
import type { Store } from "../store.ts";
import type { BatchSql, ReadSql, Sql } from "./machine/sql.ts";
import { each, type SetSteps } from "./steps.ts";

const INSERT_HOLD = `
  INSERT INTO delivery_holds (account_seq, host, since, reason, held_by)
  SELECT $1::bigint, $2::text, $3::bigint, $4::text, $5::text
  WHERE (SELECT count(*) FROM delivery_holds) < ${HOLDS_MAX}
  ON CONFLICT DO NOTHING`;

const OF_SCOPE = `account_seq IS NOT DISTINCT FROM $1::bigint AND host IS NOT DISTINCT FROM $2::text`;
const IS_HELD = `SELECT EXISTS (SELECT 1 FROM delivery_holds WHERE ${OF_SCOPE}) AS "isHeld"`;
const DELETE_HOLD = `DELETE FROM delivery_holds WHERE ${OF_SCOPE}`;

const LIST_HOLDS = `
  SELECT h.account_seq AS "accountId", a.login, h.host, h.since, h.reason, h.held_by AS "heldBy"
  FROM delivery_holds AS h LEFT JOIN accounts AS a ON a.seq = h.account_seq
  ORDER BY h.seq`;

const COUNT_SCHEDULED = `
  SELECT count(*) AS count FROM outbox
  WHERE started_at IS NULL AND ($1::bigint IS NULL OR account_seq = $1) AND ($2::text IS NULL OR host = $2)`;

export function deliveryHoldWrites(sql: BatchSql) {
  return {
    holdDeliveries: each(async ({ accountId, host, since, reason, heldBy }) => {
      const scope = [accountId, host];
      if ((await sql.run(INSERT_HOLD, [...scope, since, reason, heldBy])) > 0) return "held";
      const found = await sql.get<{ isHeld: boolean }>(IS_HELD, scope);
      return found?.isHeld === true ? "held already" : "too many";
    }),
    releaseDeliveries: each(
      async ({ accountId, host }) => (await sql.run(DELETE_HOLD, [accountId, host])) > 0,
    ),
  } satisfies SetSteps;
}

export function deliveryHoldReads(sql: ReadSql) {
  return {
    listDeliveryHolds: () => sql.all<DeliveryHold>(LIST_HOLDS),
  } satisfies Partial<Store>;
}

export function scheduledCountReads(sql: Sql) {
  return {
    async countScheduled({ accountId, host }) {
      const found = await sql.get<{ count: number }>(COUNT_SCHEDULED, [accountId, host]);
      return found?.count ?? 0;
    },
  } satisfies Partial<Store>;
}
