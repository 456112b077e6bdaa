import { useState } from "preact/hooks";

import { pointedStep } from "./plot-input.ts";
import { type ChartSpec, type ChartStep, newestStep } from "./plot-scale.ts";
import { Plot } from "./plot.tsx";
import { spanText } from "./time-range.ts";

export interface ChartProps {
  readonly spec: ChartSpec;
  /** Called when a span was chosen, in milliseconds since the epoch. */
  readonly zoom: (from: number, to: number) => void;
  readonly unzoom: () => void;
}

/** A chart with a legend that shows the values of the pointed step; or the same data as a table. */
export function Chart({ spec, zoom, unzoom }: ChartProps) {
  const [isTable, setTable] = useState(false);
  const { title, summary, empty } = spec;
  if (empty !== null) {
    return (
      <figure class="panel chart">
        <figcaption>
          <h2>{title}</h2>
        </figcaption>
        <p class="chart-empty">{empty}</p>
      </figure>
    );
  }
  return (
    <figure class="panel chart">
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
        <p class="hint">{summary}</p>
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
    <p class="hint number">
      {stepText(step)}
      {!step.isWhole && " so far"}
    </p>
  );
}

function Legend({ spec: { steps, lines } }: SpecProps) {
  const told = toldStep(steps);
  return (
    <ul class="chart-legend">
      {lines.map(({ name, colour, shape, values, text }) => (
        <li key={name}>
          <span class={`chart-mark chart-mark-${shape} colour-${colour}`} aria-hidden="true" />
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
  const step = steps[index];
  if (step === undefined) return "";
  const values = lines.map(
    ({ name, values: all, text }) => `${name} ${valueText(all[index], text)}`,
  );
  return `${stepText(step)}: ${values.join(", ")}`;
}

function ChartTable({ spec }: SpecProps) {
  const { title, steps, lines } = spec;
  return (
    <div class="chart-table table-scroll" tabIndex={0} role="region" aria-label={title}>
      <table>
        <caption class="off-screen">{`${title}. ${spec.summary}`}</caption>
        <thead>
          <tr>
            <th scope="col">Time</th>
            {lines.map(({ name }) => (
              <th key={name} scope="col" class="number">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {steps
            .map((step, i) => (
              <tr key={step.from}>
                <th scope="row">
                  {stepText(step)}
                  {!step.isWhole && <span class="hint"> so far</span>}
                </th>
                {lines.map(({ name, values, text }) => (
                  <td key={name} class="number">
                    {valueText(values[i], text)}
                  </td>
                ))}
              </tr>
            ))
            .toReversed()}
        </tbody>
      </table>
    </div>
  );
}

function stepText({ from, to }: ChartStep): string {
  return spanText(from, to);
}

function valueText(value: number | null | undefined, text: (value: number) => string): string {
  return value === null || value === undefined ? "–" : text(value);
}
