import { newLeaseId } from "../../domain/id.ts";
import { countClaimed } from "../../domain/stats/work-counts.ts";
import {
  CLAIM_INPUT_MAX,
  inTurn,
  isClaimFull,
  newTurn,
  shareOf,
  type Turn,
} from "../../domain/task/claim-turn.ts";
import type { ClaimedTask, LeasedTask, TaskClaim } from "../store.ts";
import type { BatchChanges } from "./batch-changes.ts";
import type { BatchSql, SqlValue } from "./machine/sql.ts";
import { partColumns, waitsFromStart, type QueueLook, type QueuePart } from "./scan-starts.ts";
import { isSuspended, nextEnabled } from "./task-columns.ts";

/** The first account of a part `s` that waits for the type, after a place in it. */
function firstWaiting(place: string): string {
  return `(
    SELECT f.account_seq FROM queue AS f
    WHERE f.state = 'queued' AND f.type = $1 AND f.account_seq > ${place} AND f.account_seq <= s.up_to
    ORDER BY f.account_seq LIMIT 1
  )`;
}

/**
 * The accounts of a part `s` that wait. A loose index scan: one seek for each of them, however many tasks it has. After a
 * disabled account it goes on with the next enabled one.
 */
const WAITING = `
  SELECT s.up_to AS account_seq WHERE s.start IS NOT NULL AND ${waitsFromStart("$1")}
  UNION ALL
  SELECT account_seq FROM (
    WITH RECURSIVE waiting (account_seq) AS (
      SELECT ${firstWaiting("s.above")} WHERE s.start IS NULL
      UNION ALL
      SELECT CASE
        WHEN ${isSuspended("w.account_seq")} THEN ${firstWaiting(`${nextEnabled("w.account_seq")} - 1`)}
        ELSE ${firstWaiting("w.account_seq")}
      END
      FROM waiting AS w WHERE w.account_seq IS NOT NULL
    )
    SELECT account_seq FROM waiting WHERE account_seq IS NOT NULL
  ) AS w`;

// Up to $2 enabled accounts that wait, in the order of the parts.
const WAITING_TURNS = `
  turns AS MATERIALIZED (
    SELECT account_seq, start, row_number() OVER () AS turn, count(*) OVER () AS turns
    FROM (
      SELECT w.account_seq, coalesce(s.start, 0) AS start
      FROM unnest($5::bigint[], $6::bigint[], $7::bigint[]) AS s (above, up_to, start) CROSS JOIN LATERAL (${WAITING}) AS w
      WHERE NOT ${isSuspended("w.account_seq")}
      LIMIT $2::int
    ) AS w
  )`;

// The accounts that the parts are.
const GIVEN_TURNS = `
  turns AS MATERIALIZED (
    SELECT account_seq, start, turn, count(*) OVER () AS turns
    FROM unnest($5::bigint[], $6::bigint[], $7::bigint[]) WITH ORDINALITY AS a (above, account_seq, start, turn)
  )`;

/** The next tasks of the account of a turn, in the order of an index. */
function nextOf(condition: string, order: string): string {
  return `
      SELECT * FROM (
        SELECT task_seq, priority FROM queue
        WHERE state = 'queued' AND type = $1 AND account_seq = t.account_seq AND ${condition}
        ORDER BY ${order}
        LIMIT greatest(1, $2::int / t.turns)
        FOR UPDATE SKIP LOCKED
      ) AS n`;
}

// Each comes before what follows it, and is looked for only when there is room after what came before.
const NEXT_TASKS = [
  nextOf("priority > 0", "priority DESC, task_seq"),
  nextOf("priority = 0 AND queued_checkpoint IS NOT NULL AND task_seq < t.start", "task_seq"),
  nextOf("priority = 0 AND task_seq >= t.start", "task_seq"),
].join("\n      UNION ALL");

/** The columns that a claim writes besides: of parameters from $8 on. `s.place` is the place of a task in its round. */
interface ClaimKind {
  readonly set: string;
  /** More columns to answer. */
  readonly returning?: string;
}

/**
 * One round of a claim of up to $2 tasks of the type $1: of each account its share, in the order of the turns. A
 * second claim passes over what the first has locked, so none waits and none gets the same task. A task is started
 * while the inputs before it are not too large; the rest is locked until the batch has ended, and stays as it was.
 *
 * The tasks go through an array: the planner takes one for short, where it takes a limit that it does not know for a
 * tenth of the table, and reads all of it (measured with 100,000 waiting tasks: 70 ms for 100 of them instead of 1.2). For
 * `+ 0` see "Rows by their numbers" in machine/sql.ts.
 */
