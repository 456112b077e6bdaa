import { signal } from "@preact/signals";
import { type ComponentChildren, Fragment, type VNode } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";

import { useSubmission } from "../shell/resource.ts";
import { actsFor, route } from "../shell/route.ts";
import { announce } from "./announcer.tsx";
import { Button, CopyButton } from "./control.tsx";
import { Check, type Field, FieldError, Fields, type Values } from "./form.tsx";
import { Problem } from "./panel.tsx";

const opened = signal<{ readonly dialog: VNode; readonly id: number } | null>(null);
let lastId = 0;

/** Opens a dialog in place of any other. It belongs to the page: a screen may remove the button that opened it. */
export function openDialog(dialog: VNode): void {
  opened.value = { dialog, id: ++lastId };
}

export function closeDialog(): void {
  opened.value = null;
}

/** Returns a function that closes the dialog of this component, unless it is closed already. */
export function useClose(): () => void {
  const isOpen = useRef(true);
  useEffect(() => () => void (isOpen.current = false), []);
  return () => {
    if (isOpen.current) closeDialog();
  };
}

/** The open dialog of the page. Another screen, account or session closes it. */
export function OpenDialog() {
  useEffect(() => closeDialog, [route.value.path, actsFor.value]);
  const shown = opened.value;
  return shown && <Fragment key={shown.id}>{shown.dialog}</Fragment>;
}

interface DialogProps {
  readonly title: string;
  /** False if closing loses something: then Escape does nothing. */
  readonly mayEscape?: boolean;
  readonly children: ComponentChildren;
}

/** The browser's own modal dialog: it keeps the focus, and gives it back. */
export function Dialog({ title, mayEscape = true, children }: DialogProps) {
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
        // A second Escape in a row closes a dialog, also if `cancel` was prevented.
        if (event.key === "Escape" && !mayEscape) event.preventDefault();
      }}
      onCancel={(event) => {
        event.preventDefault();
        if (mayEscape) closeDialog();
      }}
      onClose={() => {
        // The browser closed it by itself: by the back gesture of a phone.
        const element = dialog.current;
        if (element === null || element.open) return;
        if (mayEscape) closeDialog();
        else element.showModal();
      }}
    >
      <h2 id={titleId}>{title}</h2>
      {children}
    </dialog>
  );
}

/** A part of a dialog that may depend on the values of its form. */
type Part<Name extends string, T> = T | ((values: Values<Name>) => T);

/** A form in a dialog and the work that it starts; without fields it asks for confirmation. */
export interface FormSpec<Name extends string> {
  readonly title: Part<Name, string>;
  /** The text of the button that starts the work. */
  readonly verb: Part<Name, string>;
  /** The text of the button that closes the dialog. */
  readonly otherwise?: string;
  readonly isDanger?: boolean;
  /** False if there is nothing to do. */
  readonly maySubmit?: Part<Name, boolean>;
  readonly fields?: readonly Field<Name>[];
  /** The initial values; empty unless given. */
  readonly first?: Partial<Values<Name>>;
  readonly text?: Part<Name, ComponentChildren>;
  /** Text below the fields. */
  readonly note?: Part<Name, ComponentChildren>;
  /** Does the work. Returns false to keep the dialog open; an error keeps it open and is shown. */
  readonly work: (values: Values<Name>) => Promise<unknown>;
  /** Announced after the work. */
  readonly announcement?: string;
  /** Called after the work, when the dialog is closed. */
  readonly done?: () => void;
}

export function ask<Name extends string = never>(form: FormSpec<Name>): void {
  openDialog(<FormDialog {...form} />);
}

export function FormDialog<Name extends string>(props: FormSpec<Name>) {
  const { fields = [], first, otherwise = "Close", isDanger = false, announcement, done } = props;
  const [values, setValues] = useState(() => initialValues(fields, first));
  const [refusal, setRefusal] = useState<FieldError | null>(null);
  const submission = useSubmission();
  const close = useClose();
  async function attempt(): Promise<void> {
    setRefusal(null);
    try {
      if ((await props.work(values)) === false) return;
    } catch (error) {
      const isOfField = error instanceof FieldError && error.field in values;
      if (!isOfField) throw error;
      return setRefusal(error);
    }
    if (announcement !== undefined) announce(announcement);
    close();
    done?.();
  }
  const partOf = <T,>(part: Part<Name, T>): T => (isFunction(part) ? part(values) : part);
  return (
    <Dialog title={partOf(props.title)}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          submission.run(attempt);
        }}
      >
        {partOf(props.text)}
        {fields.length > 0 && (
          <Fields
            fields={fields}
            values={values}
            error={refusal}
            change={(changed) => {
              setRefusal(null);
              setValues(changed);
            }}
          />
        )}
        {partOf(props.note)}
        {submission.problem !== null && <Problem text={submission.problem} />}
        <div class="row dialog-buttons">
          <Button isLarge press={closeDialog}>
            {otherwise}
          </Button>
          <button
            type="submit"
            class={`button button-${isDanger ? "danger" : "primary"}`}
            disabled={submission.isBusy || !(partOf(props.maySubmit) ?? true)}
          >
            {partOf(props.verb)}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function isFunction<Name extends string, T>(
  part: Part<Name, T>,
): part is (values: Values<Name>) => T {
  return typeof part === "function";
}

function initialValues<Name extends string>(
  fields: readonly Field<Name>[],
  first: Partial<Values<Name>> = {},
): Values<Name> {
  const values = fields.map(({ name }) => [name, first[name] ?? ""]);
  return Object.fromEntries(values) as Values<Name>;
}

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
}

/** Shows secrets this one time. It closes only when the reader confirms that they are stored. */
export function ShownOnce({ title, secrets }: ShownOnceProps) {
  const [isStored, setStored] = useState(false);
  useEffect(() => {
    if (isStored) return;
    const warn = (event: BeforeUnloadEvent) => event.preventDefault();
    globalThis.addEventListener("beforeunload", warn);
    return () => globalThis.removeEventListener("beforeunload", warn);
  }, [isStored]);
  return (
    <Dialog title={title} mayEscape={false}>
      {secrets.map(({ what, text, hint }) => (
        <div key={what} class="stack stack-tight">
          <h3>{what}</h3>
          <div class="line secret">
            <code>{text}</code>
            <CopyButton text={text} what={what} />
          </div>
          <p class="hint">{hint}</p>
        </div>
      ))}
      <Check
        text={secrets.length === 1 ? "I stored it" : "I stored them"}
        isChecked={isStored}
        change={setStored}
      />
      <div class="row dialog-buttons">
        <Button look="primary" isLarge isDisabled={!isStored} press={closeDialog}>
          Close
        </Button>
      </div>
    </Dialog>
  );
}
