import {
  SAFE_REQUEST_MS,
  whyUndecidable,
  type AccessDecision,
} from "../../domain/account/account.ts";
import { hasRoomBeside } from "../../domain/account/quota.ts";
import {
  takeRequests,
  toAccessRequest,
  type AccessRequestRow,
} from "../common/access-request-row.ts";
import type { Store } from "../store.ts";
import { makeAccount } from "./accounts.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import { each, type SetSteps } from "./steps.ts";

// Nobody else may add a request until this batch has ended: otherwise two that count at once both find room.
const LOCK_REQUESTS = `LOCK TABLE access_requests IN SHARE ROW EXCLUSIVE MODE`;

/** Counts no further than necessary. */
const COUNT_PENDING_REQUESTS = `
  SELECT count(*) AS pending FROM (SELECT 1 FROM access_requests WHERE decision IS NULL LIMIT $1) AS p`;

const INSERT_REQUEST = `
  INSERT INTO access_requests (id, email, name, company, message, created_at)
  VALUES ($1, $2, $3, $4, $5, $6)`;

/** Erases the oldest request that waits, if it was made before a time. */
const ERASE_OLDEST_REQUEST = `
  DELETE FROM access_requests
  WHERE seq = (SELECT min(seq) FROM access_requests WHERE decision IS NULL) AND created_at < $1`;

// In the order of their numbers, so that two batches do not wait for each other.
const DENY_REQUESTS = `
  WITH waiting AS MATERIALIZED (
    SELECT seq FROM access_requests WHERE decision IS NULL AND created_at < $1 ORDER BY seq FOR NO KEY UPDATE
  )
  UPDATE access_requests AS r SET decision = 'denied', decided_at = $2 FROM waiting WHERE r.seq = waiting.seq`;

const LOCK_DECISION = `SELECT decision FROM access_requests WHERE id = $1 FOR NO KEY UPDATE`;

const DECIDE_REQUEST = `
  UPDATE access_requests SET decision = $2, decided_at = $3, account_seq = $4 WHERE id = $1`;

const LIST = `
  SELECT r.id, r.email, r.name, r.company, r.message, r.created_at AS "createdAt", r.decision,
    r.decided_at AS "decidedAt", a.login
  FROM access_requests AS r LEFT JOIN accounts AS a ON a.seq = r.account_seq`;

/** Pages through the requests that wait, or through all, in the order in which they came. */
const LIST_REQUESTS = {
  pending: `${LIST} WHERE r.decision IS NULL ORDER BY r.seq LIMIT $1`,
  all: `${LIST} ORDER BY r.seq LIMIT $1`,
} as const;

const FIND_APPROVED_REQUEST = `${LIST} WHERE r.account_seq = $1`;

export function accessRequestWrites(sql: BatchSql) {
  async function reasonNotToDecide(id: string) {
    const row = await sql.get<{ decision: AccessDecision["kind"] | null }>(LOCK_DECISION, [id]);
    return whyUndecidable(row?.decision);
  }

  return {
    insertAccessRequest: each(async ({ id, fields, createdAt, pendingMax }) => {
      sql.send(LOCK_REQUESTS);
      const pending = await countPending(sql, pendingMax);
      if (!hasRoomBeside(pending, pendingMax)) {
        const erased = await sql.run(ERASE_OLDEST_REQUEST, [createdAt - SAFE_REQUEST_MS]);
        if (erased === 0) return "limit reached";
      }
      const { email, name, company, message } = fields;
      sql.send(INSERT_REQUEST, [id, email, name, company, message, createdAt]);
      return "stored";
    }),

    approveAccessRequest: each(async ({ id, decidedAt, account }) => {
      const reason = await reasonNotToDecide(id);
      if (reason !== null) return reason;
      const accountSeq = await makeAccount(sql, account);
      if (accountSeq === null) return "exists";
      sql.send(DECIDE_REQUEST, [id, "approved", decidedAt, accountSeq]);
      return "approved";
    }),

    denyAccessRequest: each(async ({ id, decidedAt }) => {
      const reason = await reasonNotToDecide(id);
      if (reason !== null) return reason;
      sql.send(DECIDE_REQUEST, [id, "denied", decidedAt, null]);
      return "denied";
    }),

    denyAccessRequests: each(({ madeBefore, decidedAt }) =>
      sql.run(DENY_REQUESTS, [madeBefore, decidedAt]),
    ),
  } satisfies SetSteps;
}

export function accessRequestReads(sql: Sql) {
  return {
    countPendingRequests: (max) => countPending(sql, max),

    async findApprovedRequest(accountId) {
      const row = await sql.get<AccessRequestRow>(FIND_APPROVED_REQUEST, [accountId]);
      return row === undefined ? null : toAccessRequest(row);
    },

    async listAccessRequests({ which, limit, lettersMax }) {
      const rows = await sql.all<AccessRequestRow>(LIST_REQUESTS[which], [limit]);
      return takeRequests(rows, lettersMax);
    },
  } satisfies Partial<Store>;
}

async function countPending(sql: Sql, max: number): Promise<number> {
  return (await sql.get<{ pending: number }>(COUNT_PENDING_REQUESTS, [max]))?.pending ?? 0;
}
