import type { OwnLimits } from "../../domain/account/quota.ts";
import { DAY_MS, MINUTE_MS } from "../../domain/clock/duration.ts";
import type { AccountOverview } from "../store.ts";
import { ACCOUNT_COLUMNS, LIMIT_COLUMNS, toOwnLimits } from "./accounts.ts";
import { eachDialect, statement, type Flag } from "./statement.ts";
import { findSuspendedWork } from "./suspensions.ts";
import { all, get, together, type StoreUseCases, type UseCase } from "./use-case.ts";
import { countWork } from "./work-counts.ts";

const listOverviews = (placeOf: "instr" | "strpos"): string => `
  SELECT seq AS "accountId", ${ACCOUNT_COLUMNS}, webhook_secret_next IS NOT NULL AS "isRotating",
    ${LIMIT_COLUMNS},
    (SELECT count(*) FROM keys WHERE account_seq = accounts.seq AND revoked_at IS NULL) AS "keysActive"
  FROM accounts
  WHERE login > @after AND ${placeOf}(login, @part) > 0
  ORDER BY login
  LIMIT @limit`;

export const LIST_OVERVIEWS = eachDialect({
  sqlite: listOverviews("instr"),
  postgres: listOverviews("strpos"),
});

export const SUM_DAY = statement(`
  SELECT coalesce(sum(posted), 0) AS posted, coalesce(sum(delivered), 0) AS delivered,
    coalesce(sum(given_up), 0) AS "givenUp", coalesce(sum(refused), 0) AS refused
  FROM traffic
  WHERE account_seq = @accountId AND step_ms = ${MINUTE_MS} AND at > @after AND at <= @now`);

type RowFields = "login" | "createdAt" | "disabledAt" | "keysActive";

interface OverviewRow extends Pick<AccountOverview, RowFields>, OwnLimits {
  readonly accountId: number;
  readonly isRotating: Flag;
}

/** The operator's list of accounts. */
export const accountOverviewReads = {
  *listAccountOverviews({ part, after, limit, now }) {
    // One row more than the page holds shows whether there is a next page.
    const bounds = { part: part ?? "", after: after ?? "", limit: limit + 1 };
    const rows = yield* all<OverviewRow>(LIST_OVERVIEWS, bounds);
    const page = rows.slice(0, limit);
    const next = rows.length > limit ? (page.at(-1)?.login ?? null) : null;
    const accounts = yield* together<readonly AccountOverview[]>(
      ...page.map((row) => toOverview(row, now)),
    );
    return { accounts, next };
  },
} satisfies StoreUseCases;

function* toOverview(row: OverviewRow, now: number): UseCase<AccountOverview> {
  const { accountId, login, createdAt, disabledAt, keysActive } = row;
  const [day, counts] = yield* together(
    get<AccountOverview["day"]>(SUM_DAY, { accountId, after: now - DAY_MS, now }),
    countWork(accountId),
  );
  return {
    login,
    createdAt,
    disabledAt,
    keysActive,
    isRotating: Boolean(row.isRotating),
    ownLimits: toOwnLimits(row),
    held: disabledAt === null ? null : yield* findSuspendedWork({ accountId }),
    counts,
    day: day ?? { posted: 0, delivered: 0, givenUp: 0, refused: 0 },
  };
}
