import { excessOf } from "../../domain/account/quota.ts";
import { countPost } from "../../domain/stats/work-counts.ts";
import {
  stateAtPost,
  STATE_CODES,
  type NewTask,
  type RefusedTask,
  type TaskWebhook,
} from "../../domain/task/task.ts";
import { ANSWER_OVERHEAD_BYTES, TASK_OVERHEAD_BYTES, textBytes } from "../common/large-task.ts";
import type { Idempotency, KeptAnswer, TaskPost, TaskPostOutcome } from "../store.ts";
import { suspendedReader } from "./attempts.ts";
import type { BatchChanges } from "./counts.ts";
import type { Connection } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";

/**
 * A post on its way to the writer thread, without the names of its fields. The structured clone writes and reads every
 * name of every object: with them a post costs 2.0 µs here and 2.9 there, without them 1.1 and 0.9 (measured, 300 bytes
 * of input, batches of 20).
 */
type PostRow = readonly [
  accountId: number,
  createdAt: number,
  bytesMax: number,
  shareBytesMax: number,
  openTasksMax: number,
  traceText: string | null,
  accepted: readonly AcceptedRow[],
  /** Null for a post that only has accepted tasks. */
  rest: PostRest | null,
];

type AcceptedRow = readonly [
  id: string,
  type: string,
  tag: string | null,
  marketplace: string | null,
  priority: number,
  startAt: number | null,
  postback: TaskWebhook | null,
  pingback: TaskWebhook | null,
  dataText: string,
  inputText: string | null,
  isStarting: boolean,
];

type PostRest = Pick<TaskPost, "refused" | "refusedUntil" | "idempotency">;

const NO_REST: PostRest = {
  refused: [],
  refusedUntil: { expiresAt: 0, eraseAt: 0 },
  idempotency: null,
};

export function toPostRow(post: TaskPost): PostRow {
  const { accountId, createdAt, quota, traceText, refused, refusedUntil, idempotency } = post;
  const isPlain = refused.length === 0 && idempotency === null;
  return [
    accountId,
    createdAt,
    quota.bytes,
    quota.shareBytes,
    quota.openTasks,
    traceText,
    post.accepted.map((task) => toAcceptedRow(task, post.starting?.has(task.id) === true)),
    isPlain ? null : { refused, refusedUntil, idempotency },
  ];
}

function toAcceptedRow(task: NewTask, isStarting: boolean): AcceptedRow {
  const { id, type, tag, marketplace, priority, startAt, postback, pingback } = task;
  const { dataText, inputText } = task;
  const head = [id, type, tag, marketplace, priority, startAt, postback, pingback] as const;
  return [...head, dataText, inputText, isStarting];
}

