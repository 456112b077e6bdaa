import { FormField } from "./form-field.tsx";
import type { DraftField, TaskDraft } from "./task-draft.ts";

/** The field that the daemon refused, and why, in the daemon's words. */
export interface Refusal {
  readonly field: string;
  readonly text: string;
}

export interface FormProps {
  readonly draft: TaskDraft;
  readonly refusal: Refusal | null;
  readonly change: (field: DraftField, value: string) => void;
}

export interface FieldProps extends FormProps {
  readonly field: DraftField;
  readonly label: string;
  readonly hint?: string;
}

/** The part of a refusal that a field shows. */
export function refusalOf({ field, refusal }: Pick<FieldProps, "field" | "refusal">) {
  const fault = refusal?.field === field ? refusal.text : null;
  return { fault, isRefused: fault !== null };
}

/** A field of one line. */
export function TextField(props: FieldProps) {
  const { draft, field, change, label, hint } = props;
  return (
    <FormField label={label} hint={hint} {...refusalOf(props)}>
      {(attributes) => (
        <input
          {...attributes}
          value={draft[field]}
          autocomplete="off"
          spellcheck={false}
          onInput={({ currentTarget }) => change(field, currentTarget.value)}
        />
      )}
    </FormField>
  );
}
