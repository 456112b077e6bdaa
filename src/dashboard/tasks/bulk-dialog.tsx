import { useEffect, useState } from "preact/hooks";

import type { BodyOf } from "../../api/operations.ts";
import type { FoundTask } from "../../api/search.ts";
import { UNDELIVERED_STATES } from "../../domain/webhook/delivery.ts";
import { announce } from "../part/announcer.tsx";
import { Button } from "../part/control.tsx";
import { Dialog, ask, closeDialog, openDialog, useClose } from "../part/dialog.tsx";
import { call, errorText } from "../shell/api.ts";
import { countOf, countText } from "../shell/format.ts";
import { isOperator } from "../shell/session.ts";

/** Asks for confirmation, does the action to the selected tasks, and shows its result. */
export function askBulk(
  action: TaskAction,
  selected: readonly FoundTask[],
  done: () => void,
): void {
  const possible = tasksFor(action, selected);
  const modeOf = ({ mode }: { readonly mode: string }): BulkMode => {
    if (action === "cancel") return action;
    return mode === "everything" ? mode : "undelivered";
  };
  const rowsOf = (mode: BulkMode) =>
    mode === "undelivered" ? possible.filter(hasUndelivered) : possible;
  ask<"mode">({
    title(values) {
      const { length } = rowsOf(modeOf(values));
      return length === 0 ? NOTHING_FAILED : WORDS[modeOf(values)].title(countOf(length, "task"));
    },
    verb: (values) => WORDS[modeOf(values)].verb(countText(rowsOf(modeOf(values)).length)),
    isDanger: action === "cancel",
    maySubmit: (values) => rowsOf(modeOf(values)).length > 0,
    otherwise: "Leave them",
    text: (values) => <p>{WORDS[modeOf(values)].explained}</p>,
    fields: action === "cancel" ? [] : [ARRIVED_FIELD],
    note(values) {
      const left = selected.length - rowsOf(modeOf(values)).length;
      if (left === 0) return null;
      return (
        <p class="hint">
          {countOf(left, "selected task")} left out: {WORDS[modeOf(values)].leftOut}
        </p>
      );
    },
    async work(values) {
      const mode = modeOf(values);
      const body = mode === "undelivered" ? ONLY_UNDELIVERED : {};
      openDialog(<Progress action={action} rows={rowsOf(mode)} body={body} done={done} />);
      return false;
    },
  });
}

const ARRIVED_FIELD = {
  name: "mode",
  label: "",
  kind: "checks",
  options: [["everything", "Also send webhooks that arrived"]],
} as const;

/** The mode of the action: it redelivers only webhooks that did not arrive, unless the reader chooses everything. */
type BulkMode = "undelivered" | "everything" | "cancel";

interface BulkWords {
  readonly title: (tasks: string) => string;
  readonly verb: (count: string) => string;
  readonly explained: string;
  readonly leftOut: string;
}

const WORDS: Readonly<Record<BulkMode, BulkWords>> = {
  undelivered: {
    title: (tasks) => `Redeliver ${tasks}?`,
    verb: (count) => `Redeliver ${count}`,
    explained:
      "Webhooks that were given up or refused are sent again with a fresh series of attempts. The others stay as they are.",
    leftOut: "no webhook was given up or refused.",
  },
  everything: {
    title: (tasks) => `Send all webhooks of ${tasks} again?`,
    verb: (count) => `Send ${count} again`,
    explained:
      "All webhooks are sent again with a fresh series of attempts. Receivers get webhooks again that they have already received. Scheduled attempts become due now.",
    leftOut: "without webhooks, or not ended yet.",
  },
  cancel: {
    title: (tasks) => `Cancel ${tasks}?`,
    verb: (count) => `Cancel ${count}`,
    explained:
      "Queued tasks never run, running tasks are stopped. Cancelled tasks send no webhooks.",
    leftOut: "ended already.",
  },
};

const NOTHING_FAILED = "Nothing was given up or refused";

const DONE: Readonly<Record<TaskAction, string>> = {
  redeliver: "Redelivered",
  cancel: "Cancelled",
};

interface ProgressProps {
  readonly action: TaskAction;
  readonly rows: readonly FoundTask[];
  readonly body: RedeliverBody;
  readonly done: () => void;
}

