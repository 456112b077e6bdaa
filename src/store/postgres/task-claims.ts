import { countClaimed } from "../../domain/stats/work-changes.ts";
import {
  CLAIM_INPUT_MAX,
  inTurn,
  isClaimFull,
  newTurn,
  shareOf,
  type Turn,
} from "../../domain/task/claim-turns.ts";
import type { ClaimedTask, TaskClaim } from "../store.ts";
import type { BatchChanges } from "./batch-changes.ts";
import { isHeld, nextEnabled } from "./held-accounts.ts";
import type { BatchSql, SqlValue } from "./machine/sql.ts";

/** The first of the accounts that the condition selects and that wait for the type. */
function firstWaiting(condition: string): string {
  return `(
    SELECT f.account_seq FROM queue AS f
    WHERE f.state = 'queued' AND f.type = $1 AND ${condition}
    ORDER BY f.account_seq LIMIT 1
  )`;
}

/**
 * A loose index scan: one seek for each account that waits, however many tasks it has. After a disabled account it goes
 * on with the next enabled one.
 */
function waiting(name: string, after: string, upTo: string): string {
  const isIn = `f.account_seq <= ${upTo}`;
  return `
  ${name} (account_seq) AS (
    SELECT ${firstWaiting(`f.account_seq > ${after} AND ${isIn}`)}
    UNION ALL
    SELECT CASE
      WHEN ${isHeld("w.account_seq")}
      THEN ${firstWaiting(`f.account_seq >= ${nextEnabled("w.account_seq")} AND ${isIn}`)}
      ELSE ${firstWaiting(`f.account_seq > w.account_seq AND ${isIn}`)}
    END
    FROM ${name} AS w WHERE w.account_seq IS NOT NULL
  )`;
}

/** Above the seq of every account. */
const LAST_ACCOUNT = String(Number.MAX_SAFE_INTEGER);

// Up to $2 enabled accounts that wait: those after the account $6, then those from the first on.
const WAITING_TURNS = `
  ${waiting("after_last", "$6::bigint", LAST_ACCOUNT)},
  ${waiting("up_to_last", "0", "$6::bigint")},
  turns AS MATERIALIZED (
    SELECT account_seq, row_number() OVER () AS turn, count(*) OVER () AS turns
    FROM (
      SELECT w.account_seq
      FROM (SELECT account_seq FROM after_last UNION ALL SELECT account_seq FROM up_to_last) AS w
      WHERE w.account_seq IS NOT NULL AND NOT ${isHeld("w.account_seq")}
      LIMIT $2::int
    ) AS w
  )`;

// The accounts $6.
const GIVEN_TURNS = `
  turns AS MATERIALIZED (
    SELECT account_seq, turn, count(*) OVER () AS turns
    FROM unnest($6::bigint[]) WITH ORDINALITY AS a (account_seq, turn)
  )`;

const START_RUN = `node_seq = $5::bigint`;

/**
 * One round of a claim of up to $2 tasks of the type $1: of each account its share, in the order of the turns. Who
 * comes second passes over what the first has locked, so nobody waits and nobody gets the same task. A task is started
 * while the inputs before it are not too large; the rest is locked until the batch has ended, and stays as it was.
 */
function startRound(turns: string, set: string): string {
  return `
  WITH RECURSIVE ${turns}, picked AS MATERIALIZED (
    SELECT t.turn, t.turns, q.task_seq, q.priority
    FROM turns AS t CROSS JOIN LATERAL (
      SELECT task_seq, priority FROM queue
      WHERE state = 'queued' AND type = $1 AND account_seq = t.account_seq
      ORDER BY priority DESC, task_seq
      LIMIT greatest(1, $2::int / t.turns)
      FOR UPDATE SKIP LOCKED
    ) AS q
    LIMIT $2::int
  ), sized AS (
    SELECT p.turns, p.task_seq, t.id, t.marketplace, t.input_text, octet_length(t.input_text) AS bytes,
      row_number() OVER w AS place,
      coalesce(sum(octet_length(t.input_text)) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)
        AS bytes_before
    FROM picked AS p JOIN tasks AS t ON t.seq = p.task_seq
    WINDOW w AS (ORDER BY p.turn, p.priority DESC, p.task_seq)
  )
  UPDATE queue AS q
  SET state = 'running', started_at = $3::bigint, runs = q.runs + 1, progress_text = NULL, ${set}
  FROM sized AS s
  WHERE q.task_seq = s.task_seq AND $4::bigint + s.bytes_before < ${CLAIM_INPUT_MAX}
  RETURNING q.task_seq AS seq, s.id, q.account_seq AS "accountId", q.type, q.tag, s.marketplace, q.runs, q.failures,
    s.input_text AS "inputText", s.place, s.turns, coalesce(s.bytes, 0) AS bytes`;
}

