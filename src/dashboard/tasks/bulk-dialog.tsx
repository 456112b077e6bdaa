import { useEffect, useRef, useState } from "preact/hooks";

import type { BodyOf } from "../../api/operations.ts";
import type { FoundTask } from "../../api/search.ts";
import { UNDELIVERED_STATES } from "../../domain/webhook/delivery.ts";
import { announce } from "../part/announcer.tsx";
import { Button } from "../part/control.tsx";
import { Confirm, Dialog } from "../part/dialog.tsx";
import { call, errorText } from "../shell/api.ts";
import { countOf, countText } from "../shell/format.ts";
import { isOperator } from "../shell/session.ts";

interface BulkDialogProps {
  readonly action: TaskAction;
  /** The selected tasks. */
  readonly selected: readonly FoundTask[];
  readonly close: () => void;
}

interface BulkRun {
  readonly done: number;
  /** Null while it is under way. */
  readonly failures: readonly BulkFailure[] | null;
}

/** Asks for confirmation, does the action, and shows its result. */
export function BulkDialog({ action, selected: given, close }: BulkDialogProps) {
  // The action applies to the tasks that were shown in the question, however the list goes on.
  const [selected] = useState(given);
  const [mode, setMode] = useState<BulkMode>(action === "redeliver" ? "undelivered" : action);
  const [run, setRun] = useState<BulkRun | null>(null);
  const stop = useRef(new AbortController());
  useEffect(() => () => stop.current.abort(), []);
  const { title, verb, explained, leftOut } = WORDS[mode];
  const possible = tasksFor(action, selected);
  const rows = mode === "undelivered" ? possible.filter(hasUndelivered) : possible;
  async function start(): Promise<void> {
    setRun({ done: 0, failures: null });
    const failures = await doToTasks(rows, {
      action,
      body: mode === "undelivered" ? ONLY_UNDELIVERED : {},
      report: (done) => setRun({ done, failures: null }),
      stop: stop.current.signal,
    });
    if (stop.current.signal.aborted) return;
    setRun({ done: rows.length, failures });
    if (failures.length > 0) return;
    announce(`${DONE[action]} ${countOf(rows.length, "task")}.`);
    close();
  }
  if (run !== null) return <Progress action={action} run={run} close={close} count={rows.length} />;
  return (
    <Confirm
      title={rows.length === 0 ? NOTHING_FAILED : title(countOf(rows.length, "task"))}
      verb={verb(countText(rows.length))}
      isDanger={action === "cancel"}
      mayConfirm={rows.length > 0}
      otherwise="Leave them"
      confirm={() => void start()}
      close={close}
    >
      <p>{explained}</p>
      {action === "redeliver" && <WithArrived mode={mode} change={setMode} />}
      {selected.length > rows.length && (
        <p class="hint">
          {countOf(selected.length - rows.length, "selected task")} left out: {leftOut}
        </p>
      )}
    </Confirm>
  );
}

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
      "All webhooks are sent again with a fresh series of attempts. Receivers get again what they have already. Scheduled attempts become due now.",
    leftOut: "without webhooks, or not ended yet.",
  },
  cancel: {
    title: (tasks) => `Cancel ${tasks}?`,
    verb: (count) => `Cancel ${count}`,
    explained:
      "Queued tasks never run, running tasks are told to stop. Cancelled tasks send no webhooks.",
    leftOut: "ended already.",
  },
};

const NOTHING_FAILED = "Nothing was given up or refused";

const DONE: Readonly<Record<TaskAction, string>> = {
  redeliver: "Redelivered",
  cancel: "Cancelled",
};

interface WithArrivedProps {
  readonly mode: BulkMode;
  readonly change: (mode: BulkMode) => void;
}

function WithArrived({ mode, change }: WithArrivedProps) {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={mode === "everything"}
        onChange={({ currentTarget }) =>
          change(currentTarget.checked ? "everything" : "undelivered")
        }
      />
      Also send webhooks that arrived
    </label>
  );
}

interface ProgressProps {
  readonly action: TaskAction;
  readonly run: BulkRun;
  readonly count: number;
  readonly close: () => void;
}

function Progress({ action, run: { done, failures }, count, close }: ProgressProps) {
  if (failures === null) {
    return (
      <Dialog title={`${done} of ${countOf(count, "task")}`} close={close}>
        <progress value={done} max={count} aria-label="Tasks done" />
        <div class="dialog-buttons">
          <Button isLarge press={close}>
            Stop here
          </Button>
        </div>
      </Dialog>
    );
  }
  return (
    <Dialog
      title={`${countOf(failures.length, "task")} of ${countText(count)} failed`}
      close={close}
    >
      <p>
        {DONE[action]} {countText(count - failures.length)}. These were not:
      </p>
      <ul class="failures">
        {failures.map(({ id, reason }) => (
          <li key={id}>
            <code>{id}</code> {reason}
          </li>
        ))}
      </ul>
      <div class="dialog-buttons">
        <Button isLarge press={close}>
          Close
        </Button>
      </div>
    </Dialog>
  );
}

/** The actions on several tasks at once. */

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

/** True for a task that has not ended. */
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

export interface BulkFailure {
  readonly id: string;
  readonly reason: string;
}

/** The body that asks only for webhooks that did not arrive. */
export const ONLY_UNDELIVERED = { states: UNDELIVERED_STATES };

interface BulkOrder {
  readonly action: TaskAction;
  /** The body of each request. */
  readonly body: RedeliverBody;
  readonly report: (done: number) => void;
  readonly stop: AbortSignal;
}

/** Does an action to each task, four at a time; reports after each how many are done. Returns the failures. */
export async function doToTasks(
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
