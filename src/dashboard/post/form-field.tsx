import type { ComponentChildren } from "preact";
import { useEffect, useId } from "preact/hooks";

interface FormFieldProps {
  readonly label: string;
  /** Tells what may be written. */
  readonly hint?: ComponentChildren;
  /** Why the value is refused; null: it is not. */
  readonly fault: string | null;
  /** True where the fault comes from the daemon: the field gets the focus. */
  readonly isRefused?: boolean;
  /** Draws the field, which takes these attributes. */
  readonly children: (attributes: FieldAttributes) => ComponentChildren;
}

interface FieldAttributes {
  readonly id: string;
  readonly "aria-invalid": boolean;
  readonly "aria-describedby": string;
}

/** A field of a form with its label, and below it what may be written, or why it is refused. */
export function FormField({ label, hint, fault, isRefused = false, children }: FormFieldProps) {
  const id = useId();
  const noteId = `${id}-note`;
  useEffect(() => {
    if (isRefused) document.getElementById(id)?.focus();
  }, [isRefused]);
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({ id, "aria-invalid": fault !== null, "aria-describedby": noteId })}
      <span id={noteId} class={fault === null ? "hint" : "fault"} aria-live="polite">
        {fault ?? hint}
      </span>
    </div>
  );
}
