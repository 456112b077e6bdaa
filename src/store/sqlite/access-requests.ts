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
import { accountWrites } from "./accounts.ts";
import type { Connection } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";

/** Counts no further than necessary. */
export const COUNT_PENDING_REQUESTS = `
  SELECT count(*) FROM (SELECT 1 FROM access_requests WHERE decision IS NULL LIMIT ?)`;

const INSERT_REQUEST = `
  INSERT INTO access_requests (id, email, name, company, message, created_at)
  VALUES (@id, @email, @name, @company, @message, @createdAt)`;

/** Erases the oldest request that waits, if it was made before a time. */
export const ERASE_OLDEST_REQUEST = `
  DELETE FROM access_requests
  WHERE seq = (SELECT min(seq) FROM access_requests WHERE decision IS NULL) AND created_at < ?`;

export const DENY_REQUESTS = `
  UPDATE access_requests SET decision = 'denied', decided_at = @decidedAt
  WHERE decision IS NULL AND created_at < @madeBefore`;

export const SELECT_DECISION = `SELECT decision FROM access_requests WHERE id = ?`;

export const APPROVE_REQUEST = `
  UPDATE access_requests
  SET decision = 'approved', decided_at = @decidedAt,
      account_seq = (SELECT seq FROM accounts WHERE login = @login)
  WHERE id = @id`;

export const DENY_REQUEST = `
  UPDATE access_requests SET decision = 'denied', decided_at = @decidedAt WHERE id = @id`;

const LIST = `
  SELECT r.id, r.email, r.name, r.company, r.message, r.created_at AS createdAt, r.decision,
    r.decided_at AS decidedAt, a.login
  FROM access_requests AS r LEFT JOIN accounts AS a ON a.seq = r.account_seq`;

/** Pages through the requests that wait, or through all, in the order in which they came. */
export const LIST_REQUESTS = {
  pending: `${LIST} WHERE r.decision IS NULL ORDER BY r.seq LIMIT ?`,
  all: `${LIST} ORDER BY r.seq LIMIT ?`,
} as const;

export const FIND_APPROVED_REQUEST = `${LIST} WHERE r.account_seq = ?`;

export function accessRequestWrites(connection: Connection) {
  const countPending = connection.prepare<[number], number>(COUNT_PENDING_REQUESTS).pluck();
  const insert = connection.prepare(INSERT_REQUEST);
  const selectDecision = connection
    .prepare<[string], AccessDecision["kind"] | null>(SELECT_DECISION)
    .pluck();
  const approve = connection.prepare(APPROVE_REQUEST);
  const deny = connection.prepare(DENY_REQUEST);
  const denyAll = connection.prepare(DENY_REQUESTS);
  const eraseOldest = connection.prepare<[number]>(ERASE_OLDEST_REQUEST);
  const { createAccount } = accountWrites(connection);

  return {
    insertAccessRequest({ fields, pendingMax, ...row }) {
      const pending = countPending.get(pendingMax) ?? 0;
      if (!hasRoomBeside(pending, pendingMax)) {
        const { changes } = eraseOldest.run(row.createdAt - SAFE_REQUEST_MS);
        if (changes === 0) return "limit reached";
      }
      insert.run({ ...row, ...fields });
      return "stored";
    },

    approveAccessRequest({ id, decidedAt, account }) {
      const reason = whyUndecidable(selectDecision.get(id));
      if (reason !== null) return reason;
      if (createAccount(account) === "exists") return "exists";
      approve.run({ id, decidedAt, login: account.login });
      return "approved";
    },

    denyAccessRequest(denial) {
      const reason = whyUndecidable(selectDecision.get(denial.id));
      if (reason !== null) return reason;
      deny.run(denial);
      return "denied";
    },

    denyAccessRequests: (denial) => denyAll.run(denial).changes,
  } satisfies Steps;
}

export function accessRequestReads(connection: Connection) {
  const list = {
    pending: connection.prepare<[number], AccessRequestRow>(LIST_REQUESTS.pending),
    all: connection.prepare<[number], AccessRequestRow>(LIST_REQUESTS.all),
  };
  const find = connection.prepare<[number], AccessRequestRow>(FIND_APPROVED_REQUEST);
  const countPending = connection.prepare<[number], number>(COUNT_PENDING_REQUESTS).pluck();

  return {
    findApprovedRequest(accountId) {
      const row = find.get(accountId);
      return row === undefined ? null : toAccessRequest(row);
    },

    countPendingRequests: (max) => countPending.get(max) ?? 0,

    listAccessRequests: ({ which, limit, lettersMax }) =>
      takeRequests(list[which].iterate(limit), lettersMax),
  } satisfies Steps;
}
