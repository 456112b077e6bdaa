import { useEffect, useRef, useState } from "preact/hooks";

import { announce } from "../part/announcer.tsx";
import { Confirm, Dialog } from "../part/dialog.tsx";
import type { TaskRow } from "../shell/envelope.ts";
import { countOf, countText } from "../shell/format.ts";
import { type BulkDeed, type BulkFailure, doToTasks } from "./bulk.ts";

interface BulkDialogProps {
  readonly deed: BulkDeed;
  /** Those that something is done to. */
  readonly rows: readonly TaskRow[];
  /** How many were selected. */
  readonly chosen: number;
  readonly close: () => void;
}

interface BulkRun {
  readonly done: number;
  /** Null while it is under way. */
  readonly failures: readonly BulkFailure[] | null;
}

/** Asks, does it, and says what came of it. */
export function BulkDialog({ deed, rows: given, chosen, close }: BulkDialogProps) {
  // What was asked about is what is done, however the list goes on.
  const [rows] = useState(given);
  const [run, setRun] = useState<BulkRun | null>(null);
  const stop = useRef(new AbortController());
  useEffect(() => () => stop.current.abort(), []);
  async function start(): Promise<void> {
    setRun({ done: 0, failures: null });
    const tell = (done: number): void => setRun({ done, failures: null });
    const failures = await doToTasks(deed, rows, { tell, stop: stop.current.signal });
    if (stop.current.signal.aborted) return;
    setRun({ done: rows.length, failures });
    if (failures.length > 0) return;
    announce(`${DONE[deed]} ${countOf(rows.length, "task")}.`);
    close();
  }
  if (run !== null) return <Progress {...{ deed, run, close }} count={rows.length} />;
  const verb = deed === "redeliver" ? "Redeliver" : "Cancel";
  return (
    <Confirm
      title={`${verb} ${countOf(rows.length, "task")}?`}
      verb={`${verb} ${countText(rows.length)}`}
      isDanger={deed === "cancel"}
      otherwise="Leave them"
      confirm={() => void start()}
      close={close}
    >
      <p>{EXPLAINED[deed]}</p>
      {chosen > rows.length && (
        <p class="hint">
          {countOf(chosen - rows.length, "selected task")} {LEFT_OUT[deed]}
        </p>
      )}
    </Confirm>
  );
}

const DONE: Readonly<Record<BulkDeed, string>> = { redeliver: "Redelivered", cancel: "Cancelled" };

const EXPLAINED: Readonly<Record<BulkDeed, string>> = {
  redeliver:
    "Their webhooks are sent again with a fresh series of attempts, those that were delivered before too. What is scheduled is sent at once.",
  cancel: "Queued ones never run, running ones are told to stop. Cancelled tasks send no webhooks.",
};

const LEFT_OUT: Readonly<Record<BulkDeed, string>> = {
  redeliver: "left out: without webhooks, or not ended yet.",
  cancel: "left out: ended already.",
};

interface ProgressProps {
  readonly deed: BulkDeed;
  readonly run: BulkRun;
  readonly count: number;
  readonly close: () => void;
}

function Progress({ deed, run: { done, failures }, count, close }: ProgressProps) {
  if (failures === null) {
    return (
      <Dialog title={`${done} of ${countOf(count, "task")}`} close={close}>
        <progress value={done} max={count} aria-label="Tasks done" />
        <div class="dialog-buttons">
          <button type="button" class="button" onClick={close}>
            Stop here
          </button>
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
        {DONE[deed]} {countText(count - failures.length)}. These were not:
      </p>
      <ul class="failures">
        {failures.map(({ id, reason }) => (
          <li key={id}>
            <code>{id}</code> {reason}
          </li>
        ))}
      </ul>
      <div class="dialog-buttons">
        <button type="button" class="button" onClick={close}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
