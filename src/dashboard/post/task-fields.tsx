import { useMemo } from "preact/hooks";

import { devScript } from "../shell/dev-script.ts";
import { timeZone } from "../shell/time-zone.ts";
import { FormField } from "./form-field.tsx";
import { findJsonFault } from "./json-fault.ts";
import { EMPTY_DRAFT } from "./task-draft.ts";
import { type FieldProps, type FormProps, refusalOf, TextField } from "./text-field.tsx";

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
