import { type ComponentChildren, type TargetedInputEvent, createElement } from "preact";
import { useEffect, useId } from "preact/hooks";

/** A field of a form as data. Every value is a string; a list of checked options is separated by commas. */
export interface Field<Name extends string = string> {
  readonly name: Name;
  readonly label: string;
  /** The values that may be written. */
  readonly hint?: ComponentChildren;
  /** A line of text unless given. */
  readonly kind?: "area" | "choice" | "checks";
  /** Of a choice or of checks: each value, and its text if that differs. */
  readonly options?: readonly (readonly [value: string, text?: string])[];
  /** Two of them share a line. */
  readonly isHalf?: boolean;
  readonly input?: Readonly<Record<string, string | number | boolean>>;
  /** Why a value is invalid; null if it is valid. */
  readonly rule?: (value: string) => string | null;
  /** Replaces parts of the field, by its value. */
  readonly adapt?: (value: string, change: (value: string) => void) => Adapted;
}

interface Adapted extends Partial<Pick<Field, "label" | "hint">> {
  /** Shown in place of the value. */
  readonly value?: string;
  readonly change?: (shown: string) => void;
  /** Buttons next to the field. */
  readonly tools?: ComponentChildren;
}

/** The values of a form by the names of its fields. */
export type Values<Name extends string> = Readonly<Record<Name, string>>;

/** An error of the daemon about one field, which gets the focus. */
export class FieldError extends Error {
  readonly field: string;
  constructor(field: string, message: string) {
    super(message);
    this.field = field;
  }
}

interface FieldsProps<Name extends string> {
  readonly fields: readonly Field<Name>[];
  readonly values: Values<Name>;
  readonly change: (values: Values<Name>) => void;
  readonly error?: FieldError | null;
}

export function Fields<Name extends string>(props: FieldsProps<Name>) {
  const { fields, values, change, error } = props;
  return (
    <div class="fields">
      {fields.map((field) => (
        <FieldView
          key={field.name}
          field={field}
          value={values[field.name]}
          change={(value) => change({ ...values, [field.name]: value })}
          refusal={error?.field === field.name ? error.message : null}
        />
      ))}
    </div>
  );
}

interface FieldViewProps {
  readonly field: Field;
  readonly value: string;
  readonly change: (value: string) => void;
  readonly refusal: string | null;
}

const TAGS = { line: "input", area: "textarea", choice: "select" };

function FieldView({ field, refusal, ...given }: FieldViewProps) {
  const id = useId();
  useEffect(() => {
    if (refusal !== null) document.getElementById(id)?.focus();
  }, [refusal]);
  const { name, kind = "line", isHalf = false, rule, adapt, input } = field;
  const look = `stack stack-tight field ${isHalf ? "field-half" : ""}`;
  if (kind === "checks") return <Checks field={field} look={look} {...given} />;
  const invalid = rule?.(given.value) ?? null;
  const fault = invalid ?? refusal;
  const { label, hint, tools, value, change } = {
    label: field.label,
    hint: field.hint,
    tools: null,
    ...given,
    ...adapt?.(given.value, given.change),
  };
  const attributes = {
    id,
    name,
    value,
    "aria-invalid": fault !== null,
    "aria-describedby": `${id}-note`,
    autocomplete: "off",
    spellcheck: false,
    ...(kind === "area" && { class: "mono", rows: 6 }),
    ...input,
    // The browser sends no form with an invalid field.
    ref: (element: HTMLInputElement | null) => element?.setCustomValidity(invalid ?? ""),
    onInput: (event: TargetedInputEvent<HTMLInputElement>) => change(event.currentTarget.value),
  };
  return (
    <div class={look}>
      <label for={id}>{label}</label>
      <div class="row">
        {createElement(TAGS[kind], attributes, kind === "choice" ? optionsOf(field, value) : null)}
        {tools}
      </div>
      <span id={`${id}-note`} class={fault === null ? "hint" : "tone-bad"} aria-live="polite">
        {fault ?? hint}
      </span>
    </div>
  );
}

function optionsOf({ options = [] }: Field, chosen: string) {
  const isKnown = options.some(([value]) => value === chosen);
  // A form may begin with a value that no longer exists: the daemon refuses it with the reason.
  return [...(isKnown ? [] : [[chosen] as const]), ...options].map(([value, text = value]) => (
    <option key={value} value={value}>
      {text || "none"}
    </option>
  ));
}

interface ChecksProps extends Omit<FieldViewProps, "refusal"> {
  readonly look: string;
}

function Checks({ field: { label, options = [] }, look, value, change }: ChecksProps) {
  const chosen = value.split(",").filter((each) => each !== "");
  return (
    <fieldset class={look}>
      <legend class={label === "" ? "off-screen" : undefined}>{label || "Options"}</legend>
      <div class="row">
        {options.map(([option, text]) => (
          <Check
            key={option}
            text={text ?? option}
            isChecked={chosen.includes(option)}
            change={(isChecked) => {
              const others = chosen.filter((each) => each !== option);
              change((isChecked ? [...others, option] : others).join(","));
            }}
          />
        ))}
      </div>
    </fieldset>
  );
}

interface CheckProps {
  readonly text: string;
  readonly isChecked: boolean;
  readonly change: (isChecked: boolean) => void;
}

export function Check({ text, isChecked, change }: CheckProps) {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={isChecked}
        onChange={({ currentTarget }) => change(currentTarget.checked)}
      />
      {text}
    </label>
  );
}
