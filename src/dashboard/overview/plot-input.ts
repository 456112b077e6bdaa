import { signal, useSignal, type Signal } from "@preact/signals";

import {
  type ChartSpec,
  type ChartStep,
  clamp,
  newestStep,
  stepAt,
  type timeScale,
} from "./plot-scale.ts";

/** Handles the pointers and the keys of a chart: they mark a step in all charts, and choose a span to zoom to. */

export interface PlotInputParts {
  readonly steps: ChartSpec["steps"];
  readonly time: ReturnType<typeof timeScale>;
  /** Called when a span was chosen, in milliseconds since the epoch. */
  readonly zoom: (from: number, to: number) => void;
  readonly unzoom: () => void;
  /** Reads a step to people who do not see the drawing. */
  readonly say: (step: number) => void;
}

/** A span of time that is being chosen, in milliseconds since the epoch; it began at `from`. */
export interface Selection {
  readonly from: number;
  readonly to: number;
}

export const PLOT_KEYS =
  "Arrow keys, Home and End read it. Press Enter at two places to zoom between them, plus to zoom in, minus or Escape to zoom out.";

/** The pointed time, in all charts; null: none. */
const pointedAt = signal<number | null>(null);

/** The pointed step; null: none. A component that asks while drawing is drawn again when it changes. */
export function pointedStep(steps: readonly ChartStep[]): number | null {
  const at = pointedAt.value;
  const step = at === null ? -1 : stepAt(steps, at);
  return step === -1 ? null : step;
}

export function pointAway(): void {
  pointedAt.value = null;
}

/** The handlers of a chart, and the span that they are choosing. */
export function usePlotInput(parts: PlotInputParts) {
  const selection = useSignal<Selection | null>(null);
  return { selection, ...pointerHandlers(parts, selection), ...keyHandlers(parts, selection) };
}

// A narrower drag was a click.
const DRAG_PIXELS_MIN = 6;

type PlotPointerEvent = PointerEvent & { readonly currentTarget: SVGSVGElement };
type Chosen = Signal<Selection | null>;

function pointerHandlers({ time, zoom, unzoom }: PlotInputParts, selection: Chosen) {
  const timeOf = ({ clientX, currentTarget }: PlotPointerEvent) =>
    time.at(clientX - currentTarget.getBoundingClientRect().left);
  return {
    onPointerDown(event: PlotPointerEvent) {
      const at = timeOf(event);
      pointedAt.value = at;
      if (event.button !== 0) return;
      event.currentTarget.setPointerCapture(event.pointerId);
      selection.value = { from: at, to: at };
    },
    onPointerMove(event: PlotPointerEvent) {
      const at = timeOf(event);
      pointedAt.value = at;
      if (selection.value !== null && event.currentTarget.hasPointerCapture(event.pointerId)) {
        selection.value = { ...selection.value, to: at };
      }
    },
    onPointerUp() {
      const chosen = selection.value;
      selection.value = null;
      if (chosen === null) return;
      const [from, to] = inOrder(chosen);
      if (time.x(to) - time.x(from) >= DRAG_PIXELS_MIN) zoom(from, to);
    },
    // A finger that turned out to scroll.
    onPointerCancel() {
      selection.value = null;
    },
    // The point under a finger stays when the finger is lifted.
    onPointerLeave({ pointerType }: PlotPointerEvent) {
      if (pointerType === "mouse") pointAway();
    },
    onDblClick: unzoom,
  };
}

const STRIDE = 10;

function keyHandlers(parts: PlotInputParts, selection: Chosen) {
  const actions = keyActions(parts, selection);
  return {
    onKeyDown(event: KeyboardEvent) {
      const { key, ctrlKey, metaKey, altKey, shiftKey } = event;
      const act = actions.get(key);
      if (act === undefined || ctrlKey || metaKey || altKey) return;
      event.preventDefault();
      act(shiftKey ? STRIDE : 1);
    },
    onBlur() {
      selection.value = null;
    },
  };
}

/** The function of each key, called with the number of steps that an arrow goes. */
function keyActions(parts: PlotInputParts, selection: Chosen) {
  const { steps, unzoom } = parts;
  const here = () => pointedStep(steps) ?? newestStep(steps);
  const moveTo = (index: number) => pointTo(index, parts, selection);
  // Before anything is pointed at, the first key shows the newest step: that is where the reader begins.
  const moveBy = (count: number) => moveTo(here() + (pointedAt.value === null ? 0 : count));
  function leave(): void {
    const isChoosing = selection.value !== null;
    selection.value = null;
    if (isChoosing) return;
    pointAway();
    unzoom();
  }
  return new Map<string, (stride: number) => void>([
    ["ArrowLeft", (stride) => moveBy(-stride)],
    ["ArrowRight", (stride) => moveBy(stride)],
    ["Home", () => moveTo(0)],
    ["End", () => moveTo(steps.length - 1)],
    ["Enter", () => choose(here(), parts, selection)],
    ["+", () => zoomIn(parts)],
    ["=", () => zoomIn(parts)],
    ["-", unzoom],
    ["Escape", leave],
  ]);
}

function pointTo(wanted: number, { steps, say }: PlotInputParts, selection: Chosen): void {
  const index = clamp(wanted, 0, steps.length - 1);
  const step = steps[index];
  if (step === undefined) return;
  pointedAt.value = step.from;
  const begun = selection.value;
  if (begun !== null) selection.value = { from: begun.from, to: step.from };
  say(index);
}

// Starts a span at a step, or ends it there; the span includes both steps entirely.
function choose(index: number, { steps, zoom }: PlotInputParts, selection: Chosen): void {
  const step = steps[index];
  if (step === undefined) return;
  const begun = selection.value;
  if (begun === null) {
    pointedAt.value = step.from;
    selection.value = { from: step.from, to: step.from };
    return;
  }
  selection.value = null;
  const [from, to] = inOrder(begun);
  zoom(from, to + step.to - step.from);
}

function zoomIn({ time, zoom }: PlotInputParts): void {
  const quarter = (time.to - time.from) / 4;
  const middle = clamp(pointedAt.value ?? time.to, time.from + quarter, time.to - quarter);
  zoom(middle - quarter, middle + quarter);
}

function inOrder({ from, to }: Selection): readonly [number, number] {
  return from < to ? [from, to] : [to, from];
}
