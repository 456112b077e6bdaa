import { type AccountUsage, type QuotaExcess, excessOf } from "../../domain/account/quota.ts";
import { countPost } from "../../domain/stats/work-counts.ts";
import { stateAtPost } from "../../domain/task/task.ts";
import { ANSWER_OVERHEAD_BYTES, TASK_OVERHEAD_BYTES, textBytes } from "../common/large-task.ts";
import type { KeptAnswer, Store, TaskPost, TaskPostOutcome } from "../store.ts";
import type { BatchChanges } from "./batch-changes.ts";
import { RunAgain } from "./machine/batch.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";

const INSERT_TASKS = `
  INSERT INTO tasks (seq, id, account_seq, type, tag, marketplace, priority, created_at, data_text, input_text, trace_text)
  SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::smallint[],
    $8::bigint[], $9::text[], $10::text[], $11::text[])`;

const INSERT_QUEUED = `
  INSERT INTO queue (task_seq, account_seq, type, tag, priority, state, start_at, created_at, pingback_host, postback_host,
    started_at, runs, node_seq)
  SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::smallint[], $6::task_state[],
    $7::bigint[], $8::bigint[], $9::text[], $10::text[], $11::bigint[], $12::int[], $13::bigint[])`;

const INSERT_DELIVERIES = `
  INSERT INTO deliveries (task_seq, kind, url, host)
  SELECT * FROM unnest($1::bigint[], $2::webhook_kind[], $3::text[], $4::text[])`;

const INSERT_REFUSED = `
  INSERT INTO ends (task_seq, account_seq, state, status_code, status_message, created_at, completed_at, expires_at,
    erase_at, error_text)
  SELECT seq, account_seq, 'failed', code, message, created_at, created_at, expires_at, erase_at, error_text
  FROM unnest($1::bigint[], $2::bigint[], $3::int[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[])
    AS a (seq, account_seq, code, message, created_at, expires_at, erase_at, error_text)`;

const FIND_ACCOUNTS = `
  SELECT seq, disabled_at IS NOT NULL AS "isDisabled" FROM accounts WHERE seq = ANY($1::bigint[])`;

const LOCK_ACCOUNTS = `
  SELECT seq FROM accounts WHERE seq = ANY($1::bigint[]) ORDER BY seq FOR NO KEY UPDATE`;

// As much as all other batches under way might add to an account: 63 of them, of 256 tasks and some megabytes.
const OTHERS = 63;
const NEAR_TASKS = OTHERS * 256;
const NEAR_BYTES = OTHERS * 2 * 1024 * 1024;

/** A post that is taken in. */
interface Accepted {
  readonly post: TaskPost;
  readonly tasks: readonly QueuedTask[];
}

/** Takes in the posts of a batch. */
export class PostStep {
  readonly #sql: BatchSql;
  readonly #changes: BatchChanges;
  /** The answer of this batch to each key. */
  readonly #answers = new Map<string, NonNullable<TaskPost["idempotency"]>>();
  #usage: ReadonlyMap<number, AccountUsage> = new Map();
  #found: ReadonlyMap<TaskPost, FoundAnswer> = new Map();
  #disabled: ReadonlySet<number> = new Set();

  constructor(sql: BatchSql, changes: BatchChanges) {
    this.#sql = sql;
    this.#changes = changes;
  }

