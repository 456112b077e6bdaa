import { useState } from "preact/hooks";

/** The selected rows of a list. */
export interface Selection {
  readonly has: (id: string) => boolean;
  readonly toggle: (id: string) => void;
  /** Selects everything from the last toggled row to this one. */
  readonly extend: (id: string) => void;
  readonly setAll: (isSelected: boolean) => void;
  readonly clear: () => void;
}

/** A selection among these ids; it begins with `first`. */
export function useSelection(
  ids: readonly string[],
  first: ReadonlySet<string> = new Set(),
): Selection {
  const [chosen, setChosen] = useState(first);
  const [anchor, setAnchor] = useState<string | null>(null);
  function toggle(id: string): void {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    setChosen(next);
    setAnchor(id);
  }
  function extend(id: string): void {
    setChosen(new Set([...chosen, ...between(ids, anchor ?? id, id)]));
  }
  function clear(): void {
    setChosen(new Set());
    setAnchor(null);
  }
  return {
    toggle,
    extend,
    clear,
    has: (id) => chosen.has(id),
    setAll: (isSelected) => (isSelected ? setChosen(new Set(ids)) : clear()),
  };
}

/** The ids from one to the other, both included, in either direction. */
export function between(ids: readonly string[], from: string, to: string): readonly string[] {
  const [first = -1, last = -1] = [ids.indexOf(from), ids.indexOf(to)].toSorted((a, b) => a - b);
  return first === -1 ? [to] : ids.slice(first, last + 1);
}
