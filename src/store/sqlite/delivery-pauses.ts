import { PAUSES_MAX, type DeliveryPause } from "../../domain/webhook/delivery-pause.ts";
import { LIST_WAITING_ACCOUNTS } from "./attempts.ts";
import type { Connection } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";

const INSERT_PAUSE = `
  INSERT INTO delivery_holds (account_seq, host, since, reason, held_by)
  SELECT @accountId, @host, @since, @reason, @pausedBy
  WHERE (SELECT count(*) FROM delivery_holds) < ${PAUSES_MAX}
  ON CONFLICT DO NOTHING`;

const OF_SCOPE = `account_seq IS @accountId AND host IS @host`;
const IS_PAUSED = `SELECT EXISTS (SELECT 1 FROM delivery_holds WHERE ${OF_SCOPE})`;
const DELETE_PAUSE = `DELETE FROM delivery_holds WHERE ${OF_SCOPE}`;

const LIST_PAUSES = `
  SELECT p.account_seq AS accountId, a.login, p.host, p.since, p.reason, p.held_by AS pausedBy
  FROM delivery_holds AS p LEFT JOIN accounts AS a ON a.seq = p.account_seq
  ORDER BY p.seq`;

const SCHEDULED = `attempts INDEXED BY attempts_due WHERE started_at IS NULL`;
const COUNT_ALL = `SELECT count(*) FROM ${SCHEDULED}`;
const COUNT_OF_ACCOUNT = `${COUNT_ALL} AND account_seq = @accountId`;
export const COUNT_OF_LANE = `${COUNT_OF_ACCOUNT} AND host = @host`;

export function deliveryPauseWrites(connection: Connection) {
  const insert = connection.prepare(INSERT_PAUSE);
  const isPaused = connection.prepare<[object], 0 | 1>(IS_PAUSED).pluck();
  const remove = connection.prepare(DELETE_PAUSE);

  return {
    pauseDeliveries(pause) {
      if (insert.run(pause).changes > 0) return "paused";
      return isPaused.get(pause) === 1 ? "paused already" : "too many";
    },
    resumeDeliveries: (scope) => remove.run(scope).changes > 0,
  } satisfies Steps;
}

export function deliveryPauseReads(connection: Connection) {
  const list = connection.prepare<[], DeliveryPause>(LIST_PAUSES);

  return { listDeliveryPauses: () => list.all() } satisfies Steps;
}

export function scheduledCountReads(connection: Connection) {
  const countAll = connection.prepare<[], number>(COUNT_ALL).pluck();
  const countOfAccount = connection.prepare<[object], number>(COUNT_OF_ACCOUNT).pluck();
  const countOfLane = connection.prepare<[object], number>(COUNT_OF_LANE).pluck();
  const listAccounts = connection.prepare<[], number>(LIST_WAITING_ACCOUNTS).pluck();

  return {
    countScheduled({ accountId, host }) {
      if (host === null) {
        return (accountId === null ? countAll.get() : countOfAccount.get({ accountId })) ?? 0;
      }
      const accounts = accountId === null ? listAccounts.all() : [accountId];
      return accounts.reduce(
        (sum, each) => sum + (countOfLane.get({ accountId: each, host }) ?? 0),
        0,
      );
    },
  } satisfies Steps;
}
