import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";

import { useIdCursor, useKeys } from "../shell/keyboard.ts";
import { route, setQuery } from "../shell/route.ts";
import { Button } from "./control.tsx";
import { Table, type TableProps } from "./table.tsx";

/** A key that acts on the row with the cursor. */
export interface RowKey<Row> {
  readonly key: string;
  readonly does: string;
  readonly run: (row: Row) => void;
}

interface ListProps<Row> extends TableProps<Row> {
  /** The noun of a row: then the keys j and k walk through the rows. */
  readonly noun?: string;
  readonly keys?: readonly RowKey<Row>[];
  /** Shown in place of the table if no rows exist. */
  readonly empty: ComponentChildren;
  readonly head?: ComponentChildren;
  /** The cursor of the next page; null on the last one. The cursor is in the URL. */
  readonly next?: string | null;
  /** A hint next to the buttons of the pages. */
  readonly children?: ComponentChildren;
}

/** The rows of a list screen, with keys and pages. */
export function List<Row>(props: ListProps<Row>) {
  const { noun, keys = [], empty, head, next = null, children, ...table } = props;
  const { rows, keyOf } = table;
  const cursor = useIdCursor(rows.map(keyOf), noun ?? "");
  const rowKeys = keys.map(({ run, ...binding }) => ({
    ...binding,
    run() {
      const row = rows.find((each) => keyOf(each) === cursor.current);
      if (row !== undefined) run(row);
    },
  }));
  useKeys(noun === undefined ? [] : [...cursor.keys, ...rowKeys]);
  if (rows.length === 0) return <div class="panel">{empty}</div>;
  const isFirst = route.value.query.get("cursor") === null;
  return (
    <section class="panel" aria-label={table.label}>
      {head}
      <Table {...table} current={cursor.current} />
      {(children !== undefined || !isFirst || next !== null) && (
        <div class="row pad rule-above pages">
          {children}
          {!isFirst && <Button press={() => setQuery({ cursor: null })}>First page</Button>}
          {next !== null && <Button press={() => setQuery({ cursor: next })}>Next page</Button>}
        </div>
      )}
    </section>
  );
}

interface OrderParts<T> {
  readonly rows: readonly T[];
  readonly keyOf: (row: T) => string;
  /** Another name means another list. */
  readonly list: string;
}

/** Keeps rows in place while their values change. New rows wait until `showFresh` is called. */
export function useStableOrder<T>({ rows, keyOf, list }: OrderParts<T>) {
  const kept = useRef<{ readonly list: string; readonly keys: readonly string[] } | null>(null);
  const [, redraw] = useState(0);
  const byKey = new Map(rows.map((row) => [keyOf(row), row]));
  const keys = kept.current?.list === list ? kept.current.keys : [];
  const stayed = keys.flatMap((key) => byKey.get(key) ?? []);
  // An empty list has no reader.
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
