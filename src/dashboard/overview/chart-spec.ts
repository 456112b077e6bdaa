/** What a chart shows, before anything is drawn. */
export interface ChartSpec {
  readonly title: string;
  /** The whole of it in a sentence, for those who do not see it too. */
  readonly summary: string;
  /** Why there is nothing to draw; null when there is. */
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
  /** False: more may come. It is drawn apart. */
  readonly isWhole: boolean;
}

/** Colours that charts have, as style/token.css names them. */
export type ChartColour = "chart-blue" | "chart-amber" | "chart-teal" | "chart-violet" | "bad";

export interface ChartLine {
  readonly name: string;
  readonly shape: "line" | "bar";
  readonly colour: ChartColour;
  readonly axis: "left" | "right";
  /** One for each step; null where there is none. */
  readonly values: readonly (number | null)[];
  readonly text: (value: number) => string;
}

export interface ChartAxis {
  readonly kind: "linear" | "logarithmic";
  readonly range: readonly [min: number, max: number];
  /** Between two marks; of a logarithmic axis, whose marks are powers of ten, it is empty. */
  readonly intervals: readonly number[];
  readonly text: (value: number) => string;
}

/** The step that is told while none is pointed at: the last that is over, or else the last. */
export function newestStep(steps: readonly ChartStep[]): number {
  const whole = steps.findLastIndex(({ isWhole }) => isWhole);
  return whole === -1 ? steps.length - 1 : whole;
}
