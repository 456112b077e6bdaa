import type { Signal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import { PLOT_KEYS, pointAway, pointedStep, usePlotInput, type Selection } from "./plot-input.ts";
import {
  type ChartAxis,
  type ChartLine,
  type ChartSpec,
  type Point,
  type Scale,
  areDays,
  axisMarks,
  axisScale,
  barPath,
  dotPath,
  linePath,
  splitPoints,
  timeMarks,
  timeScale,
} from "./plot-scale.ts";
import { clockText, dayText } from "./time-range.ts";

interface PlotProps {
  readonly spec: ChartSpec;
  /** Called when a span was chosen, in milliseconds since the epoch. */
  readonly zoom: (from: number, to: number) => void;
  readonly unzoom: () => void;
  readonly stepText: (step: number) => string;
}

export function Plot(props: PlotProps) {
  const element = useRef<HTMLDivElement>(null);
  const width = useWidth(element);
  const { spec } = props;
  const frame = useMemo(() => (width === 0 ? null : frameOf(spec, width)), [spec, width]);
  useEffect(() => pointAway, []);
  return (
    <div ref={element} class="chart-plot">
      {frame !== null && <Surface {...props} frame={frame} />}
    </div>
  );
}

function useWidth(element: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const { current } = element;
    if (current === null) return;
    const measure = () => setWidth(current.clientWidth);
    const observer = new ResizeObserver(measure);
    observer.observe(current);
    measure();
    return () => observer.disconnect();
  }, []);
  return width;
}

function Surface({ spec, frame, zoom, unzoom, stepText }: PlotProps & { readonly frame: Frame }) {
  const [announcement, setAnnouncement] = useState("");
  const say = (step: number) => setAnnouncement(stepText(step));
  const { selection, ...handlers } = usePlotInput({
    steps: spec.steps,
    time: frame.time,
    zoom,
    unzoom,
    say,
  });
  // Kept, so that pointing does not draw it again.
  const drawing = useMemo(() => <Drawing spec={spec} frame={frame} />, [spec, frame]);
  return (
    <>
      <svg
        class="plot"
        role="img"
        tabIndex={0}
        aria-label={`${spec.title}. ${spec.summary}`}
        aria-description={PLOT_KEYS}
        width={frame.width}
        height={HEIGHT}
        {...handlers}
      >
        {drawing}
        <Selected selection={selection} frame={frame} />
        <Crosshair spec={spec} frame={frame} />
      </svg>
      <p class="off-screen" role="status">
        {announcement}
      </p>
    </>
  );
}

const HEIGHT = 190;
const TOP = 10;
const BOTTOM = HEIGHT - 24;
const LEFT_MIN = 52;
// Half of a time label that stands at the edge.
const RIGHT_MIN = 22;
const LETTER_WIDTH = 6.3;
const MARK_GAP = 8;
// The least distance between two marks.
const TIME_SPACE = 56;
const VALUE_SPACE = 22;

interface Frame {
  readonly width: number;
  readonly left: number;
  readonly right: number;
  readonly time: ReturnType<typeof timeScale>;
  readonly axes: { readonly left: DrawnAxis; readonly right: DrawnAxis | null };
}

interface DrawnAxis {
  readonly y: Scale;
  readonly marks: readonly { readonly y: number; readonly text: string }[];
  /** The width of the longest text. */
  readonly width: number;
}

function frameOf({ steps, ...spec }: ChartSpec, width: number): Frame {
  const axes = {
    left: drawnAxis(spec.left),
    right: spec.right === null ? null : drawnAxis(spec.right),
  };
  const left = Math.max(LEFT_MIN, axes.left.width);
  const right = Math.max(left + 1, width - Math.max(RIGHT_MIN, axes.right?.width ?? 0));
  return { width, left, right, axes, time: timeScale(steps, [left, right]) };
}

function drawnAxis(axis: ChartAxis): DrawnAxis {
  const y = axisScale(axis, [BOTTOM, TOP]);
  const values = axisMarks(axis, (BOTTOM - TOP) / VALUE_SPACE);
  const marks = values.map((value) => ({ y: Math.round(y(value)), text: axis.text(value) }));
  const letters = Math.max(0, ...marks.map(({ text }) => text.length));
  return { y, marks, width: letters * LETTER_WIDTH + MARK_GAP + 4 };
}

interface DrawingProps {
  readonly spec: ChartSpec;
  readonly frame: Frame;
}

function Drawing({ spec, frame }: DrawingProps) {
  return (
    <>
      <Axes frame={frame} />
      {/* Below the lines and at the old end, where it hides none of them. */}
      <Limit spec={spec} frame={frame} />
      {spec.lines.map((line) => (
        <g key={line.name} class={`tone-${line.colour}`}>
          {line.shape === "bar" ? (
            <Bars spec={spec} frame={frame} line={line} />
          ) : (
            <Line spec={spec} frame={frame} line={line} />
          )}
        </g>
      ))}
    </>
  );
}

