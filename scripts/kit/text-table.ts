/** A column's name, and whether it holds numbers. */
export interface Column {
  readonly name: string;
  readonly align?: "right";
}

/** A Markdown table with its columns padded, so that it reads well in a terminal too. */
export function textTable(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
): string {
  const names = columns.map(({ name }) => name);
  const widths = columns.map((_, i) => {
    return Math.max(3, ...[names, ...rows].map((row) => row[i]?.length ?? 0));
  });
  const line = (cells: readonly string[]): string => {
    const padded = columns.map(({ align }, i) => {
      const [cell, width] = [cells[i] ?? "", widths[i] ?? 0];
      return align === "right" ? cell.padStart(width) : cell.padEnd(width);
    });
    return `| ${padded.join(" | ")} |`;
  };
  const rule = columns.map(({ align }, i) => {
    const dashes = "-".repeat((widths[i] ?? 3) - 1);
    return align === "right" ? `${dashes}:` : `${dashes}-`;
  });
  return [line(names), `| ${rule.join(" | ")} |`, ...rows.map(line)].join("\n");
}

/** Columns of numbers. */
export function numberColumns(names: readonly string[]): readonly Column[] {
  return names.map((name) => ({ name, align: "right" }));
}

/** A figure on each line, behind what it is. */
export function factTable(
  facts: readonly (readonly [string, string | number])[],
  name = "",
): string {
  const rows = facts.map((fact) => fact.map(String));
  return textTable([{ name }, { name: "", align: "right" }], rows);
}

/** Whether a bound was kept. */
export function verdict(isKept: boolean): "kept" | "MISSED" {
  return isKept ? "kept" : "MISSED";
}
