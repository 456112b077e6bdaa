import type { ComponentChildren } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";

import { useSubmission } from "../shell/resource.ts";
import { announce } from "./announcer.tsx";
import { Button, CopyButton } from "./control.tsx";
import { Problem } from "./panel.tsx";

interface DialogProps {
  readonly title: string;
  /** Called when the dialog should close, also by Escape. */
  readonly close: () => void;
  /** False where closing loses something: then Escape does nothing. */
  readonly mayEscape?: boolean;
  readonly children: ComponentChildren;
}

/** The browser's own modal dialog: it keeps the focus, and gives it back. */
export function Dialog({ title, close, mayEscape = true, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  useLayoutEffect(() => {
    const element = dialog.current;
    const before = document.activeElement;
    element?.showModal();
    return () => {
      element?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby={titleId}
      onKeyDown={(event) => {
        // A second Escape in a row closes a dialog whatever the answer to `cancel` is.
        if (event.key === "Escape" && !mayEscape) event.preventDefault();
      }}
      onCancel={(event) => {
        event.preventDefault();
        if (mayEscape) close();
      }}
      onClose={() => {
        // The browser closed it by itself: by the back gesture of a phone.
        const element = dialog.current;
        if (element === null || element.open) return;
        if (mayEscape) close();
        else element.showModal();
      }}
    >
      <h2 id={titleId}>{title}</h2>
      {children}
    </dialog>
  );
}

interface ConfirmProps {
  readonly title: string;
  /** The verb on the button. */
  readonly verb: string;
  readonly isDanger?: boolean;
  /** False where there is nothing to do. */
  readonly mayConfirm?: boolean;
  /** Disables the button while it is true. */
  readonly isBusy?: boolean;
  /** Why it failed; null: it did not. */
  readonly problem?: string | null;
  /** The text of the button that does nothing. */
  readonly otherwise?: string;
  readonly confirm: () => void;
  readonly close: () => void;
  readonly children: ComponentChildren;
}

/** Asks before an action that cannot be undone. */
export function Confirm(props: ConfirmProps) {
  const { title, verb, isDanger = false, isBusy = false, confirm, close, children } = props;
  const { problem = null, otherwise = "Keep", mayConfirm = true } = props;
  return (
    <Dialog title={title} close={close}>
      {children}
      {problem !== null && <Problem text={problem} />}
      <div class="dialog-buttons">
        <Button isLarge press={close}>
          {otherwise}
        </Button>
        <Button
          look={isDanger ? "danger" : "primary"}
          isLarge
          isDisabled={isBusy || !mayConfirm}
          press={confirm}
        >
          {verb}
        </Button>
      </div>
    </Dialog>
  );
}

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

/** A secret that was just made. */
export interface ShownSecret {
  /** As in "Copy the API key". */
  readonly what: string;
  readonly text: string;
  /** Its purpose, and whether it can be seen again. */
  readonly hint: string;
}

interface ShownOnceProps {
  readonly title: string;
  readonly secrets: readonly ShownSecret[];
  readonly close: () => void;
}

/** Shows secrets this one time. It closes only when the reader confirms that they are stored. */
export function ShownOnce({ title, secrets, close }: ShownOnceProps) {
  const [isStored, setStored] = useState(false);
  useEffect(() => {
    if (isStored) return;
    const warn = (event: BeforeUnloadEvent) => event.preventDefault();
    globalThis.addEventListener("beforeunload", warn);
    return () => globalThis.removeEventListener("beforeunload", warn);
  }, [isStored]);
  return (
    <Dialog title={title} close={close} mayEscape={false}>
      {secrets.map((secret) => (
        <Secret key={secret.what} {...secret} />
      ))}
      <label class="check">
        <input
          type="checkbox"
          checked={isStored}
          onChange={({ currentTarget }) => setStored(currentTarget.checked)}
        />
        {secrets.length === 1 ? "I stored it" : "I stored them"}
      </label>
      <div class="dialog-buttons">
        <Button look="primary" isLarge isDisabled={!isStored} press={close}>
          Close
        </Button>
      </div>
    </Dialog>
  );
}

function Secret({ what, text, hint }: ShownSecret) {
  return (
    <div class="stack stack-tight">
      <h3>{what}</h3>
      <div class="secret">
        <code>{text}</code>
        <CopyButton text={text} what={what} />
      </div>
      <p class="hint">{hint}</p>
    </div>
  );
}
