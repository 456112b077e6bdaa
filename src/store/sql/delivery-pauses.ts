import { PAUSES_MAX, type DeliveryPause } from "../../domain/webhook/delivery-pause.ts";
import type { WriteRules } from "../common/write-rule.ts";
import { eachDialect, statement, type Flag } from "./statement.ts";
import { all, get, run, type StoreUseCases } from "./use-case.ts";

const INSERT_PAUSE = statement(`
  INSERT INTO delivery_pauses (account_seq, host, since, reason, paused_by)
  SELECT @accountId::bigint, @host::text, @since::bigint, @reason::text, @pausedBy::text
  WHERE (SELECT count(*) FROM delivery_pauses) < ${PAUSES_MAX}
  ON CONFLICT DO NOTHING`);

const OF_SCOPE = `account_seq IS NOT DISTINCT FROM @accountId::bigint AND host IS NOT DISTINCT FROM @host::text`;
const IS_PAUSED = statement(
  `SELECT EXISTS (SELECT 1 FROM delivery_pauses WHERE ${OF_SCOPE}) AS "isPaused"`,
);
const DELETE_PAUSE = statement(`DELETE FROM delivery_pauses WHERE ${OF_SCOPE}`);

const LIST_PAUSES = statement(`
  SELECT p.account_seq AS "accountId", a.login, p.host, p.since, p.reason, p.paused_by AS "pausedBy"
  FROM delivery_pauses AS p LEFT JOIN accounts AS a ON a.seq = p.account_seq
  ORDER BY p.seq`);

const COUNT_SCHEDULED = `
  SELECT count(*) AS count FROM outbox
  WHERE started_at IS NULL AND (@accountId::bigint IS NULL OR account_seq = @accountId) AND (@host::text IS NULL OR host = @host)`;
const SCHEDULED = `
  SELECT count(*) AS count FROM attempts INDEXED BY attempts_due WHERE started_at IS NULL`;

/** SQLite seeks in the index of what is scheduled: for a host alone once in each account. */
export const COUNT_SCHEDULED_OF = {
  all: eachDialect({ sqlite: SCHEDULED, postgres: COUNT_SCHEDULED }),
  account: eachDialect({
    sqlite: `${SCHEDULED} AND account_seq = @accountId`,
    postgres: COUNT_SCHEDULED,
  }),
  lane: eachDialect({
    sqlite: `${SCHEDULED} AND account_seq = @accountId AND host = @host`,
    postgres: COUNT_SCHEDULED,
  }),
  host: eachDialect({
    sqlite: `
      SELECT count(*) AS count FROM accounts AS c CROSS JOIN attempts AS a INDEXED BY attempts_due
      WHERE a.account_seq = c.seq AND a.host = @host AND a.started_at IS NULL`,
    postgres: COUNT_SCHEDULED,
  }),
};

export const deliveryPauseWrites = {
  *pauseDeliveries({ accountId, host, since, reason, pausedBy }) {
    const pause = { accountId, host, since, reason, pausedBy };
    if ((yield* run(INSERT_PAUSE, pause)) > 0) return "paused";
    const found = yield* get<{ isPaused: Flag }>(IS_PAUSED, { accountId, host });
    return found !== undefined && Boolean(found.isPaused) ? "paused already" : "too many";
  },

  *resumeDeliveries({ accountId, host }) {
    return (yield* run(DELETE_PAUSE, { accountId, host })) > 0;
  },
} satisfies StoreUseCases;

export const deliveryPauseReads = {
  *listDeliveryPauses() {
    return yield* all<DeliveryPause>(LIST_PAUSES);
  },
} satisfies StoreUseCases;

export const scheduledCountReads = {
  *countScheduled({ accountId, host }) {
    const of =
      accountId === null ? (host === null ? "all" : "host") : host === null ? "account" : "lane";
    const found = yield* get<{ count: number }>(COUNT_SCHEDULED_OF[of], { accountId, host });
    return found?.count ?? 0;
  },
} satisfies StoreUseCases;

export const deliveryPauseRules = {
  pauseDeliveries: { hasEffect: (outcome) => outcome === "paused" },
  resumeDeliveries: { hasEffect: (isResumed) => isResumed },
} satisfies WriteRules;