  async insert(posts: readonly TaskPost[]): Promise<readonly TaskPostOutcome[]> {
    const accounts = [...new Set(posts.map(({ accountId }) => accountId))].toSorted(
      (a, b) => a - b,
    );
    const [usage, found, known] = await Promise.all([
      this.#changes.findUsage(accounts),
      findAnswers(this.#sql, posts),
      this.#sql.all<{ seq: number; isDisabled: boolean }>(FIND_ACCOUNTS, [accounts]),
    ]);
    requireAll(known, accounts);
    this.#usage = usage;
    this.#found = found;
    // One that is disabled may be about to be erased: see accountErasureReads.
    this.#disabled = new Set(known.flatMap(({ seq, isDisabled }) => (isDisabled ? seq : [])));
    const isToLock = (account: number): boolean =>
      this.#disabled.has(account) || posts.some((post) => this.#isNear(account, post));
    const toLock = accounts.filter(isToLock);
    if (toLock.length > 0) await this.#lock(toLock);
    const accepted: Accepted[] = [];
    const outcomes = posts.map((post) => this.#decide(post, accepted));
    await keepAnswers(
      this.#sql,
      accepted.map(({ post }) => post),
    );
    insertPosts(this.#sql, accepted);
    return outcomes;
  }

  /** True where the posts of other connections might exceed the quota together with this one. */
  #isNear(account: number, post: TaskPost): boolean {
    const { accountId, quota } = post;
    if (accountId !== account) return false;
    const used = this.#usage.get(account) ?? NOTHING;
    const bytesMax = Math.min(quota.bytes || Infinity, quota.shareBytes || Infinity);
    return (
      used.bytes + NEAR_BYTES + OTHERS * bytesOf(post) > bytesMax ||
      used.openTasks + NEAR_TASKS > (quota.openTasks || Infinity)
    );
  }

  /** Keeps other batches from posting for these accounts until this one has ended; and sees what they have added. */
  async #lock(accounts: readonly number[]): Promise<void> {
    const locked = this.#sql.all(LOCK_ACCOUNTS, [accounts]);
    const [found, usage] = await Promise.all([locked, this.#changes.findUsage(accounts)]);
    requireAll(found, accounts);
    this.#usage = new Map([...this.#usage, ...usage]);
  }

  #decide(post: TaskPost, accepted: Accepted[]): TaskPostOutcome {
    const { accountId, idempotency } = post;
    const found = this.#found.get(post);
    const key = idempotency === null ? null : `${accountId} ${idempotency.key}`;
    const kept = found?.kept ?? (key === null ? undefined : this.#answers.get(key));
    if (kept !== undefined) {
      return { kind: "kept", bodyHash: kept.bodyHash, answerText: kept.answerText };
    }
    const bytes = bytesOf(post, found?.bytes);
    const excess = this.#excessOf(post, bytes);
    if (excess !== null) return { kind: "over quota", ...excess };
    if (key !== null && idempotency !== null) this.#answers.set(key, idempotency);
    const tasks = post.accepted.map((task) => this.#toQueued(task, post));
    const started = tasks.flatMap(({ seq, isStarted }) => (isStarted ? seq : []));
    countPost(this.#changes, { ...post, started: started.length }, bytes);
    accepted.push({ post, tasks });
    return started.length === 0 ? { kind: "inserted" } : { kind: "inserted", started };
  }

  #toQueued(
    task: TaskPost["accepted"][number],
    { accountId, createdAt, traceText, starting }: TaskPost,
  ): QueuedTask {
    const isStarted = starting?.has(task.id) === true && !this.#disabled.has(accountId);
    return { ...task, seq: this.#sql.nextSeq(), accountId, createdAt, traceText, isStarted };
  }

  #excessOf({ accountId, accepted, quota }: TaskPost, bytes: number): QuotaExcess | null {
    const before = this.#usage.get(accountId) ?? NOTHING;
    const used = this.#changes.usageAfter(accountId, before);
    return excessOf({ bytes, openTasks: accepted.length }, { used, quota });
  }
}

// An account may have been erased since its request was let in.
function requireAll(found: readonly unknown[], accounts: readonly number[]): void {
  if (found.length < accounts.length) throw new Error("the account does not exist");
}

const NOTHING: AccountUsage = { bytes: 0, openTasks: 0 };

/** The bytes that a post adds; its answer replaces one of `replacedBytes`, if there is one. */
function bytesOf({ accepted, refused, idempotency }: TaskPost, replacedBytes?: number): number {
  let bytes = TASK_OVERHEAD_BYTES * (accepted.length + refused.length);
  for (const { dataText, inputText } of accepted) bytes += textBytes(dataText, inputText);
  for (const task of refused) bytes += textBytes(task.dataText, task.inputText, task.errorText);
  if (idempotency === null) return bytes;
  const replaced = replacedBytes === undefined ? 0 : ANSWER_OVERHEAD_BYTES + replacedBytes;
  return bytes + ANSWER_OVERHEAD_BYTES + textBytes(idempotency.answerText) - replaced;
}

function insertPosts(sql: BatchSql, posts: readonly Accepted[]): void {
  const accepted = posts.flatMap(({ tasks: own }) => own);
  const refused = posts.flatMap(({ post: { accountId, createdAt, refused: own, refusedUntil } }) =>
    own.map((task) => ({ ...task, ...refusedUntil, seq: sql.nextSeq(), accountId, createdAt })),
  );
  const tasks = [
    ...accepted,
    ...refused.map((task) => ({ ...task, marketplace: null, priority: 0, traceText: null })),
  ];
  if (tasks.length === 0) return;
  sql.send(INSERT_TASKS, [
    tasks.map(({ seq }) => seq),
    tasks.map(({ id }) => id),
    tasks.map(({ accountId }) => accountId),
    tasks.map(({ type }) => type),
    tasks.map(({ tag }) => tag),
    tasks.map(({ marketplace }) => marketplace),
    tasks.map(({ priority }) => priority),
    tasks.map(({ createdAt }) => createdAt),
    tasks.map(({ dataText }) => dataText),
    tasks.map(({ inputText }) => inputText),
    tasks.map(({ traceText }) => traceText),
  ]);
  queueTasks(sql, accepted);
  if (refused.length === 0) return;
  sql.send(INSERT_REFUSED, [
    refused.map(({ seq }) => seq),
    refused.map(({ accountId }) => accountId),
    refused.map(({ code }) => code),
    refused.map(({ message }) => message),
    refused.map(({ createdAt }) => createdAt),
    refused.map(({ expiresAt }) => expiresAt),
    refused.map(({ eraseAt }) => eraseAt),
    refused.map(({ errorText }) => errorText),
  ]);
}

/** An accepted task with its row number. */
type QueuedTask = TaskPost["accepted"][number] & {
  readonly seq: number;
  readonly accountId: number;
  readonly createdAt: number;
  readonly traceText: string | null;
  /** This node starts it now. */
  readonly isStarted: boolean;
};

function queueTasks(sql: BatchSql, tasks: readonly QueuedTask[]): void {
  if (tasks.length === 0) return;
  sql.send(INSERT_QUEUED, [
    tasks.map(({ seq }) => seq),
    tasks.map(({ accountId }) => accountId),
    tasks.map(({ type }) => type),
    tasks.map(({ tag }) => tag),
    tasks.map(({ priority }) => priority),
    tasks.map((task) => (task.isStarted ? "running" : stateAtPost(task, task.createdAt))),
    tasks.map(({ startAt }) => startAt),
    tasks.map(({ createdAt }) => createdAt),
    tasks.map(({ pingback }) => pingback?.host ?? null),
    tasks.map(({ postback }) => postback?.host ?? null),
    tasks.map(({ isStarted, createdAt }) => (isStarted ? createdAt : null)),
    tasks.map(({ isStarted }) => (isStarted ? 1 : 0)),
    tasks.map(({ isStarted }) => (isStarted ? sql.nodeSeq : null)),
  ]);
  const webhooks = tasks.flatMap(({ seq, pingback, postback }) =>
    [
      { seq, kind: "pingback", webhook: pingback },
      { seq, kind: "postback", webhook: postback },
    ].flatMap(({ webhook, ...of }) => (webhook === null ? [] : [{ ...of, ...webhook }])),
  );
  if (webhooks.length === 0) return;
  sql.send(INSERT_DELIVERIES, [
    webhooks.map(({ seq }) => seq),
    webhooks.map(({ kind }) => kind),
    webhooks.map(({ url }) => url),
    webhooks.map(({ host }) => host),
  ]);
}

const FIND_ANSWER = `
  SELECT body_hash AS "bodyHash", response_text AS "answerText" FROM idempotency_keys
  WHERE account_seq = $1 AND key = $2 AND erase_at >= $3`;

/**
 * Finds the answers of posts: those that are kept, and those that were to be kept until some time before now. No
 * transaction may erase them until the batch has ended, because erasing or replacing one subtracts its bytes. In the
 * order of the keys, so that two batches do not wait for each other.
 */
const FIND_ANSWERS = `
  SELECT a.place::int, k.erase_at >= a.service_at AS "isKept", k.body_hash AS "bodyHash",
    k.response_text AS "answerText", octet_length(k.response_text) AS bytes
  FROM unnest($1::bigint[], $2::text[], $3::bigint[]) WITH ORDINALITY AS a (account_seq, key, service_at, place)
  JOIN idempotency_keys AS k ON k.account_seq = a.account_seq AND k.key = a.key
  ORDER BY k.account_seq, k.key FOR UPDATE OF k`;

/**
 * Returns the stored keys. Another node may be keeping one of them: this waits for its commit, a few milliseconds, and
 * then leaves the other's answer as it is. In the order of the keys, so that two batches do not wait for each other.
 */
const KEEP_ANSWERS = `
  INSERT INTO idempotency_keys AS k (account_seq, key, body_hash, response_text, erase_at)
  SELECT account_seq, key, body_hash, response_text, erase_at
  FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[])
    AS a (account_seq, key, body_hash, response_text, erase_at)
  ORDER BY account_seq, key
  ON CONFLICT (account_seq, key) DO UPDATE
  SET body_hash = excluded.body_hash, response_text = excluded.response_text, erase_at = excluded.erase_at
  WHERE k.erase_at < $6
  RETURNING 1`;

/** The answer that there is for a key. */
export interface FoundAnswer {
  /** Null when it was to be kept until some time before now. */
  readonly kept: KeptAnswer | null;
  readonly bytes: number;
}

interface AnswerRow extends KeptAnswer {
  readonly place: number;
  readonly isKept: boolean;
  readonly bytes: number;
}

/** Finds the answer to the key of each post, by the post. */
export async function findAnswers(
  sql: Sql,
  posts: readonly TaskPost[],
): Promise<ReadonlyMap<TaskPost, FoundAnswer>> {
  const asked = posts.filter(({ idempotency }) => idempotency !== null);
  if (asked.length === 0) return new Map();
  const rows = await sql.all<AnswerRow>(FIND_ANSWERS, [
    asked.map(({ accountId }) => accountId),
    asked.map(({ idempotency }) => idempotency?.key ?? ""),
    asked.map(({ idempotency }) => idempotency?.steadyAt ?? 0),
  ]);
  return new Map(
    rows.flatMap(({ place, isKept, bodyHash, answerText, bytes }) => {
      const post = asked[place - 1];
      const kept = isKept ? { bodyHash, answerText } : null;
      return post === undefined ? [] : [[post, { kept, bytes }] as const];
    }),
  );
}

/**
 * Keeps the answers of posts with different keys, none of which has an answer that is still kept. Rejects with
 * {@link RunAgain} when another node has used one of them meanwhile: the next try finds its answer.
 */
export async function keepAnswers(sql: BatchSql, posts: readonly TaskPost[]): Promise<void> {
  const asked = posts.flatMap(({ accountId, idempotency }) =>
    idempotency === null ? [] : [{ accountId, ...idempotency }],
  );
  if (asked.length === 0) return;
  const kept = await sql.run(KEEP_ANSWERS, [
    asked.map(({ accountId }) => accountId),
    asked.map(({ key }) => key),
    asked.map(({ bodyHash }) => bodyHash),
    asked.map(({ answerText }) => answerText),
    asked.map(({ eraseAt }) => eraseAt),
    Math.max(...asked.map(({ steadyAt }) => steadyAt)),
  ]);
  if (kept < asked.length) throw new RunAgain();
}

export function idempotencyReads(sql: Sql) {
  return {
    async findKeptAnswer({ accountId, key, steadyAt }) {
      return (await sql.get<KeptAnswer>(FIND_ANSWER, [accountId, key, steadyAt])) ?? null;
    },
  } satisfies Partial<Store>;
}
