import { HOUR_MS, MINUTE_MS } from "../../domain/clock/duration.ts";
import { ANSWER_OVERHEAD_BYTES } from "../common/large-task.ts";
import { rows, type WriteRules } from "../common/write-rule.ts";
import type { StaleBefore } from "../store.ts";
import { eraseAudit } from "./audit.ts";
import { eachDialect, statement, type Statement } from "./statement.ts";
import {
  all,
  get,
  run,
  send,
  together,
  type Batch,
  type StoreUseCases,
  type UseCase,
  within,
} from "./use-case.ts";

/**
 * Erases up to @max of the rows that a query selects by their key. On PostgreSQL it passes over what another node is
 * erasing. The query runs once: run again for each row, it would pass over what is erased already, and find more than
 * its limit.
 */
function eraseSome(table: string, key: string, selected: string): string {
  return `
  WITH old AS MATERIALIZED (SELECT ${key} FROM ${table} ${selected} LIMIT @max FOR UPDATE SKIP LOCKED)
  DELETE FROM ${table} WHERE (${key}) IN (SELECT ${key} FROM old)`;
}

/** The same for a table that PostgreSQL writes in stripes. */
function eraseStriped(table: string, key: string, selected: string): Statement {
  return eachDialect({
    sqlite: eraseSome(table, key, selected),
    postgres: eraseSome(table, `${key}, stripe`, selected),
  });
}

const OLD_ANSWERS = `WHERE erase_at < @answersBefore ORDER BY erase_at`;

/** The size of each response that {@link ERASE_ANSWERS} would erase. */
export const SIZE_ANSWERS = statement(
  `SELECT octet_length(response_text) AS bytes FROM idempotency_keys ${OLD_ANSWERS} LIMIT @max`,
);

const eraseAnswers = (key: string): string => `
  ${eraseSome("idempotency_keys", key, OLD_ANSWERS)}
  RETURNING account_seq AS "accountId", octet_length(response_text) + ${ANSWER_OVERHEAD_BYTES} AS bytes`;

export const ERASE_ANSWERS = eachDialect({
  sqlite: eraseAnswers("seq"),
  postgres: eraseAnswers("account_seq, key"),
});

// A key is kept as long as a session has it. SQLite has an index of the revoked keys of each account.
const REVOKED = `
  k.revoked_at IS NOT NULL AND k.revoked_at > @from AND k.revoked_at < @to
  AND NOT EXISTS (SELECT 1 FROM sessions WHERE key_seq = k.seq)`;

/** Each erases what lies between two times. */
export const ERASE_DECIDED = {
  requests: statement(
    eraseSome(
      "access_requests",
      "seq",
      `WHERE decision IS NOT NULL AND decided_at > @from AND decided_at < @to ORDER BY decided_at`,
    ),
  ),
  orders: statement(
    eraseSome(
      "bulk_redeliveries",
      "seq",
      `WHERE ended_at IS NOT NULL AND ended_at > @from AND ended_at < @to ORDER BY ended_at`,
    ),
  ),
  keys: eachDialect({
    sqlite: `
      DELETE FROM keys WHERE seq IN (
        SELECT k.seq FROM accounts AS a CROSS JOIN keys AS k ON k.account_seq = a.seq WHERE ${REVOKED} LIMIT @max
      )`,
    postgres: eraseSome("keys", "seq", `AS k WHERE ${REVOKED}`),
  }),
};

const eraseSteps = (stepMs: number): Statement =>
  eraseStriped(
    "traffic",
    "account_seq, step_ms, at",
    `INDEXED BY traffic_by_age
      WHERE step_ms = ${stepMs} AND at > @from AND at <= @to::bigint - ${stepMs} ORDER BY at`,
  );

/** The same for records of what happened. A step of traffic lies there when it ended there. */
export const ERASE_TRAFFIC = {
  minutes: eraseSteps(MINUTE_MS),
  hours: eraseSteps(HOUR_MS),
  hosts: eraseStriped(
    "host_traffic",
    "account_seq, at, host",
    `INDEXED BY host_traffic_by_age WHERE at > @from AND at <= @to::bigint - ${HOUR_MS} ORDER BY at`,
  ),
  failures: eraseStriped(
    "host_failures",
    "account_seq, host",
    `INDEXED BY host_failures_by_age WHERE ended_at > @from AND ended_at < @to ORDER BY ended_at`,
  ),
};

/** Each erases what was made before a time of its own. */
export const ERASE_MADE = {
  pending: statement(
    eraseSome(
      "access_requests",
      "seq",
      `WHERE decision IS NULL AND (created_at < @pendingBefore OR created_at > @recordsAfter) ORDER BY seq`,
    ),
  ),
  sessions: statement(
    eraseSome("sessions", "seq", `WHERE created_at < @sessionsBefore ORDER BY created_at`),
  ),
  // The operator makes them one by one, so there are few.
  links: statement(eraseSome("sign_in_links", "hash", `WHERE expires_at < @linksBefore`)),
};

const INSERT_SECRET = statement(
  `INSERT INTO secrets (name, value) VALUES (@name, @fresh) ON CONFLICT (name) DO NOTHING`,
);

// Another node may have kept one a moment before: then the insert has waited for it, and this sees it.
const FIND_SECRET = statement(`SELECT value FROM secrets WHERE name = @name`);

type Due = StaleBefore & { readonly max: number };

export const secretWrites = {
  *keepSecret({ name, fresh }) {
    yield* send(INSERT_SECRET, { name, fresh });
    return (yield* get<{ value: string }>(FIND_SECRET, { name }))?.value ?? fresh;
  },
} satisfies StoreUseCases;

export function retentionWrites(batch: Batch) {
  return {
    *eraseStale(due) {
      return (yield* eraseOldAnswers(batch, due)) + (yield* eraseUncounted(due));
    },
  } satisfies StoreUseCases;
}

function* eraseOldAnswers({ changes }: Batch, { answersBefore, max }: Due): UseCase<number> {
  const sizes = yield* within<{ bytes: number }>(SIZE_ANSWERS, { answersBefore, max });
  if (sizes.length === 0) return 0;
  const erased = yield* all<{ accountId: number; bytes: number }>(ERASE_ANSWERS, {
    answersBefore,
    max: sizes.length,
  });
  for (const { accountId, bytes } of erased) changes.counts.add(accountId, "bytes", -bytes);
  return erased.length;
}

function* eraseUncounted(due: Due): UseCase<number> {
  const { max, recordsAfter } = due;
  const future = { from: recordsAfter, to: Number.MAX_SAFE_INTEGER, max };
  const within = (statements: object, to: number) =>
    [{ from: 0, to, max }, future].flatMap((span) =>
      Object.values(statements).map((each: Statement) => run(each, span)),
    );
  const erased = yield* together<number[]>(
    ...within(ERASE_DECIDED, due.decidedBefore),
    ...within(ERASE_TRAFFIC, due.trafficBefore),
    ...Object.values(ERASE_MADE).map((each) => run(each, { ...due })),
    eraseAudit({ before: due.auditBefore, max }),
  );
  return erased.reduce((sum, count) => sum + count, 0);
}

export const retentionRules = {
  keepSecret: {},
  eraseExpired: { weight: ({ max }) => rows(max) },
  eraseStale: { weight: ({ max }) => rows(2 * max) },
} satisfies WriteRules;
