import type { Timeline, TimelineAttempt, TimelineDelivery } from "../../api/timeline.ts";
import { ROUND_MS, durationText } from "../shell/format.ts";

export interface TimelineRow {
  readonly name: string;
  readonly marks: readonly Mark[];
}

/** A stretch of time, in milliseconds since the epoch. */
export interface Mark {
  readonly key: string;
  readonly kind: "queued" | "run" | "attempt" | "wait" | "next";
  readonly from: number;
  readonly to: number;
  /** The state that it ended in, or that it is in now. */
  readonly state: string;
  readonly label: string;
  /** All its facts, on hover. */
  readonly title: string;
  /** The attempt that is shown below, by its {@link attemptKey}. */
  readonly attempt: string | null;
}

/** The name of an attempt on the page. After a redelivery its number may come again. */
export function attemptKey(delivery: Pick<TimelineDelivery, "kind">, index: number): string {
  return `${delivery.kind}-${index}`;
}

/** A row for queue and run, and one for each webhook below it. */
export function rowsOf(timeline: Timeline, now: number): readonly TimelineRow[] {
  return [
    { name: "Task", marks: taskMarks(timeline, now) },
    ...timeline.deliveries
      .filter(({ attempts }) => attempts.length > 0)
      .map((each) => ({ name: each.kind, marks: deliveryMarks(each, now) })),
  ];
}

function taskMarks({ task, run }: Timeline, now: number): readonly Mark[] {
  const created = Date.parse(task.created_at);
  const started = timeOf(task.started_at);
  const ended = timeOf(task.completed_at);
  const queuedUntil = started ?? ended ?? Math.max(created, now);
  const queued: Mark = {
    key: "queued",
    kind: "queued",
    from: created,
    to: queuedUntil,
    attempt: null,
    state: "queued",
    label: `queued ${durationText(queuedUntil - created)}`,
    title: `Queued for ${durationText(queuedUntil - created)}`,
  };
  if (started === null) return [queued];
  const to = ended ?? Math.max(started, now);
  const by = runnerText(run.by);
  const spent = durationText(to - started);
  return [
    queued,
    {
      key: "run",
      kind: "run",
      from: started,
      to,
      state: task.state,
      attempt: null,
      label: `${ended === null ? "running" : "run"} ${spent}${by === null ? "" : `, ${by}`}`,
      title: `Run ${task.runs}${by === null ? "" : ` by ${by}`}: ${spent}`,
    },
  ];
}

/** The runner of a task: `worker resizer-1`; null where it is not known. */
export function runnerText({ kind, name }: Timeline["run"]["by"]): string | null {
  if (kind === null) return name;
  return name === null ? kind : `${kind} ${name}`;
}

function deliveryMarks(delivery: TimelineDelivery, now: number): readonly Mark[] {
  return delivery.attempts.flatMap((attempt, index) => {
    const key = attemptKey(delivery, index);
    const mark = toMark(attempt, { key, now, isPaused: delivery.is_paused });
    const before = delivery.attempts[index - 1];
    const ended = timeOf(before?.ended_at ?? null);
    // A number that starts again belongs to a redelivery: nothing waited for it.
    if (before === undefined || ended === null || before.number >= attempt.number) return [mark];
    return [waitMark({ key: `${key}-wait`, from: ended, to: mark.from }), mark];
  });
}

