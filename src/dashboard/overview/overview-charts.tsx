import { useMemo, useRef } from "preact/hooks";

import { MINUTE_MS } from "../../domain/clock/duration.ts";
import { Button, Segments } from "../part/control.tsx";
import { Problem } from "../part/panel.tsx";
import { call } from "../shell/api.ts";
import { now } from "../shell/clock.ts";
import { useKeys } from "../shell/keyboard.ts";
import { useResource } from "../shell/resource.ts";
import { hrefOf, route, tasksPath } from "../shell/route.ts";
import { Chart } from "./chart.tsx";
import { overviewCharts, type SeriesShown } from "./overview-series.ts";
import { spanText } from "./time-range.ts";
import {
  chooseRange,
  RANGES,
  rangeOf,
  rangeText,
  resetZoom,
  searchOf,
  seriesQuery,
  zoomTo,
  type TimeRange,
} from "./time-range.ts";

const EVERY_MS = 5000;
// Time goes on even where nothing happens.
const POLL_MS = MINUTE_MS;

const CHART_KEYS = [
  { key: "← →", does: "Read the focused chart; Home and End jump", run: null },
  {
    key: "Enter",
    does: "On a chart: press at two places to zoom to the time between them",
    run: null,
  },
  { key: "+ −", does: "On a chart: zoom in, and back out", run: null },
];

interface OverviewChartsProps {
  /** False while the part above is missing: it would push the charts away from under the pointer. */
  readonly isShown: boolean;
}

/** Four charts over the same time. */
export function OverviewCharts({ isShown }: OverviewChartsProps) {
  const range = rangeOf(route.value.query);
  const { shown, problem, reload } = useSeries(range);
  const charts = useMemo(() => (shown === null ? null : overviewCharts(shown)), [shown]);
  useKeys(CHART_KEYS);
  if (!isShown) return null;
  return (
    <section class="stack" aria-label="Charts">
      <RangeBar range={range} />
      {problem !== null && <Problem text={problem} retry={reload} />}
      {charts === null && problem === null && <p class="loading">Loading…</p>}
      {charts !== null && (
        <div class="charts">
          {charts.map((spec) => (
            <Chart key={spec.title} spec={spec} zoom={zoomTo} unzoom={resetZoom} />
          ))}
        </div>
      )}
    </section>
  );
}

function useSeries(range: TimeRange) {
  const { zoom } = range;
  // The zoom is over, unless it reaches up to now.
  const isOver = zoom !== null && zoom.to < now.peek();
  const { data, problem, reload } = useResource(
    `series ${range.range.value} ${zoom?.from ?? ""} ${zoom?.to ?? ""}`,
    async ({ signal, isAutomatic }): Promise<SeriesShown> => {
      const query = seriesQuery(range, now.peek());
      const series = await call("GET /v1/stats/series", { query, signal, isAutomatic });
      return { series, readAt: now.peek(), when: rangeText(range) };
    },
    isOver ? { everyMs: 0 } : { everyMs: EVERY_MS, pollMs: POLL_MS },
  );
  // The previous charts stay until the next are there: nothing jumps.
  const last = useRef(data);
  if (data !== null) last.current = data;
  return { shown: last.current, problem, reload };
}

function RangeBar({ range }: { readonly range: TimeRange }) {
  return (
    <div class="range-bar">
      <Segments
        label="Time range"
        options={RANGES}
        value={range.zoom === null ? range.range.value : null}
        choose={chooseRange}
      />
      {range.zoom === null ? (
        <p class="hint range-hint">
          <span class="chart-mark chart-mark-open" aria-hidden="true" /> Dashed: not over yet. Drag
          over a chart to zoom.
        </p>
      ) : (
        <>
          <p class="number">{spanText(range.zoom.from, range.zoom.to)}</p>
          <Button press={resetZoom}>Reset zoom</Button>
        </>
      )}
      <a class="range-tasks" href={hrefOf(tasksPath(searchOf(range)))}>
        Show tasks of this time
      </a>
    </div>
  );
}
