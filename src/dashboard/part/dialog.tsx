import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";

import { Button } from "./button.tsx";
import { Problem } from "./notice.tsx";

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