function Axes({ frame: { left, right, time, axes } }: Pick<DrawingProps, "frame">) {
  const marks = timeMarks(time.from, time.to, (right - left) / TIME_SPACE);
  const isDaily = areDays(marks);
  const across = axes.left.marks.map(({ y }) => `M${left} ${y + 0.5}H${right}`);
  const down = marks.map((at) => `M${Math.round(time.x(at)) + 0.5} ${TOP}V${BOTTOM + 4}`);
  return (
    <>
      <path class="plot-grid" d={[...across, ...down].join("")} />
      <Values marks={axes.left.marks} x={left - MARK_GAP} anchor="end" />
      {axes.right && <Values marks={axes.right.marks} x={right + MARK_GAP} anchor="start" />}
      {marks.map((at) => (
        <text key={at} x={Math.round(time.x(at))} y={BOTTOM + 18} text-anchor="middle">
          {timeText(at, isDaily)}
        </text>
      ))}
    </>
  );
}

interface ValuesProps extends Pick<DrawnAxis, "marks"> {
  readonly x: number;
  readonly anchor: "start" | "end";
}

function Values({ marks, x, anchor }: ValuesProps) {
  return (
    <>
      {marks.map(({ y, text }) => (
        <text key={text} x={x} y={y + 4} text-anchor={anchor}>
          {text}
        </text>
      ))}
    </>
  );
}

function timeText(at: number, isDaily: boolean): string {
  const text = clockText(at);
  return isDaily || text === "00:00" ? dayText(at) : text;
}

interface LineProps extends DrawingProps {
  readonly line: ChartLine;
}

function Line({ spec: { steps }, frame, line }: LineProps) {
  const points = pointsOf(line, { steps, frame });
  const { whole, open } = splitPoints(steps, points);
  return (
    <>
      <path class="plot-line" d={linePath(whole)} />
      <path class="plot-line plot-open" d={linePath(open)} />
      <path class="plot-dots" d={dotPath(points)} />
    </>
  );
}

function Bars({ spec: { steps }, frame, line }: LineProps) {
  const bars = pointsOf(line, { steps, frame }).map((point, i) => {
    const step = steps[i];
    if (point === null || step === undefined) return null;
    const [left, right] = [frame.time.x(step.from), frame.time.x(step.to)];
    return { left, right, top: point[1], bottom: BOTTOM };
  });
  const those = (isWhole: boolean) =>
    barPath(bars.map((bar, i) => (steps[i]?.isWhole === isWhole ? bar : null)));
  return (
    <>
      <path class="plot-bar" d={those(true)} />
      <path class="plot-open" d={those(false)} />
    </>
  );
}

type Placed = Pick<ChartSpec, "steps"> & { readonly frame: Frame };

function pointsOf({ values, axis }: ChartLine, { steps, frame }: Placed): readonly Point[] {
  const { y } = frame.axes[axis] ?? frame.axes.left;
  return steps.map(({ from, to }, i) => {
    const value = values[i] ?? null;
    return value === null ? null : [frame.time.x((from + to) / 2), y(value)];
  });
}

function Limit({ spec: { limit }, frame: { left, right, axes } }: DrawingProps) {
  if (limit === null) return null;
  const y = Math.round(axes.left.y(limit.value));
  return (
    <g class="plot-limit">
      <path d={`M${left} ${y + 0.5}H${right}`} />
      <text x={left + 4} y={y - 4}>
        {limit.text}
      </text>
    </g>
  );
}

interface SelectedProps extends Pick<DrawingProps, "frame"> {
  readonly selection: Signal<Selection | null>;
}

function Selected({ selection, frame: { time } }: SelectedProps) {
  const chosen = selection.value;
  if (chosen === null) return null;
  const [from, to] = [time.x(chosen.from), time.x(chosen.to)];
  const width = Math.max(1, Math.abs(to - from));
  return (
    <rect
      class="plot-selection"
      x={Math.min(from, to)}
      y={TOP}
      width={width}
      height={BOTTOM - TOP}
    />
  );
}

function Crosshair({ spec: { steps, lines }, frame }: DrawingProps) {
  const pointed = pointedStep(steps);
  const step = steps[pointed ?? -1];
  if (pointed === null || step === undefined) return null;
  const x = Math.round(frame.time.x((step.from + step.to) / 2)) + 0.5;
  return (
    <>
      <path class="plot-crosshair" d={`M${x} ${TOP}V${BOTTOM}`} />
      {lines.map(({ name, colour, axis, values }) => {
        const value = values[pointed] ?? null;
        if (value === null) return null;
        const { y } = frame.axes[axis] ?? frame.axes.left;
        return <circle key={name} class={`plot-point tone-${colour}`} cx={x} cy={y(value)} r="4" />;
      })}
    </>
  );
}
