import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** A key with a function on the present screen. */
export interface KeyBinding {
  /** As in `KeyboardEvent.key`. */
  readonly key: string;
  /** Its function, for the list that `?` opens. */
  readonly does: string;
  /** Null: listed only; the focused element handles it. */
  readonly run: (() => void) | null;
}

// The newest part of the screen comes first: a dialog before the screen below it.
const bound: (readonly KeyBinding[])[] = [];

/** Every key that has a function now, each once. */
export function boundKeys(): readonly KeyBinding[] {
  const known = new Map<string, KeyBinding>();
  for (const binding of bound.toReversed().flat()) {
    if (!known.has(binding.key)) known.set(binding.key, binding);
  }
  return [...known.values()];
}

/** Binds keys while the component is shown. They do nothing while the reader writes into a field. */
export function useKeys(bindings: readonly KeyBinding[]): void {
  // Bound with the drawing, and not after it: the next key may follow immediately.
  useLayoutEffect(() => {
    bound.push(bindings);
    return () => {
      bound.splice(bound.indexOf(bindings), 1);
    };
  });
}

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

// A checkbox takes no text.
const FIELDS = "input:not([type=checkbox], [type=radio]), textarea, select";

function isWriting({ target, key }: KeyboardEvent): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target.matches(FIELDS)) return true;
  // Enter and space belong to the focused element.
  return (key === "Enter" || key === " ") && target.matches("a, button, summary, input");
}

/**
 * A cursor over rows with these ids, moved by j and k; `current` is null before the first key. It stays on its row when
 * others come and go. Keys scroll to the row and focus its link.
 */
export function useIdCursor(ids: readonly string[], noun: string, first: string | null = null) {
  const [current, setCurrent] = useState(first);
  const isByKey = useRef(false);
  useEffect(() => {
    if (!isByKey.current) return;
    isByKey.current = false;
    const row = document.querySelector('main [aria-current="true"]');
    row?.scrollIntoView({ block: "nearest" });
    // The focus is for Enter, and for screen readers.
    row?.querySelector<HTMLElement>("a, summary")?.focus({ preventScroll: true });
  }, [current]);
  const index = current === null ? -1 : ids.indexOf(current);
  function step(by: number): void {
    const next = ids[Math.max(0, Math.min(ids.length - 1, index + by))];
    if (next === undefined) return;
    isByKey.current = true;
    setCurrent(next);
  }
  return {
    current: index === -1 ? null : current,
    moveTo: setCurrent,
    keys: [
      { key: "j", does: `Next ${noun}`, run: () => step(1) },
      { key: "k", does: `Previous ${noun}`, run: () => step(-1) },
    ],
  };
}
