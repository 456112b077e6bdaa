import pg from "pg";

import { ANSWER_OVERHEAD_BYTES } from "../../src/store/common/large-task.ts";
import { ATTEMPT_BYTES, END_BYTES, POST_BYTES } from "../../src/store/sql/task-erasure.ts";
import { ALL_ACCOUNTS } from "../../src/store/sql/work-counts.ts";

const OPEN_DELIVERIES = `
  SELECT d.task_seq, d.kind, d.host FROM deliveries AS d
  WHERE d.ended IS NULL AND EXISTS (SELECT 1 FROM ends AS e WHERE e.task_seq = d.task_seq AND e.state <> 'cancelled')`;

const OF_TASKS = ["queue", "ends", "ready", "deliveries", "outbox", "attempts"];

const WRONG_COUNTS = `
  SELECT account_seq, word, sum(count) AS excess FROM (
    SELECT account_seq, word, count FROM task_counts WHERE word NOT LIKE 'ever!_%' ESCAPE '!'
    UNION ALL SELECT ${ALL_ACCOUNTS}, word, -count FROM task_counts WHERE account_seq > ${ALL_ACCOUNTS} AND word = 'bytes'
    UNION ALL SELECT account_seq, state::text, -1 FROM queue
    UNION ALL SELECT account_seq, state::text, -1 FROM ends
    UNION ALL SELECT account_seq, 'ready', -1 FROM ready
    UNION ALL SELECT account_seq, 'retrying', -1 FROM outbox WHERE retry > 0
    UNION ALL SELECT t.account_seq, 'undelivered', -1 FROM deliveries AS d JOIN tasks AS t ON t.seq = d.task_seq
      WHERE d.ended IN ('given_up', 'refused')
    UNION ALL SELECT account_seq, 'bytes', -${POST_BYTES} FROM tasks AS t
    UNION ALL SELECT account_seq, 'bytes', -${END_BYTES} FROM ends AS e
    UNION ALL SELECT account_seq, 'bytes', -${ATTEMPT_BYTES} FROM attempts AS a
    UNION ALL SELECT account_seq, 'bytes', -(${ANSWER_OVERHEAD_BYTES} + octet_length(response_text)) FROM idempotency_keys
  ) AS c
  GROUP BY account_seq, word HAVING sum(count) <> 0`;

const WRONG_HOSTS = `
  SELECT account_seq, host, sum(given_up) AS given_up, sum(refused) AS refused, sum(retrying) AS retrying FROM (
    SELECT account_seq, host, given_up, refused, retrying FROM host_counts
    UNION ALL SELECT t.account_seq, d.host, -(d.ended = 'given_up')::int, -(d.ended = 'refused')::int, 0
      FROM deliveries AS d JOIN tasks AS t ON t.seq = d.task_seq WHERE d.ended IN ('given_up', 'refused')
    UNION ALL SELECT account_seq, host, 0, 0, -1 FROM outbox WHERE retry > 0
  ) AS h
  GROUP BY account_seq, host HAVING sum(given_up) <> 0 OR sum(refused) <> 0 OR sum(retrying) <> 0`;

// Before anything is erased. Of each account, and of all together.
const WRONG_TRAFFIC = `
  WITH log (account_seq, posted, completed, failed, cancelled, firsts, delivered, timed) AS (
    SELECT account_seq, 1, 0, 0, 0, 0, 0, 0 FROM tasks
    UNION ALL SELECT account_seq, 0, (state = 'completed')::int, (state = 'failed')::int, (state = 'cancelled')::int,
      0, 0, 0 FROM ends
    UNION ALL SELECT account_seq, 0, 0, 0, 0, (retry = 0)::int, (outcome = 'delivered')::int, 1
      FROM attempts WHERE outcome <> 'interrupted'
  )
  SELECT account_seq FROM (
    SELECT * FROM log
    UNION ALL SELECT 0, posted, completed, failed, cancelled, firsts, delivered, timed FROM log
    UNION ALL SELECT account_seq, -posted, -completed, -failed, -cancelled, -first_attempts, -delivered,
      -(SELECT coalesce(sum(d), 0) FROM unnest(durations) AS d) FROM traffic
  ) AS t
  GROUP BY account_seq
  HAVING sum(posted) <> 0 OR sum(completed) <> 0 OR sum(failed) <> 0 OR sum(cancelled) <> 0
    OR sum(firsts) <> 0 OR sum(delivered) <> 0 OR sum(timed) <> 0`;

