import { useState } from "preact/hooks";

import type { Timeline, TimelineDelivery, TimelineTask } from "../../api/timeline.ts";
import type { DeliveryKind } from "../../domain/webhook/delivery.ts";
import { announce } from "../part/announcer.tsx";
import { Button } from "../part/control.tsx";
import { Confirm } from "../part/dialog.tsx";
import { openPostDialog } from "../post/post-dialog.tsx";
import { type TaskDraft, draftOf } from "../post/task-draft.ts";
import { useKeys } from "../shell/keyboard.ts";
import { type Load, type Submission, useSubmission } from "../shell/resource.ts";
import { type TaskAction, canCancel, canRedeliver, doToTask } from "../tasks/bulk-dialog.tsx";
import { jsonText } from "./json-source.ts";
import { parseTaskText, readTaskText } from "./task-content.tsx";

/** The possible actions on one task. */
export interface TaskActions {
  readonly canCancel: boolean;
  /**
   * The redelivery that the button offers: of everything that has not arrived, or else of everything. Null where
   * nothing can be sent.
   */
  readonly redelivery: Question | null;
  /** Starts an action. Asks first where it cannot be undone, or where it was done before. */
  readonly ask: (question: Question | null) => void;
  /** The open question; null: none. */
  readonly asked: Question | null;
  readonly submission: Submission;
  readonly confirm: () => void;
  readonly close: () => void;
}

interface Question {
  readonly action: TaskAction;
  /** Null is every webhook. */
  readonly kind: DeliveryKind | null;
}

/** The actions that are possible on a task now. */
export function useTaskActions({ task, deliveries }: Timeline, reload: () => void): TaskActions {
  const [asked, setAsked] = useState<Question | null>(null);
  const submission = useSubmission();
  function start(question: Question): void {
    submission.run(async () => {
      const { action, kind } = question;
      await doToTask(action, task, kind === null ? {} : { kind });
      announce(DONE[action]);
      setAsked(null);
      reload();
    });
  }
  function ask(question: Question | null): void {
    if (question === null) return;
    const isDone = meant(deliveries, question.kind).every(({ state }) => state === "delivered");
    if (question.action === "cancel" || isDone) setAsked(question);
    else start(question);
  }
  return {
    ask,
    asked,
    submission,
    canCancel: canCancel(task),
    redelivery: redelivery(task, deliveries),
    confirm: () => asked !== null && start(asked),
    close: () => setAsked(null),
  };
}

const DONE: Readonly<Record<TaskAction, string>> = {
  redeliver: "The webhook is due now.",
  cancel: "The task is cancelled.",
};

function redelivery(
  task: Timeline["task"],
  deliveries: readonly TimelineDelivery[],
): Question | null {
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

/** The question, while one is open. */
export function ActionQuestion({ actions }: { readonly actions: TaskActions }) {
  const { asked, submission, confirm, close } = actions;
  if (asked === null) return null;
  const rest = { confirm, close, isBusy: submission.isBusy, problem: submission.problem };
  if (asked.action === "cancel") {
    return (
      <Confirm title="Cancel this task?" verb="Cancel the task" isDanger {...rest}>
        <p>A queued task never runs, a running one is told to stop. It sends no webhooks.</p>
      </Confirm>
    );
  }
  return (
    <Confirm title="Send it again?" verb="Redeliver" otherwise="Leave it" {...rest}>
      <p>It has arrived before. The receiver gets the same webhook again.</p>
    </Confirm>
  );
}

/** The button that posts a task like this one. */
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