function startRound(turns: string, { set, returning = "" }: ClaimKind): string {
  return `
  WITH RECURSIVE ${turns}, picked AS MATERIALIZED (
    SELECT t.turn, t.turns, q.task_seq, q.priority
    FROM turns AS t CROSS JOIN LATERAL (
      ${NEXT_TASKS}
      LIMIT greatest(1, $2::int / t.turns)
    ) AS q
    LIMIT $2::int
  ), given AS MATERIALIZED (
    SELECT max(turns) AS turns, array_agg(task_seq ORDER BY turn, priority DESC, task_seq) AS seqs FROM picked
  ), sized AS (
    SELECT g.turns, a.task_seq, a.place, t.id, t.marketplace, t.trace_text, t.input_text, octet_length(t.input_text) AS bytes,
      coalesce(sum(octet_length(t.input_text)) OVER (ORDER BY a.place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)
        AS bytes_before
    FROM given AS g CROSS JOIN LATERAL unnest(g.seqs) WITH ORDINALITY AS a (task_seq, place)
      JOIN tasks AS t ON t.seq = a.task_seq
  )
  UPDATE queue AS q
  SET state = 'running', started_at = $3::bigint, runs = q.runs + 1, progress_text = NULL, ${set}
  FROM sized AS s
  WHERE q.task_seq = ANY ((SELECT seqs FROM given)::bigint[]) AND s.task_seq = q.task_seq + 0 AND $4::bigint + s.bytes_before < ${CLAIM_INPUT_MAX}
  RETURNING q.task_seq AS seq, s.id, q.account_seq AS "accountId", q.type, q.tag, s.marketplace, q.runs, q.failures,
    greatest(q.created_at, q.start_at) AS "queuedAt", s.trace_text AS "traceText",
    s.input_text AS "inputText", q.priority, s.place, s.turns, coalesce(s.bytes, 0) AS bytes${returning}`;
}

/** The statements of a claim's first round, and of the rounds that share the remaining slots. */
interface ClaimTexts {
  readonly first: string;
  readonly more: string;
}

function claimTexts(kind: ClaimKind): ClaimTexts {
  return { first: startRound(WAITING_TURNS, kind), more: startRound(GIVEN_TURNS, kind) };
}

export const START_RUNS = claimTexts({ set: `node_seq = $8::bigint` });

export const START_LEASES = claimTexts({
  set: `
    node_seq = NULL, worker_seq = $8::bigint, lease_ms = $9::int, claimed_at = $3::bigint, deadline_at = $10::bigint,
    lease_until = $11::bigint, lease_id = ($12::text[])[s.place], lease_ending = NULL`,
  returning: `, q.lease_id AS "leaseId", q.lease_until AS "leaseExpiresAt"`,
});

interface RoundFacts {
  readonly priority: number;
  readonly place: number;
  /** How many accounts had a turn in this round. */
  readonly turns: number;
  /** The size of the input. */
  readonly bytes: number;
}

interface ClaimOrder extends TaskClaim {
  /** The size of inputs that the claim holds already, of other types: in bytes, never less than in characters. */
  readonly inputLength: number;
}

/** An order to start tasks for a worker. */
export interface LeaseOrder extends ClaimOrder {
  readonly workerId: number;
  readonly leaseMs: number;
  readonly deadlineAt: number;
  readonly expiresAt: number;
}

/** The tasks that were started, in the order of the turns. */
interface Claimed<Task> {
  readonly tasks: readonly Task[];
  /** As in the order, together with these tasks. */
  readonly inputLength: number;
}

/** Starts tasks for this node's own runners. */
export function runClaims(sql: BatchSql, changes: BatchChanges) {
  const claims = new TurnClaims<ClaimedTask & RoundFacts>(sql, changes, START_RUNS);
  return (order: TaskClaim): Promise<Claimed<ClaimedTask>> =>
    claims.claim({ ...order, inputLength: 0 }, () => [sql.nodeSeq]);
}

/** Starts tasks for workers, each with a new lease. */
export function leaseClaims(sql: BatchSql, changes: BatchChanges) {
  const claims = new TurnClaims<LeasedTask & RoundFacts>(sql, changes, START_LEASES);
  return (order: LeaseOrder): Promise<Claimed<LeasedTask>> => {
    const { workerId, leaseMs, deadlineAt, expiresAt } = order;
    return claims.claim(order, (max) => [
      ...[workerId, leaseMs, deadlineAt, expiresAt],
      Array.from({ length: max }, newLeaseId),
    ]);
  };
}

