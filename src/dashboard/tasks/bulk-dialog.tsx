import { useEffect, useRef, useState } from "preact/hooks";

import type { FoundTask } from "../../api/search.ts";
import { announce } from "../part/announcer.tsx";
import { Button } from "../part/button.tsx";
import { Confirm, Dialog } from "../part/dialog.tsx";
import { countOf, countText } from "../shell/format.ts";
import {
  type TaskAction,
  type BulkFailure,
  doToTasks,
  hasUndelivered,
  ONLY_UNDELIVERED,
  tasksFor,
} from "./bulk.ts";

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
