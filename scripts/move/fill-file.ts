import type Database from "better-sqlite3";

import { STATE_CODES } from "../../src/domain/task/task-transition.ts";
import { editDatabase } from "../kit/database-edit.ts";

const ACCOUNTS = 5;
const HOSTS = ["a.example", "b.example", "c.example"];
const NOW = Date.UTC(2026, 0, 1);
const MIB = 1024 * 1024;
const MINUTE_MS = 60_000;
const TRAFFIC_MINUTES = 500;

// Of so many tasks one has an input of a megabyte; and for each thousand there is one of another megabyte, up to the
// largest.
const LARGE_EVERY = 2000;
const TASKS_PER_LARGER = 1000;
const LARGEST_MIB = 8;

/**
 * Fills a file that has one account with rows of every table, in all states in which a daemon can leave them: so many
 * tasks, their inputs and results, webhooks with up to four attempts, leases, keys, orders and counts.
 */
export function fillFile(file: string, tasks: number): void {
  editDatabase(file, (database) => {
    fillAccounts(database);
    const larger = Math.min(LARGEST_MIB, Math.floor(tasks / TASKS_PER_LARGER));
    const fill = new TaskFiller(database, larger);
    for (let seq = 1; seq <= tasks; seq++) fill.add(seq);
    database.exec(SUMS);
    fillTraffic(database);
  });
}

function fillAccounts(database: Database.Database): void {
  const run = (sql: string, ...values: readonly unknown[]): void => {
    database.prepare(sql).run(...values);
  };
  for (let n = 2; n <= ACCOUNTS; n++) {
    run(
      "INSERT INTO accounts (login, webhook_secret, created_at) VALUES (?, ?, ?)",
      `a${n}`,
      "s",
      NOW,
    );
  }
  for (let n = 1; n <= 20 * ACCOUNTS; n++) {
    const account = 1 + (n % ACCOUNTS);
    const revokedAt = n % 3 === 0 ? NOW : null;
    run(
      "INSERT INTO keys (key_id, account_seq, hash, last_four, label, created_at, revoked_at) VALUES (?, ?, ?, 'wxyz', ?, ?, ?)",
      ...[`key ${n}`, account, `hash ${n}`, `label ‘${n}’`, NOW, revokedAt],
    );
    run(
      "INSERT INTO sessions (hash, key_seq, created_at, last_seen_at) VALUES (?, ?, ?, ?)",
      ...[`session ${n}`, n, NOW, NOW],
    );
    run("INSERT INTO sign_in_links VALUES (?, ?)", `link ${n}`, NOW);
    run(
      "INSERT INTO workers (name, hash, last_four, types_text, created_at) VALUES (?, ?, 'wxyz', '[\"x\"]', ?)",
      ...[`worker ${n}`, `worker ${n}`, NOW],
    );
    run(
      "INSERT INTO access_requests (id, email, message, created_at, decision, decided_at, account_seq) VALUES (?, ?, ?, ?, ?, ?, ?)",
      ...[`request ${n}`, `${n}@example.com`, "line\nline", NOW, "approved", NOW, account],
    );
    run(
      "INSERT INTO redelivery_orders (id, filter_text, per_second, created_at, last_attempt_seq, ended_at, cancelled) VALUES (?, '{}', 5, ?, ?, ?, ?)",
      ...[`order ${n}`, NOW, n, n % 2 === 0 ? NOW : null, n % 4 === 0 ? 1 : 0],
    );
    run("INSERT INTO queue_marks (task_seq, served_ms) VALUES (?, ?)", n, n * 1000);
  }
}

const STATES = [
  ...([
    "delayed",
    "queued",
    "queued",
    "running",
    "leased",
    "cancelled",
    "failed",
    "failed",
  ] as const),
  ...Array<"completed">(12).fill("completed"),
];

/** Adds one task after the other, with all that belongs to it. */
class TaskFiller {
  readonly #task;
  readonly #input;
  readonly #result;
  readonly #lease;
  readonly #delivery;
  readonly #attempt;
  readonly #answer;
  readonly #larger: number;
  #attempts = 0;