// Values by position: binding them by name costs 0.6 µs more (measured).
const INSERT_ACCEPTED = `
  INSERT INTO tasks
    (id, account_seq, state, status_code, started_at, runs, type, tag, marketplace, priority, start_at, created_at,
     data_text, trace_text)
  VALUES
    (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;

const INSERT_REFUSED = `
  INSERT INTO tasks
    (id, account_seq, state, status_code, status_message, type, tag, created_at, completed_at, expires_at, erase_at,
     data_text)
  VALUES
    (@id, @accountId, 'failed', @code, @message, @type, @tag, @createdAt, @createdAt, @expiresAt, @eraseAt,
     @dataText)`;

const INSERT_INPUT = `INSERT INTO task_inputs (task_seq, input_text) VALUES (?, ?)`;

export const INSERT_RESULT = `
  INSERT INTO task_results (task_seq, result_text, error_text) VALUES (?, ?, ?)`;

const INSERT_DELIVERY = `
  INSERT INTO deliveries (task_seq, kind, url, host) VALUES (?, ?, ?, ?)`;

export const FIND_ANSWER = `
  SELECT body_hash AS bodyHash, response_text AS answerText FROM idempotency_keys
  WHERE account_seq = @accountId AND key = @key AND erase_at >= @steadyAt`;

const KEEP_ANSWER = `
  INSERT INTO idempotency_keys (account_seq, key, body_hash, response_text, erase_at)
  VALUES (@accountId, @key, @bodyHash, @answerText, @eraseAt)
  ON CONFLICT (account_seq, key) DO UPDATE
  SET body_hash = excluded.body_hash, response_text = excluded.response_text,
      erase_at = excluded.erase_at`;

/** The size of the answer that {@link KEEP_ANSWER} replaces: it was to be kept until some time before now. */
const SIZE_REPLACED = `
  SELECT octet_length(response_text) + ${ANSWER_OVERHEAD_BYTES} FROM idempotency_keys
  WHERE account_seq = @accountId AND key = @key`;

export function postWrites(connection: Connection, changes: BatchChanges) {
  const { insertTask, insertRefusal } = taskInserts(connection);
  const keep = connection.prepare(KEEP_ANSWER);
  const sizeReplaced = connection.prepare<[object], number>(SIZE_REPLACED).pluck();
  const { findKeptAnswer } = idempotencyReads(connection);
  const isSuspended = suspendedReader(connection);

  /** The bytes that a stored response adds, without the bytes of the response that it replaces. */
  function addedBytes(accountId: number, { key, answerText }: Idempotency): number {
    const replaced = sizeReplaced.get({ accountId, key }) ?? 0;
    return ANSWER_OVERHEAD_BYTES + textBytes(answerText) - replaced;
  }

  // One object for all posts: the second time in a batch it crosses the threads as a reference.
  const inserted: TaskPostOutcome = { kind: "inserted" };

  return {
    insertTasks(post: PostRow): TaskPostOutcome {
      const [accountId, createdAt, bytesMax, shareBytes, openTasks, , accepted] = post;
      const { refused, refusedUntil, idempotency } = post[7] ?? NO_REST;
      const kept = idempotency && findKeptAnswer({ accountId, ...idempotency });
      if (kept !== null) return { kind: "kept", ...kept };
      const bytes =
        bytesOf(accepted, refused) +
        (idempotency === null ? 0 : addedBytes(accountId, idempotency));
      const excess = excessOf(
        { bytes, openTasks: accepted.length },
        { used: changes.usageOf(accountId), quota: { bytes: bytesMax, shareBytes, openTasks } },
      );
      if (excess !== null) return { kind: "over quota", ...excess };
      if (idempotency !== null) keep.run({ ...idempotency, accountId });
      const mayStart = accepted.some(isStarting) && !isSuspended(accountId);
      const started: number[] = [];
      for (const task of accepted) {
        const isStarted = mayStart && isStarting(task);
        const seq = insertTask(task, post, isStarted);
        if (isStarted) started.push(seq);
      }
      for (const task of refused) insertRefusal(task, post, refusedUntil);
      const times = accepted.map(([, , , , , startAt]) => ({ startAt }));
      const counted = { accountId, createdAt, accepted: times, started: started.length, refused };
      countPost(changes, counted, bytes);
      return started.length === 0 ? inserted : { kind: "inserted", started };
    },
  };
}

function isStarting(task: AcceptedRow): boolean {
  return task[10];
}

/** Inserts the tasks of a post. */
function taskInserts(connection: Connection) {
  const insertAccepted = connection.prepare(INSERT_ACCEPTED);
  const insertRefused = connection.prepare(INSERT_REFUSED);
  const insertInput = connection.prepare(INSERT_INPUT);
  const insertResult = connection.prepare(INSERT_RESULT);
  const insertDelivery = connection.prepare(INSERT_DELIVERY);

  return {
    /** Returns the task's `seq`. */
    insertTask(
      task: AcceptedRow,
      [accountId, createdAt, , , , traceText]: PostRow,
      isStarted: boolean,
    ): number {
      const [id, type, tag, marketplace, priority, startAt, postback, pingback] = task;
      const [, , , , , , , , dataText, inputText] = task;
      const state = isStarted ? "running" : stateAtPost({ startAt }, createdAt);
      const run = isStarted ? ([createdAt, 1] as const) : ([null, 0] as const);
      const head = [id, accountId, state, STATE_CODES[state], ...run] as const;
      const rest = [type, tag, marketplace, priority, startAt, createdAt, dataText] as const;
      const { lastInsertRowid } = insertAccepted.run(...head, ...rest, traceText);
      const seq = Number(lastInsertRowid);
      if (inputText !== null) insertInput.run(seq, inputText);
      if (postback !== null) insertDelivery.run(seq, "postback", postback.url, postback.host);
      if (pingback !== null) insertDelivery.run(seq, "pingback", pingback.url, pingback.host);
      return seq;
    },

    insertRefusal(
      task: RefusedTask,
      [accountId, createdAt]: PostRow,
      refusedUntil: PostRest["refusedUntil"],
    ): void {
      const row = { ...task, ...refusedUntil, accountId, createdAt };
      const { lastInsertRowid: seq } = insertRefused.run(row);
      if (task.inputText !== null) insertInput.run(seq, task.inputText);
      insertResult.run(seq, null, task.errorText);
    },
  };
}

function bytesOf(accepted: readonly AcceptedRow[], refused: readonly RefusedTask[]): number {
  let bytes = TASK_OVERHEAD_BYTES * (accepted.length + refused.length);
  for (const [, , , , , , , , dataText, inputText] of accepted) {
    bytes += textBytes(dataText, inputText);
  }
  for (const task of refused) bytes += textBytes(task.dataText, task.inputText, task.errorText);
  return bytes;
}

/** The reads on idempotency keys. */
export function idempotencyReads(connection: Connection) {
  const find = connection.prepare<[object], KeptAnswer>(FIND_ANSWER);

  return {
    findKeptAnswer: ({ accountId, key, steadyAt }) =>
      find.get({ accountId, key, steadyAt }) ?? null,
  } satisfies Steps;
}