function toMark(
  attempt: TimelineAttempt,
  {
    key,
    now,
    isPaused,
  }: { readonly key: string; readonly now: number; readonly isPaused: boolean },
): Mark {
  const { number, outcome, http_status: status, error } = attempt;
  const started = timeOf(attempt.started_at);
  if (started === null) {
    const due = Date.parse(attempt.due_at);
    const at = Math.max(due, now);
    return {
      key,
      kind: "next",
      from: due,
      to: at,
      state: "scheduled",
      attempt: key,
      label: `${number} ${isPaused ? "paused" : "next"}`,
      title: isPaused ? `Attempt ${number} is paused by the operator` : `Attempt ${number} is due`,
    };
  }
  const to = timeOf(attempt.ended_at) ?? Math.max(started, now);
  const how = outcome === null ? "in flight" : (status ?? error ?? outcome);
  const title = `Attempt ${number}: ${how}, ${durationText(to - started)}`;
  const state = outcome ?? "in_flight";
  const label = `${number} · ${status ?? (outcome === null ? "in flight" : outcome.replace("_", " "))}`;
  return { key, kind: "attempt", from: started, to, state, label, title, attempt: key };
}

function waitMark(span: {
  readonly key: string;
  readonly from: number;
  readonly to: number;
}): Mark {
  const wait = `wait ${durationText(span.to - span.from)}`;
  return { ...span, kind: "wait", state: "waiting", label: wait, title: wait, attempt: null };
}

/** The parts of a timeline that can be shown enlarged. */
export type TimelinePart = "whole" | "run" | "attempts" | "attempt";

/** The possible views, by their parts; `attempt` is the one with that key. */
export function viewsOf(
  rows: readonly TimelineRow[],
  attempt: string | null,
): ReadonlyMap<TimelinePart, TimeView> {
  const marks = rows.flatMap((row) => row.marks);
  const begin = Math.min(...marks.map(({ from }) => from));
  const views = new Map<TimelinePart, TimeView>([["whole", around(marks, begin)]]);
  const run = marks.filter(({ kind }) => kind === "run");
  // The next attempt is left out: the wait for it may be longer than everything before.
  const attempts = marks.filter(({ kind }) => kind === "attempt");
  const one = attempts.filter((mark) => mark.attempt === attempt);
  if (run.length > 0) views.set("run", around(run));
  if (attempts.length > 0) views.set("attempts", around(attempts));
  if (one.length > 0) views.set("attempt", around(one));
  return views;
}

function around(marks: readonly Mark[], begin?: number): TimeView {
  const from = begin ?? Math.min(...marks.map((mark) => mark.from));
  return viewOf(from, Math.max(...marks.map((mark) => mark.to)));
}

function timeOf(text: string | null): number | null {
  return text === null ? null : Date.parse(text);
}

/** The shown part of the timeline: times in milliseconds since the epoch. */
export interface TimeView {
  readonly from: number;
  readonly to: number;
  /** The zero of the axis. */
  readonly zero: number;
}

interface Tick {
  /** In percent of the view. */
  readonly left: number;
  /** Milliseconds after the view's zero. */
  readonly afterMs: number;
}

// A shorter span would be a line.
const SPAN_MS_MIN = 10;

// The text does not fit beyond it.
const TICK_LEFT_MAX = 93;

/** The view of a span, with room at its end for the last label. */
export function viewOf(from: number, to: number, zero = from): TimeView {
  const span = Math.max(SPAN_MS_MIN, to - from);
  return { from: from - span * 0.015, to: from + span * 1.16, zero };
}

/** The position of a time, in percent of the view; outside of it below 0 or over 100. */
export function leftOf(at: number, { from, to }: TimeView): number {
  return ((at - from) / (to - from)) * 100;
}

/** Round times on the axis, at most `max` and perhaps a few less. */
export function ticksOf(view: TimeView, max: number): readonly Tick[] {
  const span = view.to - view.from;
  const step = ROUND_MS.find((each) => span / each <= max) ?? Math.ceil(span / max);
  const first = Math.ceil((view.from - view.zero) / step);
  const last = Math.floor((view.to - view.zero) / step);
  const ticks = Array.from({ length: last - first + 1 }, (_, i) => {
    const afterMs = (first + i) * step;
    return { left: leftOf(view.zero + afterMs, view), afterMs };
  });
  return ticks.filter(({ left }) => left <= TICK_LEFT_MAX);
}
