import { figureTable, type Figure } from "../kit/figures.ts";
import { cpuInAll, type Slice } from "./slice.ts";

/** A row that was measured. */
export interface MeasuredRow {
  readonly name: string;
  readonly title: string;
  readonly durability: string;
  /** How it was run, where there was a choice. */
  readonly way: string | null;
  /** By round: in each the rows were measured one right after the other. */
  readonly slices: readonly Slice[];
}

interface Run {
  readonly slice: Slice;
  /** Of ours, in the same round. */
  readonly file: Slice | undefined;
  readonly server: Slice | undefined;
}

const FIGURES: readonly Figure<Run>[] = [
  { name: "tasks/s", value: ({ slice }) => slice.tasksPerSecond },
  { name: "file : it", digits: 2, value: ({ slice, file }) => ratio(file, slice) },
  { name: "server : it", digits: 2, value: ({ slice, server }) => ratio(server, slice) },
  { name: "CPU µs/task", value: ({ slice }) => cpuInAll(slice.cpu) },
  { name: "API", value: ({ slice }) => slice.cpu.server },
  { name: "worker", value: ({ slice }) => slice.cpu.worker },
  { name: "store", value: ({ slice }) => slice.cpu.database },
];

/** The measurements as a Markdown table: medians over the rounds, and of the ratios within each round. */
export function peersTable(rows: readonly MeasuredRow[]): string {
  const slicesOf = (name: string): readonly Slice[] | undefined =>
    rows.find((row) => row.name === name)?.slices;
  const [file, server] = [slicesOf("file"), slicesOf("server")];
  const shown = rows.map(({ title, durability, slices }) => ({
    what: [title, durability],
    runs: slices.map((slice, round) => ({ slice, file: file?.[round], server: server?.[round] })),
  }));
  return figureTable(FIGURES, shown, { what: ["", "durability"] });
}

/** How each row was run, on a line each. */
export function waysText(rows: readonly MeasuredRow[]): string {
  return rows
    .flatMap(({ title, durability, way }) =>
      way === null ? [] : [`- ${title} (${durability}): ${way}`],
    )
    .join("\n");
}

function ratio(ours: Slice | undefined, { tasksPerSecond }: Slice): number {
  return (ours?.tasksPerSecond ?? Number.NaN) / tasksPerSecond;
}
