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
