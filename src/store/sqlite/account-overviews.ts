import type { OwnLimits } from "../../domain/account/quota.ts";
import { DAY_MS, MINUTE_MS } from "../../domain/clock/duration.ts";
import { toOwnLimits } from "../common/account-row.ts";
import type { AccountOverview } from "../store.ts";
import { ACCOUNT_COLUMNS, LIMIT_COLUMNS } from "./accounts.ts";
import { taskCountReads } from "./counts.ts";
import { heldWorkReads } from "./holds.ts";
import type { Connection } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";

export const LIST_OVERVIEWS = `
  SELECT seq AS accountId, ${ACCOUNT_COLUMNS}, webhook_secret_next IS NOT NULL AS isRotating,
    ${LIMIT_COLUMNS},
    (SELECT count(*) FROM keys WHERE account_seq = accounts.seq AND revoked_at IS NULL) AS keysActive
  FROM accounts
  WHERE login > @after AND instr(login, @part) > 0
  ORDER BY login
  LIMIT @limit`;

export const SUM_DAY = `
  SELECT coalesce(sum(posted), 0) AS posted, coalesce(sum(delivered), 0) AS delivered,
    coalesce(sum(given_up), 0) AS givenUp, coalesce(sum(refused), 0) AS refused
  FROM traffic
  WHERE account_seq = @accountSeq AND step_ms = ${MINUTE_MS} AND at > @after AND at <= @now`;

type RowFields = "login" | "createdAt" | "disabledAt" | "keysActive";

interface OverviewRow extends Pick<AccountOverview, RowFields>, OwnLimits {
  readonly accountId: number;
  readonly isRotating: 0 | 1;
}

/** The operator's list of accounts. */
export function accountOverviewReads(connection: Connection) {
  const list = connection.prepare<[object], OverviewRow>(LIST_OVERVIEWS);
  const sumDay = connection.prepare<[object], AccountOverview["day"]>(SUM_DAY);
  const { countAccountWork } = taskCountReads(connection);
  const { findHeldWork } = heldWorkReads(connection);

  function toOverview(row: OverviewRow, now: number): AccountOverview {
    const { accountId: accountSeq, login, createdAt, disabledAt, keysActive } = row;
    const day = sumDay.get({ accountSeq, after: now - DAY_MS, now });
    return {
      login,
      createdAt,
      disabledAt,
      keysActive,
      isRotating: row.isRotating === 1,
      ownLimits: toOwnLimits(row),
      held: disabledAt === null ? null : findHeldWork({ accountId: accountSeq }),
      counts: countAccountWork(accountSeq),
      day: day ?? { posted: 0, delivered: 0, givenUp: 0, refused: 0 },
    };
  }

  return {
    listAccountOverviews({ part, after, limit, now }) {
      // One row more than the page holds tells whether there is a next page.
      const rows = list.all({ part: part ?? "", after: after ?? "", limit: limit + 1 });
      const page = rows.slice(0, limit);
      const next = rows.length > limit ? (page.at(-1)?.login ?? null) : null;
      return { accounts: page.map((row) => toOverview(row, now)), next };
    },
  } satisfies Steps;
}
