import { useState } from "preact/hooks";

import type { Timeline, TimelineDelivery } from "../../api/timeline.ts";
import type { DeliveryKind } from "../../domain/webhook/delivery.ts";
import { Button, CopyButton, copyAndAnnounce } from "../part/control.tsx";
import { Badge, Ready } from "../part/figure.tsx";
import { Empty, Loaded, Problem } from "../part/panel.tsx";
import { ApiError } from "../shell/api.ts";
import { setTime } from "../shell/clock.ts";
import { useIdCursor, useKeys } from "../shell/keyboard.ts";
import { type Load, useResource } from "../shell/resource.ts";
import { go, hrefOf } from "../shell/route.ts";
import { timelineInZone } from "../shell/session.ts";
import { listPath } from "../tasks/task-list.ts";
import { DeliveryPanel } from "./delivery-panel.tsx";
import { PostAgain, type TaskActions, redeliveryText, useTaskActions } from "./task-action.tsx";
import { ErrorDetail, TaskContent } from "./task-content.tsx";
import { TaskFacts, isRefused, runVerdict, sentence } from "./task-facts.tsx";
import { TimelineChart } from "./timeline-chart.tsx";
import { attemptKey } from "./timeline-row.ts";

const PROGRESS_MS = 2000;
const PAUSES_MS = 15_000;

/** One task: its state and why, from posted to delivered. */
export function TaskScreen({ id }: { readonly id: string }) {
  const [pollMs, setPollMs] = useState(PAUSES_MS);
  const resource = useResource(
    `task ${id}`,
    async (load) => {
      const timeline = await readTimeline(id, load);
      if (typeof timeline === "string") return timeline;
      setTime(timeline.time);
      // No report comes of a run's progress, nor of a pause.
      setPollMs(timeline.task.progress === null ? PAUSES_MS : PROGRESS_MS);
      return { ...timeline, deliveries: timeline.deliveries.toSorted(postbackFirst) };
    },
    { pollMs },
  );
  useKeys([
    { key: "u", does: "Back to the list", run: toList },
    { key: "Backspace", does: "Back to the list", run: toList },
    { key: "c", does: "Copy the id", run: () => void copyAndAnnounce(id, "id") },
  ]);
  return (
    <>
      <p>
        <a href={hrefOf(listPath())}>Tasks</a>
      </p>
      <Loaded resource={resource}>
        {(timeline) =>
          typeof timeline === "string" ? (
            <Empty title={timeline} isAlone>
              <p>It belongs to another account, was erased, or was never posted here.</p>
            </Empty>
          ) : (
            <TaskView timeline={timeline} reload={resource.reload} />
          )
        }
      </Loaded>
    </>
  );
}

/** The task with its whole history; a sentence if the task does not exist. */
async function readTimeline(id: string, load: Load): Promise<Timeline | string> {
  try {
    return await timelineInZone({ ...load, params: { id } });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.code === 40401) return "No task has this id.";
    if (error.code === 40403) return "This task has been erased: its retention has ended.";
    throw error;
  }
}

function postbackFirst(a: TimelineDelivery, b: TimelineDelivery): number {
  return b.kind.localeCompare(a.kind);
}

function toList(): void {
  go(listPath());
}

interface TaskViewProps {
  readonly timeline: Timeline;
  readonly reload: () => void;
}

function TaskView({ timeline, reload }: TaskViewProps) {
  const { task } = timeline;
  const attempts = useAttempts(timeline);
  const actions = useTaskActions(timeline, reload);
  const { problem } = actions.submission;
  useKeys([{ key: "r", does: "Redeliver", run: () => actions.start(actions.redelivery) }]);
  return (
    <>
      <Head timeline={timeline} actions={actions} />
      {problem !== null && <Problem text={problem} />}
      <div class="stack">
        <section class="panel panel-body stack" aria-label="State">
          <Verdict timeline={timeline} />
          <RunProgress task={task} />
          <TaskFacts timeline={timeline} />
        </section>
        <ErrorDetail task={task} />
        <TimelineChart
          timeline={timeline}
          current={attempts.cursor.current}
          open={(key) => attempts.setOpen(key, true)}
        />
        <Deliveries timeline={timeline} actions={actions} attempts={attempts} />
        <TaskContent task={task} />
      </div>
    </>
  );
}

