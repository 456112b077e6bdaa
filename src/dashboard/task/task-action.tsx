import type { Timeline, TimelineDelivery, TimelineTask } from "../../api/timeline.ts";
import type { DeliveryKind } from "../../domain/webhook/delivery.ts";
import { announce } from "../part/announcer.tsx";
import { Button } from "../part/control.tsx";
import { ask } from "../part/dialog.tsx";
import { openPostDialog } from "../post/post-dialog.tsx";
import { type TaskDraft, draftOf } from "../post/task-draft.ts";
import { useKeys } from "../shell/keyboard.ts";
import { type Load, useSubmission } from "../shell/resource.ts";
import { type TaskAction, canCancel, canRedeliver, doToTask } from "../tasks/bulk-dialog.tsx";
import { jsonText } from "./json-source.ts";
import { parseTaskText, readTaskText } from "./task-content.tsx";

export type TaskActions = ReturnType<typeof useTaskActions>;

interface TaskRequest {
  readonly action: TaskAction;
  /** Null is every webhook. */
  readonly kind: DeliveryKind | null;
}

/**
 * The actions that are possible on a task now. `redelivery` is the redelivery that the button offers: of all webhooks
 * that have not arrived, or else of all; null if nothing can be sent. `start` asks first if an action cannot be undone,
 * or was done before.
 */
export function useTaskActions({ task, deliveries }: Timeline, reload: () => void) {
  const submission = useSubmission();
  function start(request: TaskRequest | null): void {
    if (request === null) return;
    const { action, kind } = request;
    const work = () => doToTask(action, task, kind === null ? {} : { kind });
    const isDone = meant(deliveries, kind).every(({ state }) => state === "delivered");
    if (action === "cancel" || isDone) {
      ask({ ...QUESTIONS[action], work, announcement: DONE[action], done: reload });
      return;
    }
    submission.run(async () => {
      await work();
      announce(DONE[action]);
      reload();
    });
  }
  return {
    start,
    submission,
    canCancel: canCancel(task),
    redelivery: redelivery(task, deliveries),
  };
}

const QUESTIONS = {
  cancel: {
    title: "Cancel this task?",
    verb: "Cancel the task",
    otherwise: "Keep",
    isDanger: true,
    text: <p>A queued task never runs, a running task is stopped. It sends no webhooks.</p>,
  },
  redeliver: {
    title: "Send it again?",
    verb: "Redeliver",
    otherwise: "Leave it",
    text: <p>It has arrived before. The receiver gets the same webhook again.</p>,
  },
} as const;

const DONE: Readonly<Record<TaskAction, string>> = {
  redeliver: "The webhook is due now.",
  cancel: "The task is cancelled.",
};

function redelivery(
  task: Timeline["task"],
  deliveries: readonly TimelineDelivery[],
): TaskRequest | null {
  if (!canRedeliver({ state: task.state, deliveries })) return null;
  const sendable = deliveries.filter((each) => !each.is_paused);
  // A receiver that got one webhook does not need it again because of the other.
  const missing = sendable.filter(({ state }) => state !== "delivered");
  const [only, ...others] = missing.length > 0 ? missing : sendable;
  const isOne = only !== undefined && others.length === 0 && deliveries.length > 1;
  return { action: "redeliver", kind: isOne ? only.kind : null };
}

function meant(
  deliveries: readonly TimelineDelivery[],
  kind: DeliveryKind | null,
): readonly TimelineDelivery[] {
  return deliveries.filter((each) => kind === null || each.kind === kind);
}

/** The text of a redelivery button. A scheduled attempt is only sent earlier. */
export function redeliveryText(
  deliveries: readonly TimelineDelivery[],
  kind: DeliveryKind | null,
): string {
  const isScheduled = meant(deliveries, kind).every(({ state }) => state === "scheduled");
  const what = kind === null ? "" : ` the ${kind}`;
  return isScheduled ? `Send${what} now` : `Redeliver${what}`;
}

export function PostAgain({ task }: { readonly task: TimelineTask }) {
  const { login } = task;
  const open = () =>
    openPostDialog({ title: "Post again", fill: (load) => readDraft(task, load), login });
  useKeys([{ key: "p", does: "Post it again", run: open }]);
  return (
    <Button isLarge press={open}>
      Post again…
    </Button>
  );
}

async function readDraft(task: TimelineTask, load: Load): Promise<TaskDraft> {
  if (task.input_bytes === null) return draftOf(task.data, "");
  const { input } = parseTaskText(await readTaskText(task, load));
  if (input === undefined) throw new Error("Its input is nested too deeply to be shown here.");
  return draftOf(task.data, jsonText(input));
}
