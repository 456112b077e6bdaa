import { IdGenerator } from "../../src/domain/id.ts";
import type { NewTask } from "../../src/domain/task/task.ts";
import type { AttemptResult } from "../../src/domain/webhook/delivery.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import type { ClaimedAttempt, Store } from "../../src/store/store.ts";
import type { DaemonFile } from "../kit/daemon-file.ts";
import { DatabaseView } from "../kit/database-view.ts";
import { benchInput } from "../kit/request.ts";
import { readTag, tagText } from "./tag.ts";

/** Retries that are in a file before its daemon starts. */
export interface Backlog {
  readonly retries: number;
  readonly hosts: readonly string[];
  readonly port: number;
  /** They fall due evenly over so many milliseconds. */
  readonly spreadMs: number;
  /** Which retries of their series they are, in turn. */
  readonly retryNumbers: readonly number[];
}

// Of one step; the claims of the store take no more bytes at once than this makes.
const TASKS_PER_STEP = 1000;
const TASKS_PER_INSERT = 100;
const BACKLOG_MAX = 1_000_000;
const NOTHING_MEASURED = { dnsMs: null, connectMs: null, tlsMs: null, firstByteMs: null };
const FAILED: AttemptResult = {
  outcome: "failed",
  httpStatus: 500,
  error: "the receiver answered 500",
  address: null,
  phases: NOTHING_MEASURED,
  responseExcerpt: null,
  refusal: null,
  retryAfter: null,
};

/**
 * Fills a daemon's file with tasks whose first postback failed and is to be sent again, through the steps that the
 * daemon itself takes in its store. The first retry is due at 0: see {@link moveBacklog}.
 */
export async function fillBacklog(file: DaemonFile, backlog: Backlog): Promise<void> {
  using view = new DatabaseView(file.database);
  const accountId = view.number("SELECT seq FROM accounts");
  const store = await openStore(file);
  try {
    const filling = new Filling({ store, accountId, backlog });
    for (let index = 0; index < backlog.retries; index += TASKS_PER_STEP) {
      await filling.step(index, Math.min(TASKS_PER_STEP, backlog.retries - index));
    }
  } finally {
    await store.close();
  }
  const waiting = view.number("SELECT count(*) FROM attempts WHERE started_at IS NULL");
  if (waiting !== backlog.retries) throw new Error(`${waiting} retries are in the file`);
}

/** Has the first retry due at that time, in epoch milliseconds, and the others after it. */
export async function moveBacklog(file: DaemonFile, firstDueAt: number): Promise<void> {
  const store = await openStore(file);
  try {
    await store.shiftTimes({ after: -1, by: firstDueAt });
  } finally {
    await store.close();
  }
}

function openStore({ database }: DaemonFile): Promise<Store> {
  return openSqliteStore({ file: database, writer: "thread", backlogMax: BACKLOG_MAX });
}

class Filling {
  readonly #store: Store;
  readonly #accountId: number;
  readonly #backlog: Backlog;
  readonly #ids = new IdGenerator();

  constructor(deps: {
    readonly store: Store;
    readonly accountId: number;
    readonly backlog: Backlog;
  }) {
    this.#store = deps.store;
    this.#accountId = deps.accountId;
    this.#backlog = deps.backlog;
  }

  /** Makes so many tasks, from that one on: posted, run, sent once and failed. */
  async step(from: number, count: number): Promise<void> {
    const store = this.#store;
    const now = Date.now();
    const tasks = Array.from({ length: count }, (_, i) => this.#newTask(from + i, now));
    await Promise.all(parts(tasks, TASKS_PER_INSERT).map((some) => this.#insert(some, now)));
    const claimed = await store.claimTasks({ type: "echo", max: count, now });
    const finish = { state: "completed", code: 20000, errorText: null, endedAt: now } as const;
    const until = { expiresAt: now + 86_400_000, eraseAt: now + 86_400_000 };
    await Promise.all(
      claimed.map(({ seq, inputText }) =>
        store.finishTask({ ...finish, seq, resultText: inputText, ...until }),
      ),
    );
    const accountId = this.#accountId;
    const each = { accountId, fresh: count, retries: 0 };
    const lanes = this.#backlog.hosts.map((host) => ({ ...each, host }));
    let failed = 0;
    while (failed < count) {
      const { attempts } = await store.claimAttempts({ lanes, now });
      if (attempts.length === 0) throw new Error("the file took fewer tasks than were made");
      await Promise.all(attempts.map((attempt) => this.#fail(attempt, now)));
      failed += attempts.length;
    }
  }

  async #insert(accepted: readonly NewTask[], createdAt: number): Promise<void> {
    const none = { refused: [], refusedUntil: { expiresAt: 0, eraseAt: 0 }, idempotency: null };
    const quota = { bytes: 0, openTasks: 0, shareBytes: 0 };
    const post = { accountId: this.#accountId, createdAt, accepted, ...none, quota };
    await this.#store.insertTasks(post);
  }

  #newTask(index: number, now: number): NewTask {
    const { hosts, port, retries, spreadMs } = this.#backlog;
    const host = hosts[index % hosts.length] ?? "";
    const url = `http://${host}:${port}/postback`;
    const tag = tagText({ kind: "retry", at: Math.floor((index * spreadMs) / retries) });
    return {
      id: this.#ids.next(now),
      type: "echo",
      tag,
      marketplace: null,
      priority: 0,
      startAt: null,
      postback: { url, host },
      pingback: null,
      dataText: JSON.stringify({ type: "echo", tag, postback_url: url }),
      inputText: JSON.stringify(benchInput()),
    };
  }

  async #fail(attempt: ClaimedAttempt, endedAt: number): Promise<void> {
    const { retryNumbers } = this.#backlog;
    const dueAt = readTag(attempt.task.dataText)?.at ?? 0;
    const retry = retryNumbers[attempt.taskSeq % retryNumbers.length] ?? 1;
    const decision = { state: "scheduled", dueAt, retry } as const;
    await this.#store.recordAttempt({ attempt, result: FAILED, endedAt, decision });
  }
}

function parts<Item>(items: readonly Item[], length: number): readonly (readonly Item[])[] {
  const count = Math.ceil(items.length / length);
  return Array.from({ length: count }, (_, i) => items.slice(i * length, (i + 1) * length));
}