const START_FIRST = startRound(WAITING_TURNS, START_RUN);
const START_MORE = startRound(GIVEN_TURNS, START_RUN);

interface StartedRow extends ClaimedTask {
  readonly place: number;
  /** How many accounts had a turn in this round. */
  readonly turns: number;
  /** The size of the input. */
  readonly bytes: number;
}

/** A claim in the making. */
interface OpenClaim extends TaskClaim {
  left: number;
  /** The size of its inputs so far, in bytes: never less than in characters, and known without reading them. */
  inputLength: number;
}

/**
 * Starts queued tasks of a type in the order of the accounts' turns. Looks at `max` accounts at most, and of each reads
 * only the tasks that it starts: so the cost depends neither on the number of waiting tasks nor on that of accounts.
 */
export function taskClaims(sql: BatchSql, changes: BatchChanges) {
  const { served } = changes.memory;

  /** Gives the accounts of a round their shares: adds turns of accounts that had none before. */
  async function giveRound(
    claim: OpenClaim,
    turns: Map<number, Turn<ClaimedTask>>,
    [text, of]: readonly [text: string, of: SqlValue],
  ): Promise<void> {
    const { type, left, now, inputLength } = claim;
    const rows = await sql.all<StartedRow>(text, [type, left, now, inputLength, sql.nodeSeq, of]);
    const byAccount = Map.groupBy(
      rows.toSorted((a, b) => a.place - b.place),
      ({ accountId }) => accountId,
    );
    const share = shareOf(left, rows[0]?.turns ?? 1);
    for (const turn of turns.values()) turn.mayHaveMore = false;
    for (const [accountSeq, given] of byAccount) {
      const turn = turns.get(accountSeq) ?? newTurn<ClaimedTask>(accountSeq);
      turns.set(accountSeq, turn);
      turn.rows.push(...given.map(toClaimed));
      turn.mayHaveMore = given.length === share;
      countClaimed(changes, { accountSeq, tasks: given.length });
    }
    claim.left -= rows.length;
    claim.inputLength += rows.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** In the order of the turns. `inputLength` is the size that a claim of several types holds already. */
  return async function claimInTurn(
    order: TaskClaim,
    inputLength = 0,
  ): Promise<readonly ClaimedTask[]> {
    if (order.max < 1 || isClaimFull({ inputLength })) return [];
    const last = served.get(order.type) ?? NO_ACCOUNT;
    const claim: OpenClaim = { ...order, left: order.max, inputLength };
    const turns = new Map<number, Turn<ClaimedTask>>();
    await giveRound(claim, turns, [START_FIRST, last]);
    for (;;) {
      const open = [...turns.values()].filter(({ mayHaveMore }) => mayHaveMore);
      if (claim.left === 0 || open.length === 0 || isClaimFull(claim)) break;
      const accounts = open.map(({ accountSeq }) => accountSeq);
      await giveRound(claim, turns, [START_MORE, accounts]);
    }
    const tasks = inTurn([...turns.values()]);
    served.set(order.type, tasks.at(-1)?.accountId ?? last);
    return tasks;
  };
}

/** Below the seq of every account. */
const NO_ACCOUNT = 0;

function toClaimed({
  place: _place,
  turns: _turns,
  bytes: _bytes,
  ...task
}: StartedRow): ClaimedTask {
  return task;
}
