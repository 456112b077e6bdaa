import { useLayoutEffect } from "preact/hooks";

/** A key that does something on the screen that is shown. */
export interface KeyBinding {
  /** As `KeyboardEvent.key` has it. */
  readonly key: string;
  /** What it does, for the list that `?` opens. */
  readonly does: string;
  /** Null: only said here; what has the focus does it. */
  readonly run: (() => void) | null;
}

// The newest part of the screen comes first: a dialog before what is below it.
const bound: (readonly KeyBinding[])[] = [];

/** Every key that does something now, each once. */
export function boundKeys(): readonly KeyBinding[] {
  const known = new Map<string, KeyBinding>();
  for (const binding of bound.toReversed().flat()) {
    if (!known.has(binding.key)) known.set(binding.key, binding);
  }
  return [...known.values()];
}

/** Binds keys while the component is shown. They do nothing while one writes into a field. */
export function useKeys(bindings: readonly KeyBinding[]): void {
  // With what is drawn, and not after it: the next key may follow at once.
  useLayoutEffect(() => {
    bound.push(bindings);
    return () => {
      bound.splice(bound.indexOf(bindings), 1);
    };
  });
}

/** Listens to the keyboard. */
export function watchKeys(): void {
  document.addEventListener("keydown", (event) => {
    const { ctrlKey, metaKey, altKey, defaultPrevented } = event;
    if (ctrlKey || metaKey || altKey || defaultPrevented || isWriting(event)) return;
    if (document.querySelector("dialog[open]") !== null) return;
    const run = boundKeys().find(({ key }) => key === event.key)?.run ?? null;
    if (run === null) return;
    event.preventDefault();
    run();
  });
}

// Nothing is written into a checkbox.
const FIELDS = "input:not([type=checkbox], [type=radio]), textarea, select";

function isWriting({ target, key }: KeyboardEvent): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target.matches(FIELDS)) return true;
  // Enter and space belong to what has the focus.
  return (key === "Enter" || key === " ") && target.matches("a, button, summary, input");
}
