import type { Timeline } from "../../api/timeline.ts";
import { Facts, Time } from "../part/figure.tsx";
import { countText, durationText } from "../shell/format.ts";
import { hrefOf, tasksPath } from "../shell/route.ts";
import { isOperator } from "../shell/session.ts";
import { runnerText } from "./timeline-row.ts";

export function TaskFacts({ timeline: { task, run } }: { readonly timeline: Timeline }) {
  const { data, type, expires_at: expires } = task;
  const tag = textOf(data["tag"]);
  const startAt = textOf(data["start_at"]);
  const runner = runnerText(run.by);
  const found = (name: string, value: string) => (
    <a href={hrefOf(tasksPath(`${name}:${quoted(value)}`))}>
      <bdi>{value}</bdi>
    </a>
  );
  return (
    <Facts
      look="facts task-facts"
      rows={[
        tag !== null && ["Tag", found("tag", tag)],
        type !== null && ["Type", found("type", type)],
        isOperator.value && ["Account", found("account", task.login)],
        ["Created", <Time at={task.created_at} />],
        startAt !== null && task.state === "queued" && ["Not before", <Time at={startAt} />],
        // Why it was refused stands above.
        ["Status", `${task.status_code} ${isRefused(task) ? "" : task.status_message}`],
        [
          "Runs",
          <>
            {countText(task.runs)}
            {runner !== null && task.runs > 0 && <bdi>, by {runner}</bdi>}
          </>,
        ],
        run.lease_expires_at !== null &&
          task.state === "running" && ["Lease ends", <Time at={run.lease_expires_at} />],
        expires !== null && ["Erased", <Time at={expires} />],
      ]}
    />
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
