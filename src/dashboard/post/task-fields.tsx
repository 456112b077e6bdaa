import type { ComponentChildren } from "preact";
import { useEffect, useId, useMemo } from "preact/hooks";

import { devScript } from "../shell/scripts.ts";
import { timeZone } from "../shell/session.ts";
import { findJsonFault } from "./json-fault.ts";
import { type DraftField, EMPTY_DRAFT, type TaskDraft } from "./task-draft.ts";

/** The names of this daemon that a task may use. */
export interface TaskChoices {
  readonly types: readonly string[];
  readonly marketplaces: readonly string[];
}

interface TaskFieldsProps extends FormProps {
  readonly choices: TaskChoices;
}

/** The fields of a task. */
export function TaskFields({ choices: { types, marketplaces }, ...form }: TaskFieldsProps) {
  const { draft } = form;
  return (
    <>
      <ChoiceField {...form} field="type" label="Type" options={types} />
      <InputField {...form} />
      <WebhookFields {...form} />
      <div class="field-pair">
        <TextField {...form} field="tag" label="Tag" hint="A label of your own." />
        <ChoiceField {...form} field="priority" label="Priority" options={PRIORITIES} />
      </div>
      <StartField {...form} />
      {(marketplaces.length > 0 || draft.marketplace !== "") && (
        <ChoiceField
          {...form}
          field="marketplace"
          label="Marketplace"
          options={["", ...marketplaces]}
        />
      )}
    </>
  );
}

const PRIORITIES = Array.from("0123456789");

/** Where the finished task is reported. */
function WebhookFields(form: FormProps) {
  const TargetField = devScript.value?.TargetField ?? TextField;
  return (
    <>
      <TargetField
        {...form}
        field="postback_url"
        label="Postback URL"
        hint="Optional: gets the finished task by a signed POST."
      />
      <TargetField
        {...form}
        field="pingback_url"
        label="Pingback URL"
        hint="Optional: gets a signed GET, with $id and $tag filled in."
      />
    </>
  );
}

function StartField(form: FormProps) {
  const { draft, change } = form;
  return (
    <FormField
      label="Start"
      hint={`Not before this time (${timeZone()}); at once where there is none.`}
      {...refusalOf({ ...form, field: "start_at" })}
    >
      {(attributes) => (
        <input
          {...attributes}
          type="datetime-local"
          value={draft.start_at}
          onInput={({ currentTarget }) => change("start_at", currentTarget.value)}
        />
      )}
    </FormField>
  );
}

function ChoiceField(props: FieldProps & { readonly options: readonly string[] }) {
  const { draft, field, change, label, options } = props;
  const chosen = draft[field];
  // A task that is posted again may have a value that there is no more: the daemon says so.
  const all = options.includes(chosen) ? options : [chosen, ...options];
  return (
    <FormField label={label} {...refusalOf(props)}>
      {(attributes) => (
        <select
          {...attributes}
          value={chosen}
          onChange={({ currentTarget }) => change(field, currentTarget.value)}
        >
          {all.map((option) => (
            <option key={option} value={option}>
              {option || "none"}
            </option>
          ))}
        </select>
      )}
    </FormField>
  );
}

function InputField(form: FormProps) {
  const { draft, change } = form;
  const fault = useMemo(() => inputFault(draft.input), [draft.input]);
  const { fault: refused, isRefused } = refusalOf({ ...form, field: "input" });
  return (
    <FormField
      label="Input"
      hint="Any JSON, for the runner; null where nothing is written."
      fault={fault ?? refused}
      isRefused={isRefused}
    >
      {(attributes) => (
        <textarea
          {...attributes}
          // The browser posts no form with a field that is invalid.
          ref={(area) => area?.setCustomValidity(fault ?? "")}
          class="mono"
          rows={6}
          value={draft.input}
          autocomplete="off"
          spellcheck={false}
          onInput={({ currentTarget }) => change("input", currentTarget.value)}
        />
      )}
    </FormField>
  );
}

function inputFault(input: string): string | null {
  if (input.trim() === EMPTY_DRAFT.input) return null;
  const fault = findJsonFault(input);
  return fault && `Line ${fault.line}, column ${fault.column}: expected ${fault.expected}.`;
}

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
