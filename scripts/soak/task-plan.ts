import type { Random } from "../kit/random.ts";
import type { Expectation } from "./ending-judge.ts";

/** A task to post, and how it must end where that is known from the beginning: null for tasks of workers. */
export interface PlannedTask {
  readonly body: Readonly<Record<string, unknown>>;
  readonly expected: Expectation | null;
}

const KINDS = { work: 45, brief: 15, http: 16, command: 10, echo: 14 };
const COMMAND_MODES = { ok: 70, fail: 8, slow: 8, hang: 2, stubborn: 2, fork: 6, flood: 4 };
const HTTP_MODES = { ok: 60, slow: 12, busy: 12, reset: 8, huge: 4, refuse: 4 };
const PRIORITY_MAX = 9;
const DELAYED = 0.1;
const DELAY_MS_MAX = 8000;

/** Draws a task; `now` is what its start_at counts from. */
export function planTask(
  random: Random,
  { now, nonce }: { readonly now: number; readonly nonce: string },
): PlannedTask {
  const type = random.choose(KINDS);
  const { input, expected } = planRun(type, { random, nonce });
  const priority = random.chance(0.5) ? random.between(1, PRIORITY_MAX) : 0;
  const body = { type, priority, input };
  if (!random.chance(DELAYED)) return { body, expected };
  const startAt = new Date(now + random.between(0, DELAY_MS_MAX)).toISOString();
  return { body: { ...body, start_at: startAt }, expected };
}

function planRun(
  type: keyof typeof KINDS,
  { random, nonce }: { readonly random: Random; readonly nonce: string },
): { readonly input: unknown; readonly expected: Expectation | null } {
  const done = { kind: "completed", result: { done: nonce } } as const;
  if (type === "command") {
    const mode = random.choose(COMMAND_MODES);
    return { input: { mode, nonce }, expected: failureOf(mode) ?? done };
  }
  if (type === "http") {
    const mode = random.choose(HTTP_MODES);
    return { input: { mode, nonce }, expected: failureOf(mode) ?? done };
  }
  const input = { nonce, text: "ü ☃ 12345678901234567890", nested: [[null, true, 0.1]] };
  return { input, expected: type === "echo" ? { kind: "completed", result: input } : null };
}

function failureOf(mode: keyof typeof COMMAND_MODES | keyof typeof HTTP_MODES): Expectation | null {
  switch (mode) {
    case "fail":
    case "flood":
    case "huge":
    case "refuse":
      return { kind: "failed", code: 50010 };
    case "hang":
    case "stubborn":
      return { kind: "failed", code: 50401 };
    case "ok":
    case "slow":
    case "fork":
    case "busy":
    case "reset":
      return null;
  }
}
