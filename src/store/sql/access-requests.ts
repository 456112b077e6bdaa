import {
  lettersOf,
  SAFE_REQUEST_MS,
  whyUndecidable,
  type AccessDecision,
  type AccessRequest,
} from "../../domain/account/account.ts";
import { hasRoomBeside } from "../../domain/account/quota.ts";
import { CLIENT_WRITE, LOCKS_UNNAMED, type WriteRules } from "../common/write-rule.ts";
import type { Undecidable } from "../store.ts";
import { makeAccount } from "./accounts.ts";
import { onlyPostgres, statement } from "./statement.ts";
import { all, get, run, send, type StoreUseCases, type UseCase } from "./use-case.ts";

// Other batches add requests only after this one has ended: otherwise two concurrent counts both find space for one more.
const LOCK_REQUESTS = onlyPostgres(`LOCK TABLE access_requests IN SHARE ROW EXCLUSIVE MODE`);

/** Counts waiting requests, up to the limit. */
export const COUNT_PENDING_REQUESTS = statement(`
  SELECT count(*) AS pending FROM (SELECT 1 FROM access_requests WHERE decision IS NULL LIMIT @max) AS p`);

const INSERT_REQUEST = statement(`
  INSERT INTO access_requests (id, email, name, company, message, created_at)
  VALUES (@id, @email, @name, @company, @message, @createdAt)`);

/** Erases the oldest request that waits, if it was made before a time. */
export const ERASE_OLDEST_REQUEST = statement(`
  DELETE FROM access_requests
  WHERE seq = (SELECT min(seq) FROM access_requests WHERE decision IS NULL) AND created_at < @before`);

// In the order of their numbers, so that two batches do not wait for each other.
export const DENY_REQUESTS = statement(`
  WITH waiting AS MATERIALIZED (
    SELECT seq FROM access_requests WHERE decision IS NULL AND created_at < @madeBefore
    ORDER BY seq FOR NO KEY UPDATE
  )
  UPDATE access_requests SET decision = 'denied', decided_at = @decidedAt
  WHERE seq IN (SELECT seq FROM waiting)`);

export const LOCK_DECISION = statement(
  `SELECT decision FROM access_requests WHERE id = @id FOR NO KEY UPDATE`,
);

export const DECIDE_REQUEST = statement(`
  UPDATE access_requests SET decision = @decision, decided_at = @decidedAt, account_seq = @accountId
  WHERE id = @id`);

const LIST = `
  SELECT r.id, r.email, r.name, r.company, r.message, r.created_at AS "createdAt", r.decision,
    r.decided_at AS "decidedAt", a.login
  FROM access_requests AS r LEFT JOIN accounts AS a ON a.seq = r.account_seq`;

/** Pages through the requests that wait, or through all, in the order in which they came. */
export const LIST_REQUESTS = {
  pending: statement(`${LIST} WHERE r.decision IS NULL ORDER BY r.seq LIMIT @limit`),
  all: statement(`${LIST} ORDER BY r.seq LIMIT @limit`),
} as const;

export const FIND_APPROVED_REQUEST = statement(`${LIST} WHERE r.account_seq = @accountId`);

interface RequestRow extends Omit<AccessRequest, "decision"> {
  readonly decision: AccessDecision["kind"] | null;
  readonly decidedAt: number | null;
  readonly login: string | null;
}

export const accessRequestWrites = {
  *insertAccessRequest({ id, fields, createdAt, pendingMax }) {
    yield* send(LOCK_REQUESTS);
    if (!hasRoomBeside(yield* countPending(pendingMax), pendingMax)) {
      const before = createdAt - SAFE_REQUEST_MS;
      if ((yield* run(ERASE_OLDEST_REQUEST, { before })) === 0) return "limit reached";
    }
    const { email, name, company, message } = fields;
    yield* send(INSERT_REQUEST, { id, email, name, company, message, createdAt });
    return "stored";
  },

  *approveAccessRequest({ id, decidedAt, account }) {
    const reason = yield* reasonNotToDecide(id);
    if (reason !== null) return reason;
    const accountId = yield* makeAccount(account);
    if (accountId === null) return "exists";
    yield* send(DECIDE_REQUEST, { id, decision: "approved", decidedAt, accountId });
    return "approved";
  },

  *denyAccessRequest({ id, decidedAt }) {
    const reason = yield* reasonNotToDecide(id);
    if (reason !== null) return reason;
    yield* send(DECIDE_REQUEST, { id, decision: "denied", decidedAt, accountId: null });
    return "denied";
  },

  *denyAccessRequests({ madeBefore, decidedAt }) {
    return yield* run(DENY_REQUESTS, { madeBefore, decidedAt });
  },
} satisfies StoreUseCases;

function* reasonNotToDecide(id: string): UseCase<Undecidable | null> {
  const row = yield* get<Pick<RequestRow, "decision">>(LOCK_DECISION, { id });
  return whyUndecidable(row?.decision);
}

export const accessRequestReads = {
  countPendingRequests: countPending,

  *findApprovedRequest(accountId) {
    const row = yield* get<RequestRow>(FIND_APPROVED_REQUEST, { accountId });
    return row === undefined ? null : toAccessRequest(row);
  },

  *listAccessRequests({ which, limit, lettersMax }) {
    const rows = yield* all<RequestRow>(LIST_REQUESTS[which], { limit });
    return takeRequests(rows, lettersMax);
  },
} satisfies StoreUseCases;

function* countPending(max: number): UseCase<number> {
  return (yield* get<{ pending: number }>(COUNT_PENDING_REQUESTS, { max }))?.pending ?? 0;
}

/** Takes requests up to the one with which there are more letters than `lettersMax`. */
function takeRequests(
  rows: Iterable<RequestRow>,
  lettersMax = Number.POSITIVE_INFINITY,
): readonly AccessRequest[] {
  const requests: AccessRequest[] = [];
  let letters = 0;
  for (const row of rows) {
    const request = toAccessRequest(row);
    requests.push(request);
    letters += lettersOf(request);
    if (letters > lettersMax) break;
  }
  return requests;
}

function toAccessRequest({
  decision: kind,
  decidedAt,
  login,
  ...request
}: RequestRow): AccessRequest {
  const decision = kind === null || decidedAt === null ? null : { kind, decidedAt, login };
  return { ...request, decision };
}

export const accessRequestRules = {
  insertAccessRequest: { weight: CLIENT_WRITE },
  approveAccessRequest: { hasEffect: (outcome) => outcome === "approved" },
  denyAccessRequest: { hasEffect: (outcome) => outcome === "denied" },
  denyAccessRequests: { postgresWeight: LOCKS_UNNAMED, hasEffect: (count) => count > 0 },
} satisfies WriteRules;
