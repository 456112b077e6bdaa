import type { ComponentChildren } from "preact";

import type { Timeline } from "../../api/timeline.ts";
import { Time } from "../part/figure.tsx";
import { countText, durationText } from "../shell/format.ts";
import { hrefOf, tasksPath } from "../shell/route.ts";
import { isOperator } from "../shell/session.ts";
import { runnerText } from "./timeline-row.ts";

/** The facts of a task in words and numbers. */
export function TaskFacts({ timeline: { task, run } }: { readonly timeline: Timeline }) {
  const { data, type, expires_at: expires } = task;
  const tag = textOf(data["tag"]);
  const startAt = textOf(data["start_at"]);
  const runner = runnerText(run.by);
  return (
    <dl class="facts task-facts">
      {tag !== null && (
        <Fact name="Tag">
          <SearchLink q={`tag:${quoted(tag)}`} text={tag} />
        </Fact>
      )}
      {type !== null && (
        <Fact name="Type">
          <SearchLink q={`type:${quoted(type)}`} text={type} />
        </Fact>
      )}
      {isOperator.value && (
        <Fact name="Account">
          <SearchLink q={`account:${quoted(task.login)}`} text={task.login} />
        </Fact>
      )}
      <Fact name="Created">
        <Time at={task.created_at} />
      </Fact>
      {startAt !== null && task.state === "queued" && (
        <Fact name="Not before">
          <Time at={startAt} />
        </Fact>
      )}
      <Fact name="Status">
        {/* Why it was refused stands above. */}
        {task.status_code} {isRefused(task) ? null : task.status_message}
      </Fact>
      <Fact name="Runs">
        {countText(task.runs)}
        {runner !== null && task.runs > 0 && <bdi>, by {runner}</bdi>}
      </Fact>
      {run.lease_expires_at !== null && task.state === "running" && (
        <Fact name="Lease ends">
          <Time at={run.lease_expires_at} />
        </Fact>
      )}
      {expires !== null && (
        <Fact name="Erased">
          <Time at={expires} />
        </Fact>
      )}
    </dl>
  );
}

function Fact({ name, children }: { readonly name: string; readonly children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function SearchLink({ q, text }: { readonly q: string; readonly text: string }) {
  return (
    <a href={hrefOf(tasksPath(q))}>
      <bdi>{text}</bdi>
    </a>
  );
}

function quoted(value: string): string {
  return /^[\w.@/-]+$/.test(value) ? value : JSON.stringify(value);
}

function textOf(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

type Run = Pick<Timeline, "task">;
type RefusableTask = Pick<Timeline["task"], "state" | "status_code">;

/** A clause about the task itself, regardless of its webhooks: its end, and why. */
export function runVerdict({ task }: Run): string {
  const { state, runs, started_at: startedAt, status_message: status, error } = task;
  switch (state) {
    case "queued":
      return runs === 0 ? "queued: it has not run yet" : "queued: it is to run again";
    case "running":
      return "running: it has not finished yet";
    case "completed":
      return `completed${spentText(task)}`;
    case "failed":
      return isRefused(task)
        ? `refused by task_post, so it never ran and sends nothing: ${status}`
        : `failed${spentText(task)}: ${error?.message ?? status}`;
    case "cancelled":
      return startedAt === null ? "cancelled before it ran" : "cancelled while it ran";
  }
}

const REFUSED_CODES: readonly number[] = [40501, 40506];

/** True for a task that was stored as failed when it was posted. */
export function isRefused({ state, status_code: code }: RefusableTask): boolean {
  return state === "failed" && REFUSED_CODES.includes(code);
}

/** How long the last run took; empty for a task that never started. */
function spentText({ started_at: startedAt, completed_at: completedAt }: Timeline["task"]): string {
  if (startedAt === null || completedAt === null) return "";
  return ` after ${durationText(Date.parse(completedAt) - Date.parse(startedAt))}`;
}

/** A clause as a sentence: with a capital and a full stop. */
export function sentence(clause: string): string {
  const [first = "", ...rest] = clause.trim();
  const end = /[.!?…]$/.test(clause.trim()) ? "" : ".";
  return first.toUpperCase() + rest.join("") + end;
}