/** Does the action, and lists its failures. Closing the dialog stops it. */
function Progress({ action, rows, body, done }: ProgressProps) {
  const [count, setCount] = useState(0);
  const [failures, setFailures] = useState<readonly BulkFailure[] | null>(null);
  const close = useClose();
  useEffect(() => {
    const stop = new AbortController();
    void doToTasks(rows, { action, body, report: setCount, stop: stop.signal }).then((failed) => {
      if (stop.signal.aborted) return;
      setFailures(failed);
      if (failed.length > 0) return;
      announce(`${DONE[action]} ${countOf(rows.length, "task")}.`);
      close();
    });
    return () => {
      stop.abort();
      done();
    };
  }, []);
  const tasks = countOf(rows.length, "task");
  return (
    <Dialog
      title={
        failures === null
          ? `${count} of ${tasks}`
          : `${countOf(failures.length, "task")} of ${countText(rows.length)} failed`
      }
    >
      {failures === null ? (
        <progress value={count} max={rows.length} aria-label="Tasks done" />
      ) : (
        <>
          <p>
            {DONE[action]} {countText(rows.length - failures.length)}. These were not:
          </p>
          <ul class="hint scroll">
            {failures.map(({ id, reason }) => (
              <li key={id}>
                <code>{id}</code> {reason}
              </li>
            ))}
          </ul>
        </>
      )}
      <div class="row dialog-buttons">
        <Button isLarge press={closeDialog}>
          {failures === null ? "Stop here" : "Close"}
        </Button>
      </div>
    </Dialog>
  );
}

export type TaskAction = "redeliver" | "cancel";

/** Which webhooks of a task are sent again; to cancel one takes none of it. */
type RedeliverBody = BodyOf<"POST /v1/tasks/redeliver/:id">;

/** How many requests are under way at a time. */
const WIDTH = 4;

/** The part of a task that matters here. */
interface Sendable extends Pick<FoundTask, "state"> {
  readonly deliveries: readonly Pick<FoundTask["deliveries"][number], "state" | "is_paused">[];
}

/** True for an ended task with a webhook that can be sent again or earlier: a paused one waits in any case. */
export function canRedeliver({ state, deliveries }: Sendable): boolean {
  const hasEnded = state === "completed" || state === "failed";
  return hasEnded && deliveries.some((each) => each.state !== "waiting" && !each.is_paused);
}

/** True for a task with a webhook that was given up or refused. */
export function hasUndelivered({ deliveries }: Pick<Sendable, "deliveries">): boolean {
  return deliveries.some(({ state }) => UNDELIVERED_STATES.some((each) => each === state));
}

export function canCancel({ state }: Pick<FoundTask, "state">): boolean {
  return state === "queued" || state === "running";
}

/** The tasks among these that an action applies to. For redelivery that includes tasks whose webhooks all arrived. */
export function tasksFor(action: TaskAction, rows: readonly FoundTask[]): readonly FoundTask[] {
  return rows.filter(action === "redeliver" ? canRedeliver : canCancel);
}

/** Does an action to one task. An operator acts for the task's account. Throws an ApiError. */
export async function doToTask(
  action: TaskAction,
  { id, login }: Pick<FoundTask, "id" | "login">,
  body: RedeliverBody = {},
): Promise<void> {
  const verb = action === "redeliver" ? "redeliver" : "task_cancel";
  const account = isOperator.value ? { account: login } : {};
  await call(`POST /v1/tasks/${verb}/:id`, { params: { id }, body, ...account });
}

interface BulkFailure {
  readonly id: string;
  readonly reason: string;
}

/** The body that asks only for webhooks that did not arrive. */
const ONLY_UNDELIVERED = { states: UNDELIVERED_STATES };

interface BulkOrder {
  readonly action: TaskAction;
  /** The body of each request. */
  readonly body: RedeliverBody;
  readonly report: (done: number) => void;
  readonly stop: AbortSignal;
}

/** Does an action to each task, four at a time; reports after each how many are done. Returns the failures. */
async function doToTasks(
  rows: readonly FoundTask[],
  { action, body, report, stop }: BulkOrder,
): Promise<readonly BulkFailure[]> {
  const rest = [...rows];
  const failures: BulkFailure[] = [];
  let done = 0;
  async function work(): Promise<void> {
    for (let row = rest.shift(); row !== undefined && !stop.aborted; row = rest.shift()) {
      try {
        await doToTask(action, row, body);
      } catch (error) {
        failures.push({ id: row.id, reason: errorText(error) });
      }
      report(++done);
    }
  }
  await Promise.all(Array.from({ length: WIDTH }, work));
  return failures;
}
