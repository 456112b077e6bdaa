import type { ComponentChildren } from "preact";

import { FittedTable } from "./fitted-table.tsx";

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
