import { type Rule, plainText, textRule } from "../rule.ts";
import type { StatusCode } from "../status.ts";

/**
 * A task's life. `failed` at birth is a task refused at task_post: stored and shown, never run. A queued task with a
 * time to start, or with a retry to come, is stored as `delayed`.
 *
 *     queued ──→ running ──→ completed
 *       │  ↑       │  ├────→ failed
 *       │  └───────┘  │         (lost by a crash, or to be run again)
 *       ├─────────────┴────→ cancelled
 *       └──────────────────→ failed
 *                               (it waited for too long)
 */
export type TaskState = (typeof TASK_STATES)[number];

export const TASK_STATES = ["queued", "running", "completed", "failed", "cancelled"] as const;

/** In the order in which they are walked: a task that is started meanwhile is met as running. */
export const OPEN_STATES = ["queued", "running"] as const satisfies readonly TaskState[];
export type OpenState = (typeof OPEN_STATES)[number];

/** A task's state as a store keeps it: a `delayed` task may not start yet, and clients see it as queued. */
export type StoredState = TaskState | "delayed";

export const STORED_STATES: readonly StoredState[] = ["delayed", ...TASK_STATES];

export interface TaskKey {
  readonly accountId: number;
  readonly id: string;
}

const LEGAL_MOVES = {
  delayed: ["queued", "cancelled"],
  queued: ["running", "failed", "cancelled"],
  running: ["completed", "failed", "queued", "delayed", "cancelled"],
  completed: [],
  failed: [],
  cancelled: [],
} as const satisfies Record<StoredState, readonly StoredState[]>;

export function canMove(from: StoredState, to: StoredState): boolean {
  const targets: readonly StoredState[] = LEGAL_MOVES[from];
  return targets.includes(to);
}

export function isFinished(state: StoredState): boolean {
  return LEGAL_MOVES[state].length === 0;
}

/** A webhook of an accepted task, judged and in normal form: exactly the characters that will be requested. */
export interface TaskWebhook {
  readonly url: string;
  /** The name or address in the URL: with the account it names the lane of its deliveries. */
  readonly host: string;
}

/** A task as task_post accepts it. `…Text` fields are JSON text, kept as they were posted. */
export interface NewTask {
  readonly id: string;
  readonly type: string;
  readonly tag: string | null;
  readonly marketplace: string | null;
  readonly priority: number;
  /** Not to run before this time; null for immediately. */
  readonly startAt: number | null;
  readonly postback: TaskWebhook | null;
  readonly pingback: TaskWebhook | null;
  /** `data` without `input`. */
  readonly dataText: string;
  /** Null when no input was posted. */
  readonly inputText: string | null;
}

/** A task that task_post refused: it is stored as failed, so that task_get can show why. */
export interface RefusedTask {
  readonly id: string;
  readonly type: string | null;
  readonly tag: string | null;
  readonly code: 40501 | 40506;
  /** The status message, with the field's name and the reason. */
  readonly message: string;
  readonly errorText: string;
  readonly dataText: string;
  readonly inputText: string | null;
}

/** A task as the store remembers it, with everything that task_get shows. */
export interface Task {
  readonly id: string;
  readonly state: TaskState;
  readonly statusCode: StatusCode;
  /** Null if the message is the table's. */
  readonly statusMessage: string | null;
  readonly type: string | null;
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly completedAt: number | null;
  readonly expiresAt: number | null;
  readonly runs: number;
  readonly dataText: string;
  readonly inputText: string | null;
  readonly resultText: string | null;
  readonly errorText: string | null;
}

/** A task in a list: without input, result and error (http-api.md). */
export type TaskSummary = Omit<Task, "inputText" | "resultText" | "errorText">;

/** A tag, wherever it is written (http-api.md). */
export const TAG: Rule<string, string> = { ...plainText(255), hint: "TAG" };

/** The id of a task, wherever it is written: any UUID in any case, since other ids name no task. */
export const TASK_ID: Rule<string> = textRule({
  takes: "the id of a task, a UUID",
  hint: "TASK_ID",
  schema: { type: "string", format: "uuid" },
  read: (text) =>
    /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text) ? text.toLowerCase() : null,
});

/**
 * Some of the rules are guards and sums in a store's statements, because they would cost the hot path a read. The end
 * of a run counts only while its task is running. A claim counts the run, a retry counts the failure, and a run that
 * was released or stopped no longer counts. A task's webhooks are due immediately when it has ended, one attempt each.
 */

/** The status codes of tasks that no run has ended; the end of a run brings its own. */
export const STATE_CODES = {
  delayed: 40602,
  queued: 40602,
  running: 40601,
  cancelled: 40901,
} as const satisfies Partial<Record<StoredState, StatusCode>>;

export function stateAtPost(
  { startAt }: Pick<NewTask, "startAt">,
  createdAt: number,
): "queued" | "delayed" {
  return startAt !== null && startAt > createdAt ? "delayed" : "queued";
}

/** How clients see a task that waits or runs; null for one that has ended. */
export function openStateOf(state: StoredState): "queued" | "running" | null {
  if (isFinished(state)) return null;
  return state === "running" ? "running" : "queued";
}

/** `undefined` is a task that the account does not have. A lease that is held or might be revived ends with it. */
export function decideCancel(
  state: StoredState | undefined,
): "cancelled" | "cancelled before" | "finished" | "unknown" {
  if (state === undefined) return "unknown";
  if (state === "cancelled") return "cancelled before";
  return canMove(state, "cancelled") ? "cancelled" : "finished";
}

/** `undefined` is an unknown task. `isToBeSent`: a webhook is open; `hasWebhooks` includes such a task. */
export function decideErasure(
  state: StoredState | undefined,
  { isToBeSent, hasWebhooks }: { readonly isToBeSent: boolean; readonly hasWebhooks: boolean },
): "erased" | "running" | "to be sent" | "unknown" {
  if (state === undefined) return "unknown";
  if (state === "running") return "running";
  return isToBeSent && !hasWebhooks ? "to be sent" : "erased";
}

/** The longest time that an answer about a task may be held. */
export const WAIT_SECONDS_MAX = 60;

/** How long a client waits for a task to end: the N of `Prefer: wait=N` (RFC 7240). */
export const WAIT_SECONDS: Rule<number, string> = textRule({
  takes: `whole seconds from 0 to ${WAIT_SECONDS_MAX}`,
  hint: "SECONDS",
  schema: { type: "string", pattern: "^\\d{1,3}$" },
  read: (text) =>
    /^\d{1,3}$/.test(text) && Number(text) <= WAIT_SECONDS_MAX ? Number(text) : null,
});
