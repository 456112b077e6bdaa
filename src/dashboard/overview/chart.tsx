import { useMemo, useRef, useState } from "preact/hooks";

import { MINUTE_MS } from "../../domain/clock/duration.ts";
import { Button, Segments } from "../part/control.tsx";
import { Problem } from "../part/panel.tsx";
import { type Column, Table } from "../part/table.tsx";
import { call } from "../shell/api.ts";
import { now } from "../shell/clock.ts";
import { useKeys } from "../shell/keyboard.ts";
import { useResource } from "../shell/resource.ts";
import { hrefOf, route, tasksPath } from "../shell/route.ts";
import { type SeriesShown, overviewCharts } from "./overview-series.ts";
import { pointedStep } from "./plot-input.ts";
import { type ChartSpec, type ChartStep, newestStep } from "./plot-scale.ts";
import { Plot } from "./plot.tsx";
import {
  RANGES,
  type TimeRange,
  chooseRange,
  rangeOf,
  rangeText,
  resetZoom,
  searchOf,
  seriesQuery,
  spanText,
  zoomTo,
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
        <div class="columns">
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
    <div class="row">
      <Segments
        label="Time range"
        options={RANGES}
        value={range.zoom === null ? range.range.value : null}
        choose={chooseRange}
      />
      {range.zoom === null ? (
        <p class="hint">
          <span class="chart-mark chart-mark-open" aria-hidden="true" /> Dashed: not over yet. Drag
          over a chart to zoom.
        </p>
      ) : (
        <>
          <p class="number">{spanText(range.zoom.from, range.zoom.to)}</p>
          <Button press={resetZoom}>Reset zoom</Button>
        </>
      )}
      <a class="list-count" href={hrefOf(tasksPath(searchOf(range)))}>
        Show tasks of this time
      </a>
    </div>
  );
}

interface ChartProps {
  readonly spec: ChartSpec;
  /** Called when a span was chosen, in milliseconds since the epoch. */
  readonly zoom: (from: number, to: number) => void;
  readonly unzoom: () => void;
}

/** A chart with a legend that shows the values of the pointed step; or the same data as a table. */
function Chart({ spec, zoom, unzoom }: ChartProps) {
  const [isTable, setTable] = useState(false);
  const { title, summary, empty } = spec;
  if (empty !== null) {
    return (
      <figure class="panel stack chart">
        <figcaption>
          <h2>{title}</h2>
        </figcaption>
        <p class="chart-empty">{empty}</p>
      </figure>
    );
  }
  return (
    <figure class="panel stack chart">
      <figcaption>
        <h2>{title}</h2>
        {!isTable && <PointedStep spec={spec} />}
        <button
          type="button"
          class="button button-small"
          aria-pressed={isTable}
          aria-label={`${title} as a table`}
          onClick={() => setTable(!isTable)}
        >
          Table
        </button>
        <p class="small">{summary}</p>
      </figcaption>
      {isTable ? (
        <ChartTable spec={spec} />
      ) : (
        <>
          <Legend spec={spec} />
          <Plot
            spec={spec}
            zoom={zoom}
            unzoom={unzoom}
            stepText={(step) => spokenText(spec, step)}
          />
        </>
      )}
    </figure>
  );
}

type SpecProps = Pick<ChartProps, "spec">;

// It stands beside the drawing, so that pointing does not draw that again.
function PointedStep({ spec: { steps } }: SpecProps) {
  const step = steps[toldStep(steps)];
  if (step === undefined) return null;
  return (
    <p class="small number">
      {stepText(step)}
      {!step.isWhole && " so far"}
    </p>
  );
}

function Legend({ spec: { steps, lines } }: SpecProps) {
  const told = toldStep(steps);
  return (
    <ul class="row small chart-legend">
      {lines.map(({ name, colour, shape, values, text }) => (
        <li key={name} class="line">
          <span class={`chart-mark chart-mark-${shape} tone-${colour}`} aria-hidden="true" />
          {name} <b class="number">{valueText(values[told], text)}</b>
        </li>
      ))}
    </ul>
  );
}

function toldStep(steps: ChartSpec["steps"]): number {
  return pointedStep(steps) ?? newestStep(steps);
}

/** `19:05–19:06: p50 12 ms, p95 40 ms, p99 1.2 s`. */
function spokenText({ steps, lines }: ChartSpec, index: number): string {
  const values = lines.map(
    ({ name, values: all, text }) => `${name} ${valueText(all[index], text)}`,
  );
  return `${stepText(steps[index])}: ${values.join(", ")}`;
}

function ChartTable({ spec: { title, steps, lines } }: SpecProps) {
  return (
    <Table
      label={title}
      columns={[
        {
          name: "Time",
          cell: (i) => (
            <>
              {stepText(steps[i])}
              {steps[i]?.isWhole === false && <span class="hint"> so far</span>}
            </>
          ),
        },
        ...lines.map(({ name, values, text }): Column<number> => ({
          name,
          isNumber: true,
          cell: (i) => valueText(values[i], text),
        })),
      ]}
      rows={steps.map((_, i) => i).toReversed()}
      keyOf={String}
    />
  );
}

function stepText(step: ChartStep | undefined): string {
  return step === undefined ? "" : spanText(step.from, step.to);
}

function valueText(value: number | null | undefined, text: (value: number) => string): string {
  return value === null || value === undefined ? "–" : text(value);
}