  /** The first so many tasks have inputs of 1 MiB, 2 MiB and so on. */
  constructor(database: Database.Database, larger: number) {
    this.#larger = larger;
    const into = (table: string, ...columns: readonly string[]) => {
      const places = columns.map(() => "?").join(", ");
      return database.prepare(`INSERT INTO ${table} (${columns.join(", ")}) VALUES (${places})`);
    };
    this.#task = into(
      "tasks",
      ...["seq", "id", "account_seq", "state", "status_code", "status_message", "type", "tag"],
      ...["priority", "start_at", "created_at", "started_at", "completed_at", "expires_at"],
      ...["runs", "failures", "ready", "data_text", "erase_at", "queued_mark"],
    );
    this.#input = into("task_inputs", "task_seq", "input_text");
    this.#result = into("task_results", "task_seq", "result_text", "error_text");
    this.#lease = into(
      "leases",
      ...["task_seq", "lease_id", "worker_seq", "claimed_at", "lease_ms", "deadline_at"],
      ...["expires_at", "ending", "losses"],
    );
    this.#delivery = into("deliveries", "task_seq", "kind", "url", "host", "state");
    this.#attempt = into(
      "attempts",
      ...["seq", "task_seq", "kind", "account_seq", "number", "retry", "host", "due_at"],
      ...[
        "started_at",
        "ended_at",
        "outcome",
        "http_status",
        "error",
        "dns_ms",
        "response_excerpt",
      ],
    );
    this.#answer = into(
      "idempotency_keys",
      ...["account_seq", "key", "body_hash", "answer_text", "erase_at"],
    );
  }

  add(seq: number): void {
    const kind = STATES[seq % STATES.length] ?? "completed";
    const isEnded = kind === "completed" || kind === "failed" || kind === "cancelled";
    const account = 1 + (seq % ACCOUNTS);
    const at = NOW + seq;
    const state = kind === "leased" ? "running" : kind;
    const code = state === "completed" ? 20000 : state === "failed" ? 50000 : STATE_CODES[state];
    const ended = isEnded ? at + 20 : null;
    const erased = isEnded ? at + 30 * 24 * 60 * MINUTE_MS : null;
    this.#task.run(
      ...[seq, idOf(seq), account, state, code, state === "failed" ? "it failed" : null, "echo"],
      ...[seq % 7 === 0 ? `tag ${seq % 100}` : null, seq % 10 === 0 ? 5 : 0],
      ...[kind === "delayed" ? at + MINUTE_MS : null, at, kind === "queued" ? null : at + 10],
      ...[ended, erased, isEnded ? 1 : 0, seq % 5 === 0 ? 1 : 0],
      ...[state === "completed" && seq % 2 === 0 ? 1 : 0, `{"number":${seq}.0}`, erased],
      ...[kind === "queued" ? 1 : null],
    );
    this.#input.run(seq, this.#inputOf(seq));
    if (state === "completed") this.#result.run(seq, `{"pages":${seq}}`, null);
    if (state === "failed") this.#result.run(seq, null, `{"message":"ünïcode ${seq}"}`);
    if (kind === "leased" || (isEnded && seq % 4 === 0)) {
      const ending = kind === "leased" ? null : state;
      const worker = 1 + (seq % 20);
      this.#lease.run(
        seq,
        `lease ${seq}`,
        worker,
        at,
        30_000,
        at + MINUTE_MS,
        at + 30_000,
        ending,
        0,
      );
    }
    if (seq % 10 === 3) this.#answer.run(account, `key ${seq}`, "hash", "answer ".repeat(50), at);
    if (kind === "queued" && seq % 3 === 0) this.#deliver({ seq, account, at }, "waiting");
    if (state === "completed" && seq % 3 === 0) this.#deliver({ seq, account, at }, "postback");
    if (state === "completed" && seq % 9 === 0) this.#deliver({ seq, account, at }, "pingback");
  }

  #inputOf(seq: number): string {
    if (seq <= this.#larger) return JSON.stringify("l".repeat(seq * MIB));
    if (seq % LARGE_EVERY === 0) return JSON.stringify("m".repeat(MIB));
    return `{"source":"s3://uploads/2026/${seq}.mov","width":1280,"note":"${"n".repeat(200)}"}`;
  }

  #deliver(task: { seq: number; account: number; at: number }, what: string): void {
    const { seq, account, at } = task;
    const kind = what === "pingback" ? "pingback" : "postback";
    const host = HOSTS[seq % HOSTS.length] ?? "";
    const state =
      what === "waiting" ? what : seq % 11 === 0 ? "given_up" : seq % 13 < 2 ? "open" : "delivered";
    this.#delivery.run(seq, kind, `https://${host}/${seq}?secret=${seq}`, host, state);
    if (what === "waiting") return;
    const last = 1 + (seq % 4);
    for (let number = 1; number <= last; number++) {
      const isLast = number === last;
      const outcome = isLast && state === "delivered" ? "delivered" : "failed";
      // Of those that are open the last one is under way, or is still to come.
      const isBegun = !isLast || state !== "open" || seq % 2 === 0;
      const isOver = !isLast || state !== "open";
      this.#attempt.run(
        ...[++this.#attempts, seq, kind, account, number, number - 1, host, at + number],
        ...[isBegun ? at + number : null, isOver ? at + number + 1 : null],
        ...[isOver ? outcome : null, isOver ? 500 : null, null, isOver ? 0.125 : null],
        ...[isOver ? `answer "${number}"\n`.repeat(20) : null],
      );
    }
  }
}

function idOf(seq: number): string {
  return `01234567-89ab-7cde-8000-${seq.toString(16).padStart(12, "0")}`;
}

const SUMS = `
  INSERT INTO task_counts SELECT account_seq, state, count(*) FROM tasks GROUP BY account_seq, state;
  INSERT INTO host_counts (account_seq, host, given_up)
    SELECT t.account_seq, d.host, count(*) FROM deliveries AS d JOIN tasks AS t ON t.seq = d.task_seq
    WHERE d.state = 'given_up' GROUP BY t.account_seq, d.host;`;

function fillTraffic(database: Database.Database): void {
  const total = database.prepare(
    "INSERT INTO traffic (account_seq, step_ms, at, posted, queued, durations_text) VALUES (?, ?, ?, ?, ?, ?)",
  );
  const byHost = database.prepare(
    "INSERT INTO host_traffic (account_seq, at, host, attempts, succeeded, durations_text) VALUES (?, ?, ?, ?, ?, ?)",
  );
  const failed = database.prepare(
    "INSERT INTO host_failures (account_seq, host, ended_at, error, task_seq) VALUES (?, ?, ?, ?, ?)",
  );
  for (let account = 1; account <= ACCOUNTS; account++) {
    for (let minute = 0; minute < TRAFFIC_MINUTES; minute++) {
      const at = NOW + minute * MINUTE_MS;
      total.run(account, MINUTE_MS, at, minute, minute % 9, JSON.stringify([minute, 0, account]));
      for (const host of HOSTS) byHost.run(account, at, host, minute + 1, minute, `[${minute},7]`);
    }
    for (const host of HOSTS) failed.run(account, host, NOW, "no answer within 10 s", account);
  }
}
