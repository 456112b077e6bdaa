import type { ComponentChildren, HTMLAttributes } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** A column of a table: its head and its cells. */
export interface Column<Row> {
  /** The cells of a column without a name are buttons. */
  readonly name: string;
  readonly cell: (row: Row) => ComponentChildren;
  /** Shown in place of the name. */
  readonly head?: ComponentChildren;
  /** Figures, aligned to the right. */
  readonly isNumber?: boolean;
  /** Long texts break into lines. */
  readonly wraps?: boolean;
  /** It is hidden first in a table that does not fit. */
  readonly isMinor?: boolean;
  /** It is never hidden, like the first column, buttons and long texts. */
  readonly isFixed?: boolean;
  /** The meaning of the name, on hover. */
  readonly title?: string;
  /** A class of its cells. */
  readonly look?: string;
}

export interface TableProps<Row> {
  /** The meaning of the table, for screen readers. */
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
  /** The key of the row with the cursor. */
  readonly current?: string | null;
  readonly look?: string;
  readonly rowAttributes?: (row: Row) => HTMLAttributes<HTMLTableRowElement> & DataAttributes;
}

type DataAttributes = Readonly<Record<`data-${string}`, boolean>>;

// Narrower screens have no room for most columns: there a table scrolls.
const WIDE = "(min-width: 761px)";

/**
 * A table of rows. It hides the columns that do not fit, because a number that is cut at the edge reads as another
 * number. It names them below, with a button that shows all columns in a table that scrolls.
 */
export function Table<Row>(props: TableProps<Row>) {
  const { label, columns, rows, keyOf, current = null, look, rowAttributes } = props;
  const { frame, names, showAll } = useFit(columns);
  return (
    <>
      <div ref={frame} class="table-scroll" role="group" aria-label={label} tabIndex={0}>
        <table class={look}>
          <thead>
            <tr>
              {columns.map((column) => (
                <th key={column.name} scope="col" class={classOf(column)} title={column.title}>
                  {column.head ?? (column.name || <span class="off-screen">Actions</span>)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr
                key={keyOf(row)}
                aria-current={keyOf(row) === current ? "true" : undefined}
                {...rowAttributes?.(row)}
              >
                {columns.map((column) => (
                  <td key={column.name} class={classOf(column)}>
                    {column.cell(row)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {names.length > 0 && (
        <p class="hint hidden-columns">
          No room for {names.join(", ")}.{" "}
          <button type="button" class="link-button" onClick={showAll}>
            Show all columns
          </button>
        </p>
      )}
    </>
  );
}

/** Keeps the columns hidden that do not fit the frame; returns their names, and a function that shows all. */
function useFit<Row>(columns: readonly Column<Row>[]) {
  const frame = useRef<HTMLDivElement>(null);
  const [showsAll, setShowsAll] = useState(false);
  const [hidden, setHidden] = useState("");
  function fit(): void {
    const table = frame.current?.querySelector("table");
    if (!table) return;
    hideColumns(table, []);
    const places = showsAll || !matchMedia(WIDE).matches ? [] : misfits(table, columns);
    hideColumns(table, places);
    setHidden(places.join(" "));
  }
  useLayoutEffect(fit);
  const newestFit = useRef(fit);
  newestFit.current = fit;
  useEffect(() => {
    // In a frame of its own: a callback that changes the observed size would be called in a loop.
    const observer = new ResizeObserver(() => requestAnimationFrame(() => newestFit.current()));
    for (const element of [frame.current, frame.current?.querySelector("table")]) {
      if (element) observer.observe(element);
    }
    return () => observer.disconnect();
  }, []);
  const names = hidden.split(" ").flatMap((place) => columns[Number(place) - 1]?.name ?? []);
  return { frame, names, showAll: () => setShowsAll(true) };
}

function classOf<Row>({ name, isNumber, wraps, look, head }: Column<Row>): string {
  const isActions = name === "" && head === undefined;
  return [isNumber && "number", wraps && "wraps", isActions && "actions", look]
    .filter(Boolean)
    .join(" ");
}

function hideColumns(table: HTMLTableElement, places: readonly number[]): void {
  for (const cell of table.querySelectorAll<HTMLTableCellElement>("th, td")) {
    cell.hidden = places.includes(cell.cellIndex + 1);
  }
}

/** The places of the columns to hide, from 1: minor columns first, the last ones first. */
function misfits<Row>(table: HTMLTableElement, columns: readonly Column<Row>[]): readonly number[] {
  const room = table.parentElement?.clientWidth ?? 0;
  const heads = [...(table.tHead?.rows[0]?.cells ?? [])];
  // A table that overflows gives each column its least width.
  const widthOf = (place: number): number => heads[place - 1]?.offsetWidth ?? 0;
  let width = table.offsetWidth;
  const hidden = new Set<number>();
  const movable = columns
    .map(({ isMinor = false, ...column }, i) => ({ isMinor, column, place: i + 1 }))
    .filter(({ column: { name, wraps, isFixed }, place }) => {
      return place > 1 && name !== "" && wraps !== true && isFixed !== true;
    })
    .toReversed();
  const order = movable.toSorted((one, other) => Number(other.isMinor) - Number(one.isMinor));
  for (const { place } of order) {
    if (width <= room) break;
    width -= widthOf(place);
    hidden.add(place);
  }
  // The last hidden column may leave room for narrower ones.
  for (const place of [...hidden].toReversed()) {
    if (width + widthOf(place) > room) continue;
    width += widthOf(place);
    hidden.delete(place);
  }
  return [...hidden].toSorted((one, other) => one - other);
}
