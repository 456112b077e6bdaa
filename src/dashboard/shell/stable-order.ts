import { useRef, useState } from "preact/hooks";

/** Rows in an order that does not change while somebody reads them. */
export interface StableOrder<T> {
  readonly rows: readonly T[];
  /** How many new rows wait to be shown. */
  readonly freshCount: number;
  /** Shows them, in the present order. */
  readonly showFresh: () => void;
}

interface OrderParts<T> {
  /** Null before the first read. */
  readonly rows: readonly T[] | null;
  readonly keyOf: (row: T) => string;
  /** Another name means another list. */
  readonly list: string;
}

/** Keeps rows in place while their values change; new rows wait. */
export function useStableOrder<T>({ rows, keyOf, list }: OrderParts<T>): StableOrder<T> {
  const kept = useRef<{ readonly list: string; readonly keys: readonly string[] } | null>(null);
  const [, redraw] = useState(0);
  if (rows === null) return { rows: [], freshCount: 0, showFresh: () => {} };
  const byKey = new Map(rows.map((row) => [keyOf(row), row]));
  const keys = kept.current?.list === list ? kept.current.keys : [];
  const stayed = keys.flatMap((key) => byKey.get(key) ?? []);
  // Nobody reads an empty list.
  const shown = stayed.length === 0 ? rows : stayed;
  if (stayed.length === 0) kept.current = { list, keys: [...byKey.keys()] };
  return {
    rows: shown,
    freshCount: byKey.size - shown.length,
    showFresh: () => {
      kept.current = null;
      redraw((count) => count + 1);
    },
  };
}