/** The values of a kind of claim, for up to so many tasks. */
type ValuesOf = (max: number) => readonly SqlValue[];

/** A claim in the making. */
interface OpenClaim<Row> {
  readonly order: ClaimOrder;
  readonly valuesOf: ValuesOf;
  readonly turns: Map<number, Turn<Row>>;
  readonly look: QueueLook;
  left: number;
  inputLength: number;
}

/**
 * Starts queued tasks of a type in the order of the accounts' turns. Looks at `max` accounts at most, and of each reads
 * only the tasks that it starts: so the cost depends neither on the number of waiting tasks nor on that of accounts.
 */
class TurnClaims<Row extends ClaimedTask & RoundFacts> {
  readonly #sql: BatchSql;
  readonly #changes: BatchChanges;
  readonly #texts: ClaimTexts;

  constructor(sql: BatchSql, changes: BatchChanges, texts: ClaimTexts) {
    this.#sql = sql;
    this.#changes = changes;
    this.#texts = texts;
  }

  async claim(
    order: ClaimOrder,
    valuesOf: ValuesOf,
  ): Promise<Claimed<Omit<Row, keyof RoundFacts>>> {
    const { type, max, inputLength } = order;
    if (max < 1 || isClaimFull(order)) return { tasks: [], inputLength };
    const { served } = this.#changes.memory;
    const last = served.get(type) ?? NO_ACCOUNT;
    const look = this.#changes.lookAtQueue(type);
    const turns = new Map<number, Turn<Row>>();
    const claim: OpenClaim<Row> = { order, valuesOf, turns, look, left: max, inputLength };
    const isWhole = await this.#giveRound(claim, this.#texts.first, look.partsAfter(last));
    // All accounts were looked at.
    if (isWhole) look.emptiedAllBut(new Set(turns.keys()));
    for (;;) {
      const open = [...turns.values()].filter(({ mayHaveMore }) => mayHaveMore);
      if (claim.left === 0 || open.length === 0 || isClaimFull(claim)) break;
      const parts = look.partsOf(open.map(({ accountId }) => accountId));
      await this.#giveRound(claim, this.#texts.more, parts);
    }
    const tasks = inTurn([...turns.values()]);
    served.set(type, tasks.at(-1)?.accountId ?? last);
    return {
      tasks: tasks.map(
        ({ priority: _priority, place: _place, turns: _turns, bytes: _bytes, ...task }) => task,
      ),
      inputLength: claim.inputLength,
    };
  }

  /** Gives the accounts of a round their shares. The first round makes their turns. True if there was more to give. */
  async #giveRound(
    claim: OpenClaim<Row>,
    text: string,
    parts: readonly QueuePart[],
  ): Promise<boolean> {
    const { turns, left, inputLength, order } = claim;
    const rows = await this.#sql.all<Row>(text, [
      ...[order.type, left, order.now, inputLength],
      ...partColumns(parts),
      ...claim.valuesOf(left),
    ]);
    const accounts = rows[0]?.turns ?? 0;
    const share = shareOf(left, accounts || 1);
    for (const turn of turns.values()) turn.mayHaveMore = false;
    const inOrder = rows.toSorted((a, b) => a.place - b.place);
    const byAccount = Map.groupBy(inOrder, ({ accountId }) => accountId);
    for (const [accountId, given] of byAccount) {
      const turn = turns.get(accountId) ?? newTurn<Row>(accountId);
      turns.set(accountId, turn);
      turn.rows.push(...given);
      for (const { bytes } of given) claim.inputLength += bytes;
      turn.mayHaveMore = given.length === share;
      countClaimed(this.#changes, { accountId, tasks: given.length });
    }
    claim.left -= rows.length;
    // Learns from which task on the accounts have something.
    for (const [accountId, given] of byAccount) {
      const last = given.findLast(({ priority }) => priority === 0);
      const isEmpty = given.length < share && !isClaimFull(claim);
      if (isEmpty) claim.look.emptied(accountId);
      else if (last !== undefined) claim.look.givenUpTo(accountId, last.seq);
    }
    return accounts < left && !isClaimFull(claim);
  }
}

/** Below the seq of every account. */
const NO_ACCOUNT = 0;

/** Lets claims of the same type go one after the other, because they share its turns. */
export class TypeTurns {
  readonly #last = new Map<string, Promise<unknown>>();

  take<Value>(type: string, step: () => Promise<Value>): Promise<Value> {
    const value = (this.#last.get(type) ?? Promise.resolve()).then(step);
    this.#last.set(type, value);
    return value;
  }
}