const ALL_ATTEMPTS = `(
    SELECT seq, task_seq, kind, account_seq, number, retry FROM attempts
    UNION ALL SELECT seq, task_seq, kind, account_seq, number, retry FROM outbox
  )`;

/** Faults that must never occur, each with the query of its rows. */
const FAULTS = {
  "counts of accounts that are wrong": WRONG_COUNTS,
  "counts of hosts that are wrong": WRONG_HOSTS,
  "tasks that are in the queue and have ended, or neither": `
    SELECT seq FROM tasks AS t
    WHERE EXISTS (SELECT 1 FROM queue WHERE task_seq = t.seq) = EXISTS (SELECT 1 FROM ends WHERE task_seq = t.seq)`,
  "rows of tasks that are not there": OF_TASKS.map(
    (table) => `
    SELECT '${table}' AS of, task_seq FROM ${table}
    WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE seq = task_seq)`,
  ).join(" UNION ALL "),
  "tasks that are ready and were not ended by a run": `
    SELECT task_seq FROM ready AS r
    WHERE NOT EXISTS (SELECT 1 FROM ends AS e WHERE e.task_seq = r.task_seq AND e.state IN ('completed', 'failed'))`,
  "open deliveries without an attempt, or attempts to be made of others": `
    SELECT o.task_seq AS attempt_of, d.task_seq AS delivery_of, kind FROM outbox AS o
    FULL JOIN (${OPEN_DELIVERIES}) AS d USING (task_seq, kind)
    WHERE o.task_seq IS NULL OR d.task_seq IS NULL`,
  "attempts of another account than their task": `
    SELECT a.task_seq FROM ${ALL_ATTEMPTS} AS a JOIN tasks AS t ON t.seq = a.task_seq
    WHERE a.account_seq <> t.account_seq`,
  "attempts whose numbers do not count on from the one before, nor begin a series": `
    SELECT * FROM (
      SELECT *, coalesce(lag(number) OVER (PARTITION BY task_seq, kind ORDER BY seq), 0) AS before
      FROM ${ALL_ATTEMPTS} AS a
    ) AS numbered
    WHERE number NOT IN (1, before + 1)`,
  "attempts that count the retries before them wrongly": `
    SELECT * FROM ${ALL_ATTEMPTS} AS b CROSS JOIN LATERAL (
      SELECT retry AS before, outcome AS ended FROM attempts AS a
      WHERE a.task_seq = b.task_seq AND a.kind = b.kind AND a.seq < b.seq ORDER BY a.seq DESC LIMIT 1
    ) AS a
    WHERE retry <> CASE WHEN number = 1 THEN 0 ELSE before + (ended <> 'interrupted')::int END`,
  "runs of no node that no worker holds": `
    SELECT task_seq FROM queue
    WHERE (state = 'running') <> (node_seq IS NOT NULL OR (lease_id IS NOT NULL AND lease_ending IS NULL))`,
};

/** Finds rows that must never be in the database of a store on PostgreSQL, after any fault of any node. */
export async function findFaults(url: string, { erases }: { readonly erases: boolean }) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    // One moment, while nodes write.
    await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
    const found: string[] = [];
    const faults = { ...FAULTS, ...(erases ? {} : { "traffic that is wrong": WRONG_TRAFFIC }) };
    for (const [what, sql] of Object.entries(faults)) {
      const { rows } = await client.query(sql);
      if (rows.length > 0)
        found.push(`${rows.length} ${what}: ${JSON.stringify(rows.slice(0, 3))}`);
    }
    return found;
  } finally {
    await client.end();
  }
}
