import { PAUSES_MAX, type DeliveryPause } from "../../domain/webhook/delivery-pause.ts";
import type { Store } from "../store.ts";
import type { BatchSql, ReadSql, Sql } from "./machine/sql.ts";
import { each, type SetSteps } from "./steps.ts";

const INSERT_PAUSE = `
  INSERT INTO delivery_holds (account_seq, host, since, reason, held_by)
  SELECT $1::bigint, $2::text, $3::bigint, $4::text, $5::text
  WHERE (SELECT count(*) FROM delivery_holds) < ${PAUSES_MAX}
  ON CONFLICT DO NOTHING`;

const OF_SCOPE = `account_seq IS NOT DISTINCT FROM $1::bigint AND host IS NOT DISTINCT FROM $2::text`;
const IS_PAUSED = `SELECT EXISTS (SELECT 1 FROM delivery_holds WHERE ${OF_SCOPE}) AS "isPaused"`;
const DELETE_PAUSE = `DELETE FROM delivery_holds WHERE ${OF_SCOPE}`;

const LIST_PAUSES = `
  SELECT p.account_seq AS "accountId", a.login, p.host, p.since, p.reason, p.held_by AS "pausedBy"
  FROM delivery_holds AS p LEFT JOIN accounts AS a ON a.seq = p.account_seq
  ORDER BY p.seq`;

const COUNT_SCHEDULED = `
  SELECT count(*) AS count FROM outbox
  WHERE started_at IS NULL AND ($1::bigint IS NULL OR account_seq = $1) AND ($2::text IS NULL OR host = $2)`;

export function deliveryPauseWrites(sql: BatchSql) {
  return {
    pauseDeliveries: each(async ({ accountId, host, since, reason, pausedBy }) => {
      const scope = [accountId, host];
      if ((await sql.run(INSERT_PAUSE, [...scope, since, reason, pausedBy])) > 0) return "paused";
      const found = await sql.get<{ isPaused: boolean }>(IS_PAUSED, scope);
      return found?.isPaused === true ? "paused already" : "too many";
    }),
    resumeDeliveries: each(
      async ({ accountId, host }) => (await sql.run(DELETE_PAUSE, [accountId, host])) > 0,
    ),
  } satisfies SetSteps;
}

export function deliveryPauseReads(sql: ReadSql) {
  return {
    listDeliveryPauses: () => sql.all<DeliveryPause>(LIST_PAUSES),
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