/** The attempt with the cursor, and the open attempts, by their keys. */
function useAttempts({ deliveries }: Timeline) {
  const keys = deliveries.flatMap((each) => each.attempts.map((_, i) => attemptKey(each, i)));
  const cursor = useIdCursor(keys, "attempt");
  const [open, setKeys] = useState<ReadonlySet<string>>(new Set());
  const { current } = cursor;
  function setOpen(key: string, isOpen: boolean): void {
    const next = new Set(open);
    if (isOpen) next.add(key);
    else next.delete(key);
    setKeys(next);
    cursor.moveTo(key);
  }
  function toggle(): void {
    if (current !== null) setOpen(current, !open.has(current));
  }
  useKeys([...cursor.keys, { key: "Enter", does: "Open or close the attempt", run: toggle }]);
  return { cursor, open, setOpen };
}

interface DeliveriesProps {
  readonly timeline: Timeline;
  readonly actions: TaskActions;
  readonly attempts: ReturnType<typeof useAttempts>;
}

function Deliveries({ timeline: { task, deliveries }, actions, attempts }: DeliveriesProps) {
  const { cursor, open, setOpen } = attempts;
  return (
    <>
      {deliveries.map((delivery) => {
        const { kind } = delivery;
        return (
          <DeliveryPanel
            key={kind}
            task={task}
            delivery={delivery}
            open={open}
            setOpen={setOpen}
            current={cursor.current}
            redeliver={
              deliveries.length > 1 && actions.redelivery !== null && !delivery.is_paused
                ? {
                    text: redeliveryText(deliveries, kind),
                    run: () => actions.start({ action: "redeliver", kind }),
                  }
                : null
            }
          />
        );
      })}
    </>
  );
}

/** Whether the task itself succeeded, then why nothing was sent, or how the sending went. */
function Verdict({ timeline }: Pick<TaskViewProps, "timeline">) {
  const { task, explanation, deliveries } = timeline;
  const clauses = deliveries.map((each) => [nameOf(each.kind), each.explanation] as const);
  return (
    <>
      <Clause name="Task" text={runVerdict(timeline)} isBad={task.state === "failed"} />
      {/* The verdict on a refused task says everything. */}
      {!isRefused(task) &&
        (explanation === null || clauses.length > 0 ? (
          clauses.map(([name, text]) => <Clause key={name} name={name} text={text} />)
        ) : (
          <Clause text={explanation} />
        ))}
    </>
  );
}

function nameOf(kind: DeliveryKind): string {
  return kind === "postback" ? "Postback" : "Pingback";
}

interface ClauseProps {
  readonly name?: string;
  readonly text: string;
  readonly isBad?: boolean;
}

function Clause({ name, text, isBad = false }: ClauseProps) {
  return (
    <p class={isBad ? "explanation tone-bad" : "explanation"}>
      {name !== undefined && <span class="none">{name}: </span>}
      {sentence(text)}
    </p>
  );
}

function RunProgress({ task: { state, progress } }: Pick<Timeline, "task">) {
  if (state !== "running" || progress === null) return null;
  return (
    <div class="line run-progress">
      <progress value={progress.progress} max={1} aria-label="Progress of the run" />
      <span class="number">{Math.floor(progress.progress * 100)} %</span>
      {progress.note !== null && <bdi class="hint">{progress.note}</bdi>}
    </div>
  );
}

function Head({ timeline, actions }: Pick<DeliveriesProps, "timeline" | "actions">) {
  const { task, deliveries } = timeline;
  const { redelivery, start, submission } = actions;
  return (
    <div class="row screen-head">
      <h1 class="row">
        <Badge state={task.state} title={task.status_message} />
        {task.ready && <Ready />}
        <span class="task-name mono">{task.id}</span>
        <CopyButton text={task.id} what="id" />
      </h1>
      <PostAgain task={task} />
      {actions.canCancel && (
        <Button
          isLarge
          isDisabled={submission.isBusy}
          press={() => start({ action: "cancel", kind: null })}
        >
          Cancel
        </Button>
      )}
      {redelivery !== null && (
        <Button
          look="primary"
          isLarge
          isDisabled={submission.isBusy}
          press={() => start(redelivery)}
        >
          {redeliveryText(deliveries, redelivery.kind)}
        </Button>
      )}
    </div>
  );
}
