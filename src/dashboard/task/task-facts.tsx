import type { ComponentChildren } from "preact";

import type { Timeline } from "../../api/timeline.ts";
import { Time } from "../part/time.tsx";
import { countText } from "../shell/format.ts";
import { hrefOf, tasksPath } from "../shell/route.ts";
import { isOperator } from "../shell/session.ts";
import { isRefused } from "./run-verdict.ts";
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
