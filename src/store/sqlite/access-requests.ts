import {
  lettersOf,
  whyUndecidable,
  type AccessDecision,
  type AccessRequest,
} from "../../domain/account/access-request.ts";
import { hasRoomBeside } from "../../domain/account/quota.ts";
import type { AccessApproval, NewAccessRequest, Undecidable } from "../store.ts";
import { accountWrites } from "./accounts.ts";
import type { Connection } from "./machine/connection.ts";

/** Counts no further than necessary. */
export const COUNT_PENDING_REQUESTS = `
  SELECT count(*) FROM (SELECT 1 FROM access_requests WHERE decision IS NULL LIMIT ?)`;

const INSERT_REQUEST = `
  INSERT INTO access_requests (id, email, name, company, message, created_at)
  VALUES (@id, @email, @name, @company, @message, @createdAt)`;

export const SELECT_DECISION = `SELECT decision FROM access_requests WHERE id = ?`;

export const APPROVE_REQUEST = `
  UPDATE access_requests
  SET decision = 'approved', decided_at = @decidedAt,
      account_seq = (SELECT seq FROM accounts WHERE login = @login)
  WHERE id = @id`;

export const DENY_REQUEST = `
  UPDATE access_requests SET decision = 'denied', decided_at = @decidedAt WHERE id = @id`;

const REQUEST_COLUMNS = `
  r.id, r.email, r.name, r.company, r.message, r.created_at, r.decision, r.decided_at, a.login`;

/** Pages through the requests that wait, or through all, in the order in which they came. */
export const LIST_REQUESTS = {
  pending: `
    SELECT ${REQUEST_COLUMNS}
    FROM access_requests AS r LEFT JOIN accounts AS a ON a.seq = r.account_seq
    WHERE r.decision IS NULL
    ORDER BY r.seq
    LIMIT ?`,
  all: `
    SELECT ${REQUEST_COLUMNS}
    FROM access_requests AS r LEFT JOIN accounts AS a ON a.seq = r.account_seq
    ORDER BY r.seq
    LIMIT ?`,
} as const;

interface RequestRow {
  id: string;
  email: string;
  name: string | null;
  company: string | null;
  message: string | null;
  created_at: number;
  decision: AccessDecision["kind"] | null;
  decided_at: number | null;
  login: string | null;
}

/** The writes on access requests. Each runs inside the transaction of its batch. */
export function accessRequestWrites(connection: Connection) {
  const countPending = connection.prepare<[number], number>(COUNT_PENDING_REQUESTS).pluck();
  const insert = connection.prepare(INSERT_REQUEST);
  const selectDecision = connection
    .prepare<[string], AccessDecision["kind"] | null>(SELECT_DECISION)
    .pluck();
  const approve = connection.prepare(APPROVE_REQUEST);
  const deny = connection.prepare(DENY_REQUEST);
  const { createAccount } = accountWrites(connection);

  return {
    insertAccessRequest(request: NewAccessRequest): "stored" | "limit reached" {
      const { fields, pendingMax, ...row } = request;
      const pending = countPending.get(pendingMax) ?? 0;
      if (!hasRoomBeside(pending, pendingMax)) return "limit reached";
      insert.run({ ...row, ...fields });
      return "stored";
    },

    approveAccessRequest(approval: AccessApproval): "approved" | "exists" | Undecidable {
      const { id, decidedAt, account } = approval;
      const reason = whyUndecidable(selectDecision.get(id));
      if (reason !== null) return reason;
      if (createAccount(account) === "exists") return "exists";
      approve.run({ id, decidedAt, login: account.login });
      return "approved";
    },

    denyAccessRequest(denial: { id: string; decidedAt: number }): "denied" | Undecidable {
      const reason = whyUndecidable(selectDecision.get(denial.id));
      if (reason !== null) return reason;
      deny.run(denial);
      return "denied";
    },
  };
}

/** The reads on access requests. */
export function accessRequestReads(connection: Connection) {
  const list = {
    pending: connection.prepare<[number], RequestRow>(LIST_REQUESTS.pending),
    all: connection.prepare<[number], RequestRow>(LIST_REQUESTS.all),
  };

  const countPending = connection.prepare<[number], number>(COUNT_PENDING_REQUESTS).pluck();

  return {
    countPendingRequests: (max: number): number => countPending.get(max) ?? 0,

    listAccessRequests(query: {
      which: "pending" | "all";
      limit: number;
      lettersMax?: number;
    }): readonly AccessRequest[] {
      const { which, limit, lettersMax = Number.POSITIVE_INFINITY } = query;
      const requests: AccessRequest[] = [];
      let letters = 0;
      for (const row of list[which].iterate(limit)) {
        const request = toAccessRequest(row);
        requests.push(request);
        letters += lettersOf(request);
        if (letters > lettersMax) break;
      }
      return requests;
    },
  };
}

function toAccessRequest(row: RequestRow): AccessRequest {
  return {
    id: row.id,
    email: row.email,
    name: row.name,
    company: row.company,
    message: row.message,
    createdAt: row.created_at,
    decision: toDecision(row),
  };
}

function toDecision({ decision, decided_at: decidedAt, login }: RequestRow): AccessDecision | null {
  if (decision === null || decidedAt === null) return null;
  return { kind: decision, decidedAt, login };
}
