import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";

import { useKeys } from "../shell/keyboard.ts";
import { route, setQuery } from "../shell/route.ts";
import { announce } from "./announcer.tsx";

interface ButtonProps {
  /** Its kind: the main action, a destructive one, or neither. */
  readonly look?: "primary" | "danger" | "plain";
  readonly isLarge?: boolean;
  readonly isDisabled?: boolean;
  /** Its name for screen readers, where its text alone is not clear. */
  readonly label?: string;
  readonly press: () => void;
  readonly children: ComponentChildren;
}

export function Button(props: ButtonProps) {
  const { look = "plain", isLarge = false, isDisabled = false, label, press, children } = props;
  return (
    <button
      type="button"
      class={`button button-${look} ${isLarge ? "" : "button-small"}`}
      disabled={isDisabled}
      aria-label={label}
      onClick={press}
    >
      {children}
    </button>
  );
}

interface CopyButtonProps {
  readonly text: string;
  /** The noun in the button's name: "id" gives "Copy id". */
  readonly what: string;
  /** The name of the button where it differs. */
  readonly label?: string;
  /** False: a mere icon, whose name is for screen readers and on hover. */
  readonly isLabelled?: boolean;
}

const SHOWN_MS = 1500;

/** Copies a text. Over plain HTTP browsers offer no clipboard: then the text is selected in a prompt. */
export function CopyButton({ text, what, label, isLabelled = false }: CopyButtonProps) {
  const [isCopied, setCopied] = useState(false);
  async function copy(): Promise<void> {
    if (!(await copyAndAnnounce(text, what))) return;
    setCopied(true);
    setTimeout(() => setCopied(false), SHOWN_MS);
  }
  const name = label ?? `Copy ${what}`;
  return (
    <button
      type="button"
      class={isLabelled ? "button button-small" : "icon-button"}
      aria-label={isLabelled ? undefined : name}
      title={isLabelled ? undefined : name}
      onClick={() => void copy()}
    >
      <CopyIcon isDone={isCopied} />
      {isLabelled && <span>{isCopied ? "Copied" : name}</span>}
    </button>
  );
}

/** Copies a text and announces it, or that it failed; true when it worked. */
export async function copyAndAnnounce(text: string, what: string): Promise<boolean> {
  if (await copyText(text)) {
    announce(`Copied the ${what}.`);
    return true;
  }
  announce(`Your browser does not let this page copy. Select and copy the ${what} yourself.`, {
    isProblem: true,
  });
  return false;
}

async function copyText(text: string): Promise<boolean> {
  // Missing where the page did not come over HTTPS or from this machine.
  const clipboard: Clipboard | undefined = navigator.clipboard;
  if (clipboard === undefined) return copyBySelection(text);
  try {
    await clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

function copyBySelection(text: string): boolean {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "off-screen";
  (document.querySelector("dialog[open]") ?? document.body).append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  return isCopied;
}

function CopyIcon({ isDone }: { readonly isDone: boolean }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      {isDone ? (
        <path d="M3 8.5l3.2 3.2L13 4.8" />
      ) : (
        <path d="M5.5 5.5V3.2c0-.4.3-.7.7-.7h6.6c.4 0 .7.3.7.7v6.6c0 .4-.3.7-.7.7h-2.3M3.2 5.5h6.6c.4 0 .7.3.7.7v6.6c0 .4-.3.7-.7.7H3.2a.7.7 0 0 1-.7-.7V6.2c0-.4.3-.7.7-.7z" />
      )}
    </svg>
  );
}

interface CommandProps {
  readonly text: string;
  /** The noun in the button's name: "command" gives "Copy command". */
  readonly what?: string;
}

export function Command({ text, what = "command" }: CommandProps) {
  return (
    <div class="command">
      <pre class="code-block" tabIndex={0}>
        <code>{text}</code>
      </pre>
      <CopyButton text={text} what={what} />
    </div>
  );
}

interface SegmentsProps<Value extends string> {
  readonly label: string;
  readonly options: readonly { readonly value: Value; readonly text: string }[];
  /** One or several of the values; null: none. */
  readonly value: Value | readonly Value[] | null;
  readonly choose: (value: Value) => void;
}

/** A choice among a few options, all of them visible. */
export function Segments<Value extends string>(props: SegmentsProps<Value>) {
  const { label, options, value: chosen, choose } = props;
  const isChosen = (value: Value) =>
    Array.isArray(chosen) ? chosen.includes(value) : value === chosen;
  return (
    <div class="row" role="group" aria-label={label}>
      {options.map(({ value, text }) => (
        <button
          key={value}
          type="button"
          class="chip"
          aria-pressed={isChosen(value)}
          onClick={() => choose(value)}
        >
          {text}
        </button>
      ))}
    </div>
  );
}

interface FilterFieldProps {
  readonly label: string;
  /** The parameter of the URL. */
  readonly name?: string;
  /** Other parameters that become invalid when it changes. */
  readonly resets?: readonly string[];
}

const TYPING_MS = 200;

/** A field that narrows a list; its value is in the URL. `/` focuses it. */
export function FilterField({ label, name = "q", resets = [] }: FilterFieldProps) {
  const field = useRef<HTMLInputElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  // The text being written, until it is in the URL.
  const [draft, setDraft] = useState<string | null>(null);
  useKeys([{ key: "/", does: label, run: () => field.current?.focus() }]);
  function change(text: string): void {
    clearTimeout(timer.current);
    setDraft(text);
    const others = Object.fromEntries(resets.map((other) => [other, null]));
    const at = route.peek().path;
    timer.current = setTimeout(() => {
      setDraft(null);
      if (route.peek().path === at) setQuery({ [name]: text, ...others }, { replaces: true });
    }, TYPING_MS);
  }
  return (
    <input
      ref={field}
      type="search"
      class="filter-field"
      aria-label={label}
      placeholder={label}
      value={draft ?? route.value.query.get(name) ?? ""}
      onInput={({ currentTarget }) => change(currentTarget.value)}
      onKeyDown={({ key, currentTarget }) => {
        if (key === "Escape") currentTarget.blur();
      }}
    />
  );
}
