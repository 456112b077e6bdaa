import { makeSchema } from "../../src/store/postgres/machine/migrate.ts";
import { parseServerAddress } from "../../src/store/postgres/machine/server-address.ts";
import { askDatabase } from "./postgres-nodes.ts";

/** The tables that grow with what is posted. */
export const LARGE_TABLES: ReadonlySet<string> = new Set([
  ...["tasks", "queue", "ends", "ready", "deliveries", "outbox", "attempts", "idempotency_keys"],
  ...["task_counts", "host_counts", "traffic", "host_traffic", "host_failures"],
]);

// A prime, so that an account's tasks share no other property by number.
const ACCOUNTS = 997;
const TASKS = 30_000;

// A third of the tasks is open. Of the open tasks a third is queued, a fifth runs, and a tenth has a lease.
const FILLING = [
  `INSERT INTO accounts (login, webhook_secret, created_at) SELECT 'a' || i, 's', 0 FROM generate_series(1, ${ACCOUNTS}) AS i`,
  `INSERT INTO nodes (name, version, schema_min, schema_max, joined_at, expires_at) VALUES ('n', '0', 1, 1, 0, 0)`,
  `INSERT INTO tasks (seq, id, account_seq, type, tag, priority, created_at, data_text, input_text)
   SELECT i, gen_random_uuid(), i % ${ACCOUNTS} + 1, 't' || i % 211, CASE WHEN i % 4 = 0 THEN 'g' || i % 50 END, i % 3 - 1, i,
     '{"type":"echo"}', repeat('x', 100)
   FROM generate_series(1, ${TASKS}) AS i`,
  `INSERT INTO queue (task_seq, account_seq, type, tag, priority, state, start_at, created_at, node_seq, started_at, runs,
     lease_id, worker_seq, claimed_at, lease_ms, deadline_at, lease_until)
   SELECT seq, account_seq, type, tag, priority,
     CASE WHEN seq % 5 = 0 THEN 'running' WHEN seq % 5 = 1 THEN 'delayed' ELSE 'queued' END::task_state,
     CASE WHEN seq % 5 = 1 THEN seq END, created_at, CASE WHEN seq % 10 = 0 THEN 1 END,
     CASE WHEN seq % 5 = 0 THEN seq END, 1, CASE WHEN seq % 10 = 5 THEN 'l' || seq END, CASE WHEN seq % 10 = 5 THEN 1 END,
     seq, 1000, seq + 9000, seq + 1000
   FROM tasks WHERE seq % 3 = 0`,
  `INSERT INTO ends (task_seq, account_seq, state, status_code, created_at, completed_at, expires_at, erase_at, result_text)
   SELECT seq, account_seq, CASE WHEN seq % 9 = 1 THEN 'failed' ELSE 'completed' END::task_state, 20000, created_at, seq,
     seq + 9000, seq + 9000, '1'
   FROM tasks WHERE seq % 3 <> 0`,
  `INSERT INTO ready (account_seq, completed_at, task_seq, type, tag)
   SELECT e.account_seq, completed_at, seq, type, tag FROM ends AS e JOIN tasks ON seq = task_seq WHERE seq % 2 = 0`,
  `INSERT INTO deliveries (task_seq, kind, url, host, ended)
   SELECT seq, kind, 'https://h', 'h' || seq % 500,
     CASE WHEN seq % 3 = 0 OR seq % 4 = 0 THEN NULL WHEN seq % 20 = 2 THEN 'given_up' ELSE 'delivered' END::delivery_end
   FROM tasks CROSS JOIN unnest(enum_range(NULL::webhook_kind)) AS kind WHERE seq % 2 = 0`,
  `INSERT INTO outbox (seq, task_seq, kind, account_seq, number, retry, host, due_at, started_at, node_seq)
   SELECT task_seq * 2 + (kind = 'postback')::int, task_seq, kind, e.account_seq, 1, task_seq % 3, host, task_seq,
     CASE WHEN task_seq % 7 = 0 THEN 1 END, CASE WHEN task_seq % 7 = 0 THEN 1 END
   FROM deliveries JOIN ends AS e USING (task_seq) WHERE ended IS NULL`,
  `INSERT INTO attempts (seq, task_seq, kind, account_seq, number, retry, host, due_at, started_at, ended_at, outcome)
   SELECT task_seq * 10 + n * 2 + (kind = 'postback')::int, task_seq, kind, e.account_seq, n, n - 1, host, task_seq, task_seq,
     task_seq, 'failed'
   FROM deliveries JOIN ends AS e USING (task_seq) CROSS JOIN generate_series(1, 3) AS n WHERE ended IS NOT NULL`,
  `INSERT INTO idempotency_keys (account_seq, key, body_hash, response_text, erase_at)
   SELECT account_seq, 'k' || seq, 'h', '{}', seq FROM tasks WHERE seq % 3 = 1`,
  `INSERT INTO task_counts (account_seq, word, stripe, count)
   SELECT a, word, stripe, 1 FROM generate_series(0, ${ACCOUNTS}) AS a
     CROSS JOIN unnest('{queued,delayed,running,completed,failed,ready,bytes}'::text[]) AS word
     CROSS JOIN generate_series(0, 3) AS stripe`,
  `INSERT INTO host_counts (account_seq, host, stripe, given_up)
   SELECT a, 'h' || h, stripe, 1 FROM generate_series(1, ${ACCOUNTS}) AS a CROSS JOIN generate_series(1, 5) AS h
     CROSS JOIN generate_series(0, 3) AS stripe`,
  `INSERT INTO traffic (account_seq, step_ms, at, stripe)
   SELECT a, step, n * step, stripe FROM generate_series(0, ${ACCOUNTS}) AS a CROSS JOIN unnest('{60000,3600000}'::int[]) AS step
     CROSS JOIN generate_series(1, 5) AS n CROSS JOIN generate_series(0, 1) AS stripe`,
  `INSERT INTO host_traffic (account_seq, at, host, stripe)
   SELECT a, n * 3600000, 'h' || h, 0 FROM generate_series(1, ${ACCOUNTS}) AS a CROSS JOIN generate_series(1, 4) AS n
     CROSS JOIN generate_series(1, 5) AS h`,
  `INSERT INTO host_failures (account_seq, host, stripe, ended_at, task_seq)
   SELECT a, 'h' || h, 0, h, 1 FROM generate_series(1, ${ACCOUNTS}) AS a CROSS JOIN generate_series(1, 5) AS h`,
];

/** Makes the tables of a database, and fills them with some tens of thousands of tasks and what belongs to them. */
export async function fillDatabase(url: string): Promise<void> {
  await makeSchema(parseServerAddress(url));
  for (const statement of FILLING) await askDatabase(url, statement);
  await askDatabase(url, "ANALYZE");
}
