import type { ComponentChildren } from "preact";

import { useSubmission } from "../shell/submission.ts";
import { announce } from "./announcer.tsx";
import { Button } from "./button.tsx";
import { Confirm, Dialog } from "./dialog.tsx";
import { Problem } from "./notice.tsx";

interface ActionDialogProps {
  readonly title: string;
  /** The verb on the button that starts the work. */
  readonly verb: string;
  /** The text of the other button. */
  readonly otherwise: string;
  readonly isDanger?: boolean;
  /** Does the work; an error is shown, and the dialog stays. */
  readonly work: () => Promise<unknown>;
  /** Announced afterwards. */
  readonly announcement: string;
  readonly close: () => void;
  /** Called after the work, after `close`. */
  readonly done: () => void;
  readonly children: ComponentChildren;
}

/** Asks for confirmation, then does the work. */
export function ActionDialog({ work, announcement, close, done, ...asked }: ActionDialogProps) {
  const submission = useSubmission();
  async function attempt(): Promise<void> {
    await work();
    announce(announcement);
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
  /** Does the work; an error is shown, and the dialog stays. */
  readonly work: () => Promise<void>;
  readonly close: () => void;
  readonly children: ComponentChildren;
}

/** A form in a dialog, and the work that it starts. */
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
          <Button isLarge press={close}>
            {otherwise}
          </Button>
          <button type="submit" class="button button-primary" disabled={submission.isBusy}>
            {verb}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
