import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** A column of a table: its head and its cells. */
export interface Column<Row> {
  /** The cells of a column without a name are buttons. */
  readonly name: string;
  readonly cell: (row: Row) => ComponentChildren;
  /** Figures, aligned to the right. */
  readonly isNumber?: boolean;
  /** Long texts break into lines. */
  readonly wraps?: boolean;
  /** It is hidden first in a table that does not fit. */
  readonly isMinor?: boolean;
  /** The meaning of the name, on hover. */
  readonly title?: string;
}

interface TableProps<Row> {
  /** The meaning of the table, for screen readers. */
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
  /** The key of the row with the cursor. */
  readonly current?: string | null;
  /** Rows that stand out. */
  readonly isMarked?: (row: Row) => boolean;
}

/** A table of rows. Its first column, its buttons and its long texts are always shown. */
export function Table<Row>(props: TableProps<Row>) {
  const { label, columns, rows, keyOf, current = null, isMarked } = props;
  return (
    <FittedTable
      label={label}
      columns={columns.map((column, i) => ({ ...column, isFixed: i === 0 || isFixed(column) }))}
    >
      <thead>
        <tr>
          {columns.map((column) => (
            <th key={column.name} scope="col" class={classOf(column)} title={column.title}>
              {column.name || <span class="off-screen">Actions</span>}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => {
          const key = keyOf(row);
          return (
            <tr
              key={key}
              aria-current={key === current ? "true" : undefined}
              data-marked={isMarked?.(row)}
            >
              {columns.map((column) => (
                <td key={column.name} class={classOf(column)}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          );
        })}
      </tbody>
    </FittedTable>
  );
}

function isFixed<Row>({ name, wraps = false }: Column<Row>): boolean {
  return name === "" || wraps;
}

function classOf<Row>({ name, isNumber = false, wraps = false }: Column<Row>): string | undefined {
  if (name === "") return "actions";
  if (isNumber) return "number";
  return wraps ? "wraps" : undefined;
}

/** A column, as far as it matters for the width of a table. */
export interface FittedColumn {
  readonly name: string;
  /** It is hidden before other columns. */
  readonly isMinor?: boolean;
  /** It is never hidden. */
  readonly isFixed?: boolean;
}

interface FittedTableProps {
  /** The meaning of the table, for screen readers. */
  readonly label: string;
  readonly class?: string;
  readonly columns: readonly FittedColumn[];
  /** The head and the body. */
  readonly children: ComponentChildren;
}

// Narrower screens have no room for most columns: there a table scrolls.
const WIDE = "(min-width: 761px)";

/**
 * A table that hides the columns that do not fit, because a number that is cut at the edge reads as another number. Names
 * them below, with a button that shows all columns in a table that scrolls.
 */
export function FittedTable({ label, class: look, columns, children }: FittedTableProps) {
  const frame = useRef<HTMLDivElement>(null);
  const [showsAll, setShowsAll] = useState(false);
  const [hidden, setHidden] = useState("");
  function fit(): void {
    const table = frame.current?.querySelector("table");
    if (!table) return;
    table.dataset["hides"] = "";
    const places = showsAll || !matchMedia(WIDE).matches ? [] : misfits(table, columns);
    table.dataset["hides"] = places.join(" ");
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
  return (
    <>
      <div ref={frame} class="table-scroll" role="group" aria-label={label} tabIndex={0}>
        <table class={look} data-hides={hidden}>
          {children}
        </table>
      </div>
      {names.length > 0 && (
        <p class="hint hidden-columns">
          No room for {names.join(", ")}.{" "}
          <button type="button" class="link-button" onClick={() => setShowsAll(true)}>
            Show all columns
          </button>
        </p>
      )}
    </>
  );
}

/** The places of the columns to hide, from 1: minor columns first, the last ones first. */
function misfits(table: HTMLTableElement, columns: readonly FittedColumn[]): readonly number[] {
  const room = table.parentElement?.clientWidth ?? 0;
  const heads = [...(table.tHead?.rows[0]?.cells ?? [])];
  // A table that overflows gives each column its least width.
  const widthOf = (place: number): number => heads[place - 1]?.offsetWidth ?? 0;
  let width = table.offsetWidth;
  const hidden = new Set<number>();
  const movable = columns
    .map(({ isMinor = false, isFixed = false }, i) => ({ isMinor, isFixed, place: i + 1 }))
    .filter(({ isFixed }) => !isFixed)
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
