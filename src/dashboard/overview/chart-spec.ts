/** The content of a chart, before anything is drawn. */
export interface ChartSpec {
  readonly title: string;
  /** The whole chart in a sentence, also for readers who do not see it. */
  readonly summary: string;
  /** Why there is nothing to draw; null when there is something. */
  readonly empty: string | null;
  /** Oldest first; at least one. */
  readonly steps: readonly ChartStep[];
  readonly lines: readonly ChartLine[];
  readonly left: ChartAxis;
  readonly right: ChartAxis | null;
  /** A line across, on the left axis. */
  readonly limit: { readonly value: number; readonly text: string } | null;
}

/** A step of time, in milliseconds since the epoch. */
export interface ChartStep {
  readonly from: number;
  readonly to: number;
  /** False: more may come, so it is drawn separately. */
  readonly isWhole: boolean;
}

/** The colours of charts, by their names in style/token.css. */
export type ChartColour = "chart-blue" | "chart-amber" | "chart-teal" | "chart-violet" | "bad";

export interface ChartLine {
  readonly name: string;
  readonly shape: "line" | "bar";
  readonly colour: ChartColour;
  readonly axis: "left" | "right";
  /** One value for each step; null where there is none. */
  readonly values: readonly (number | null)[];
  readonly text: (value: number) => string;
}

export interface ChartAxis {
  readonly kind: "linear" | "logarithmic";
  readonly range: readonly [min: number, max: number];
  /** The possible distances between two marks; empty for a logarithmic axis, whose marks are powers of ten. */
  readonly intervals: readonly number[];
  readonly text: (value: number) => string;
}

/** The step that the legend shows while none is pointed at: the last complete one, or else the last. */
export function newestStep(steps: readonly ChartStep[]): number {
  const whole = steps.findLastIndex(({ isWhole }) => isWhole);
  return whole === -1 ? steps.length - 1 : whole;
}
