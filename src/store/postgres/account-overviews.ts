import type { OwnLimits } from "../../domain/account/quota.ts";
import { DAY_MS, MINUTE_MS } from "../../domain/clock/duration.ts";
import { toOwnLimits } from "../common/account-row.ts";
import type { AccountOverview, Store } from "../store.ts";
import { ACCOUNT_COLUMNS, LIMIT_COLUMNS } from "./accounts.ts";
import { readWorkCounts } from "./counts.ts";
import { heldWorkReads } from "./holds.ts";
import type { Sql } from "./machine/sql.ts";

const LIST_OVERVIEWS = `
  SELECT seq AS "accountId", ${ACCOUNT_COLUMNS}, webhook_secret_next IS NOT NULL AS "isRotating", ${LIMIT_COLUMNS},
    (SELECT count(*) FROM keys WHERE account_seq = accounts.seq AND revoked_at IS NULL) AS "keysActive"
  FROM accounts
  WHERE login > $1 AND strpos(login, $2) > 0
  ORDER BY login
  LIMIT $3`;

const SUM_DAY = `
  SELECT coalesce(sum(posted), 0) AS posted, coalesce(sum(delivered), 0) AS delivered,
    coalesce(sum(given_up), 0) AS "givenUp", coalesce(sum(refused), 0) AS refused
  FROM traffic
  WHERE account_seq = $1 AND step_ms = ${MINUTE_MS} AND at > $2 AND at <= $3`;

type RowFields = "login" | "createdAt" | "disabledAt" | "keysActive" | "isRotating";

interface OverviewRow extends Pick<AccountOverview, RowFields>, OwnLimits {
  readonly accountId: number;
}

/** The operator's list of accounts. */
export function accountOverviewReads(sql: Sql) {
  const { findHeldWork } = heldWorkReads(sql);

  async function toOverview(row: OverviewRow, now: number): Promise<AccountOverview> {
    const { accountId, login, createdAt, disabledAt, keysActive, isRotating } = row;
    const [day, counts, held] = await Promise.all([
      sql.get<AccountOverview["day"]>(SUM_DAY, [accountId, now - DAY_MS, now]),
      readWorkCounts(sql, accountId),
      disabledAt === null ? null : findHeldWork({ accountId }),
    ]);
    return {
      login,
      createdAt,
      disabledAt,
      keysActive,
      isRotating,
      ownLimits: toOwnLimits(row),
      held,
      counts,
      day: day ?? { posted: 0, delivered: 0, givenUp: 0, refused: 0 },
    };
  }

  return {
    async listAccountOverviews({ part, after, limit, now }) {
      // One row more than the page holds tells whether there is a next page.
      const values = [after ?? "", part ?? "", limit + 1];
      const rows = await sql.all<OverviewRow>(LIST_OVERVIEWS, values);
      const page = rows.slice(0, limit);
      const next = rows.length > limit ? (page.at(-1)?.login ?? null) : null;
      return { accounts: await Promise.all(page.map((row) => toOverview(row, now))), next };
    },
  } satisfies Partial<Store>;
}
