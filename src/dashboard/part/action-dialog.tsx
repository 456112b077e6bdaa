import type { ComponentChildren } from "preact";

import { useSubmission } from "../shell/submission.ts";
import { announce } from "./announcer.tsx";
import { Confirm, Dialog } from "./dialog.tsx";
import { Problem } from "./notice.tsx";

interface ActionDialogProps {
  readonly title: string;
  /** The verb on the button that does it. */
  readonly verb: string;
  /** What the other button says. */
  readonly otherwise: string;
  readonly isDanger?: boolean;
  /** Does it; what it throws is shown, and the dialog stays. */
  readonly work: () => Promise<unknown>;
  /** Said afterwards. */
  readonly said: string;
  readonly close: () => void;
  /** Called when it was done, after `close`. */
  readonly done: () => void;
  readonly children: ComponentChildren;
}

/** Asks, then does something that changes much. */
export function ActionDialog({ work, said, close, done, ...asked }: ActionDialogProps) {
  const submission = useSubmission();
  async function attempt(): Promise<void> {
    await work();
    announce(said);
    close();
    done();
  }
  return (
    <Confirm
      {...asked}
      isBusy={submission.isBusy}
      problem={submission.problem}
      confirm={() => submission.run(attempt)}
      close={close}
    />
  );
}

interface FormDialogProps {
  readonly title: string;
  readonly verb: string;
  readonly otherwise: string;
  /** Does what is asked for; what it throws is shown, and the dialog stays. */
  readonly work: () => Promise<void>;
  readonly close: () => void;
  readonly children: ComponentChildren;
}

/** Asks for something in a form, then does it. */
export function FormDialog(props: FormDialogProps) {
  const { title, verb, otherwise, work, close, children } = props;
  const submission = useSubmission();
  return (
    <Dialog title={title} close={close}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          submission.run(work);
        }}
      >
        {children}
        {submission.problem !== null && <Problem text={submission.problem} />}
        <div class="dialog-buttons">
          <button type="button" class="button" onClick={close}>
            {otherwise}
          </button>
          <button type="submit" class="button button-primary" disabled={submission.isBusy}>
            {verb}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
