import type { Random } from "../kit/random.ts";
import type { Expectation } from "./ending-judge.ts";

/** A task to post. */
export interface PlannedTask {
  readonly body: { readonly type: string; readonly input: Readonly<Record<string, unknown>> };
  /** How long after it was accepted its client asks to cancel it; null where it does not. */
  readonly cancelAfterMs: number | null;
}

/** What a client posts at once. */
export type TaskPlan = (random: Random, nonce: string) => readonly PlannedTask[];

const KINDS = { work: 45, brief: 15, http: 16, command: 10, echo: 14 };
const COMMAND_MODES = { ok: 70, fail: 8, slow: 8, hang: 2, stubborn: 2, fork: 6, flood: 4 };
const HTTP_MODES = { ok: 60, slow: 12, busy: 12, reset: 8, huge: 4, refuse: 4 };
const TASKS_MAX = 9;
const PRIORITY_MAX = 9;
const DELAYED = 0.1;
const DELAY_MS_MAX = 8000;
const CANCELLED = 0.08;
const CANCEL_MS_MAX = 4000;

/** How many tasks {@link everyRunner} makes on average. */
export const TASKS_MEAN = (1 + TASKS_MAX) / 2;

/** Tasks of every kind of runner, some to start later, some to be cancelled at any moment. */
export const everyRunner: TaskPlan = (random, nonce) =>
  Array.from({ length: random.between(1, TASKS_MAX) }, (_, i) => {
    const type = random.choose(KINDS);
    const priority = random.chance(0.5) ? random.between(1, PRIORITY_MAX) : 0;
    const body = { type, priority, input: inputOf(type, { random, nonce: `${nonce}-${i}` }) };
    const startAt = random.chance(DELAYED) && startIn(random.between(0, DELAY_MS_MAX));
    const cancelAfterMs = random.chance(CANCELLED) ? random.between(0, CANCEL_MS_MAX) : null;
    return { body: { ...body, ...(startAt && { start_at: startAt }) }, cancelAfterMs };
  });

// Not while anything here lasts.
const NEVER_MS = 300 * 24 * 3600 * 1000;
const ALL_CANCELLED = 1 / 3;

/** Two tasks that cost least. */
export const echoTasks: TaskPlan = (_random, nonce) => {
  const body = { type: "echo", input: { nonce } };
  return [body, body].map((each) => ({ body: each, cancelAfterMs: null }));
};

/**
 * Tasks that cost least; or tasks to cancel before their time, in the queue or while they run, and when they run at
 * once or have run.
 */
export const lightTasks: TaskPlan = (random, nonce) => {
  if (!random.chance(ALL_CANCELLED)) return echoTasks(random, nonce);
  const task = { type: "echo", input: { nonce } };
  const bodies = [{ ...task, start_at: startIn(NEVER_MS) }, { ...task, type: "parked" }, task];
  return bodies.map((body) => ({ body, cancelAfterMs: 0 }));
};

function startIn(ms: number): string {
  return new Date(Date.now() + ms).toISOString();
}

function inputOf(
  type: keyof typeof KINDS,
  { random, nonce }: { readonly random: Random; readonly nonce: string },
): Readonly<Record<string, unknown>> {
  if (type === "command") return { mode: random.choose(COMMAND_MODES), nonce };
  if (type === "http") return { mode: random.choose(HTTP_MODES), nonce };
  return { nonce, text: "ü ☃ 12345678901234567890", nested: [[null, true, 0.1]] };
}

const FAILURES: Readonly<Record<string, number>> = {
  ...{ fail: 50010, flood: 50010, huge: 50010, refuse: 50010 },
  ...{ hang: 50401, stubborn: 50401 },
};

/** How a task must end, unless it is cancelled; null for tasks of workers, which may do anything. */
export function expectationOf({ type, input }: PlannedTask["body"]): Expectation | null {
  if (type === "echo") return { kind: "completed", result: input };
  if (type === "parked") return { kind: "completed", result: null };
  if (type !== "command" && type !== "http") return null;
  const code = FAILURES[String(input["mode"])];
  if (code !== undefined) return { kind: "failed", code };
  return { kind: "completed", result: { done: input["nonce"] } };
}
