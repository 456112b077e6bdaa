import type { Durations, SeriesDuration } from "../../domain/stats/time-series.ts";
import type { Traffic, TrafficStep } from "../store.ts";

/** A step of traffic as both stores select it; each writes histograms in its own way. */
export interface TrafficRow extends TrafficStep {
  readonly durationsText: string;
}

/** Converts rows, which come oldest first. */
export function toTraffic(
  rows: readonly TrafficRow[],
  parseDurations: (text: string) => Durations,
): Traffic {
  const steps: TrafficStep[] = [];
  const durations: SeriesDuration[] = [];
  for (const { durationsText, ...step } of rows) {
    const { at } = step;
    steps.push(step);
    let bucket = 0;
    for (const count of parseDurations(durationsText)) {
      if (count > 0) durations.push({ at, bucket, count });
      bucket++;
    }
  }
  return { steps, durations };
}
