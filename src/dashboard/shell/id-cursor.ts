import { useEffect, useRef, useState } from "preact/hooks";

import type { KeyBinding } from "./keyboard.ts";

/** The reader's place in a list that keys walk through. */
export interface IdCursor {
  /** The id of the row; null before the first key, unless the cursor begins at one. */
  readonly current: string | null;
  readonly moveTo: (id: string) => void;
  /** j and k. */
  readonly keys: readonly KeyBinding[];
}

/**
 * A cursor over rows with these ids. It stays on its row when others come and go. Keys scroll to the row and focus
 * its link.
 */
export function useIdCursor(
  ids: readonly string[],
  noun: string,
  first: string | null = null,
): IdCursor {
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
