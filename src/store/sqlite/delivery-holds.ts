import { HOLDS_MAX, type DeliveryHold } from "../../domain/webhook/delivery-hold.ts";
import { LIST_WAITING_ACCOUNTS } from "./attempt-claims.ts";
import type { Connection } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";

const INSERT_HOLD = `
  INSERT INTO delivery_holds (account_seq, host, since, reason, held_by)
  SELECT @accountId, @host, @since, @reason, @heldBy
  WHERE (SELECT count(*) FROM delivery_holds) < ${HOLDS_MAX}
  ON CONFLICT DO NOTHING`;

const OF_SCOPE = `account_seq IS @accountId AND host IS @host`;
const IS_HELD = `SELECT EXISTS (SELECT 1 FROM delivery_holds WHERE ${OF_SCOPE})`;
const DELETE_HOLD = `DELETE FROM delivery_holds WHERE ${OF_SCOPE}`;

const LIST_HOLDS = `
  SELECT h.account_seq AS accountId, a.login, h.host, h.since, h.reason, h.held_by AS heldBy
  FROM delivery_holds AS h LEFT JOIN accounts AS a ON a.seq = h.account_seq
  ORDER BY h.seq`;

const SCHEDULED = `attempts INDEXED BY attempts_due WHERE started_at IS NULL`;
const COUNT_ALL = `SELECT count(*) FROM ${SCHEDULED}`;
const COUNT_OF_ACCOUNT = `${COUNT_ALL} AND account_seq = @accountId`;
export const COUNT_OF_LANE = `${COUNT_OF_ACCOUNT} AND host = @host`;

export function deliveryHoldWrites(connection: Connection) {
  const insert = connection.prepare(INSERT_HOLD);
  const isHeld = connection.prepare<[object], 0 | 1>(IS_HELD).pluck();
  const remove = connection.prepare(DELETE_HOLD);

  return {
    holdDeliveries(hold) {
      if (insert.run(hold).changes > 0) return "held";
      return isHeld.get(hold) === 1 ? "held already" : "too many";
    },
    releaseDeliveries: (scope) => remove.run(scope).changes > 0,
  } satisfies Steps;
}

export function deliveryHoldReads(connection: Connection) {
  const list = connection.prepare<[], DeliveryHold>(LIST_HOLDS);

  return { listDeliveryHolds: () => list.all() } satisfies Steps;
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
