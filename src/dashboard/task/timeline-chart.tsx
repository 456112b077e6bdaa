import { useState } from "preact/hooks";

import type { Timeline } from "../../api/timeline.ts";
import { Segments } from "../part/control.tsx";
import { Countdown, toneOf } from "../part/figure.tsx";
import { Panel } from "../part/panel.tsx";
import { now } from "../shell/clock.ts";
import { absoluteText, durationText } from "../shell/format.ts";
import {
  type Mark,
  type TimeView,
  type TimelinePart,
  type TimelineRow,
  leftOf,
  rowsOf,
  ticksOf,
  viewsOf,
} from "./timeline-row.ts";

interface TimelineChartProps {
  readonly timeline: Timeline;
  /** The key of the attempt with the cursor. */
  readonly current: string | null;
  readonly open: (attempt: string) => void;
}

const NAMES: readonly { readonly value: TimelinePart; readonly text: string }[] = [
  { value: "whole", text: "Whole" },
  { value: "run", text: "Run" },
  { value: "attempts", text: "Attempts" },
  { value: "attempt", text: "This attempt" },
];

// More would touch each other on a phone.
const TICKS_MAX = 7;

/** Everything from posted to delivered, on one scale of time. */
export function TimelineChart({ timeline, current, open }: TimelineChartProps) {
  const [wanted, setPart] = useState<TimelinePart>("whole");
  const rows = rowsOf(timeline, isOver(timeline) ? 0 : now.value);
  const views = viewsOf(rows, current);
  const part = views.has(wanted) ? wanted : "whole";
  const view = views.get(part);
  // A task that was refused has no history.
  const isMoment = rows.every(({ marks }) => marks.every(({ from, to }) => from === to));
  if (view === undefined || isMoment) return null;
  return (
    <Panel
      title="Timeline"
      tools={
        views.size > 1 && (
          <Segments
            label="Part of the timeline"
            options={NAMES.filter(({ value }) => views.has(value))}
            value={part}
            choose={setPart}
          />
        )
      }
    >
      <div class="timeline">
        {rows.map((row) => (
          <RowView key={row.name} row={row} view={view} current={current} open={open} />
        ))}
        <Axis view={view} isWhole={part === "whole"} />
      </div>
    </Panel>
  );
}

/** Nothing goes on any more, so it needs no clock. */
function isOver({ task, deliveries }: Timeline): boolean {
  const isOpen = task.state === "queued" || task.state === "running";
  return !isOpen && deliveries.every(({ state }) => state !== "scheduled" && state !== "in_flight");
}

interface RowViewProps {
  readonly row: TimelineRow;
  readonly view: TimeView;
  readonly current: string | null;
  readonly open: (attempt: string) => void;
}

function RowView({ row: { name, marks }, view, current, open }: RowViewProps) {
  const seen = marks.filter((mark) => mark.to >= view.from && mark.from <= view.to);
  return (
    <>
      <div class="hint timeline-row-name">{name}</div>
      <div class="rule-below timeline-row">
        {seen.map((mark) => (
          <MarkShape
            key={mark.key}
            mark={mark}
            view={view}
            open={open}
            isCurrent={mark.attempt === current && current !== null}
          />
        ))}
        {seen
          .filter(({ kind }) => kind !== "wait")
          .map((mark, i, labelled) => (
            <MarkLabel
              key={mark.key}
              mark={mark}
              view={view}
              until={labelled[i + 1]?.from ?? null}
            />
          ))}
      </div>
    </>
  );
}

interface MarkShapeProps {
  readonly mark: Mark;
  readonly view: TimeView;
  readonly isCurrent: boolean;
  readonly open: (attempt: string) => void;
}

function MarkShape({ mark, view, isCurrent, open }: MarkShapeProps) {
  const { kind, state, title, attempt, label } = mark;
  const left = Math.max(0, leftOf(mark.from, view));
  const width = Math.max(0, Math.min(100, leftOf(mark.to, view)) - left);
  const style = { left: `${left}%`, width: `${width}%` };
  const shape = `mark mark-${kind} tone-${toneOf(state)}`;
  if (attempt === null) {
    return (
      <div class={shape} style={style} title={title}>
        {kind === "wait" && width > WAIT_LABEL_PERCENT && (
          <span class="clipped small">{label}</span>
        )}
      </div>
    );
  }
  return (
    <button
      type="button"
      class={shape}
      style={style}
      title={title}
      aria-label={title}
      aria-pressed={isCurrent}
      onClick={() => open(attempt)}
    />
  );
}

// A narrower one has no room for its text.
const WAIT_LABEL_PERCENT = 14;
const LABEL_PERCENT = 5;

interface MarkLabelProps {
  readonly mark: Mark;
  readonly view: TimeView;
  /** The start of the next row; null without one. */
  readonly until: number | null;
}

function MarkLabel({ mark, view, until }: MarkLabelProps) {
  const left = Math.max(0, leftOf(mark.from, view));
  const right = until === null ? 100 : Math.min(100, leftOf(until, view));
  if (until !== null && right - left < LABEL_PERCENT) return null;
  // The last one takes the room it needs, on a phone too.
  const style =
    until === null
      ? { left: `min(${left}%, 100% - 104px)` }
      : { left: `${left}%`, width: `${right - left}%` };
  return (
    <div class="clipped mark-label" style={style} aria-hidden={mark.attempt !== null}>
      {mark.label}
      {mark.kind === "next" && (
        <>
          {" "}
          <Countdown at={new Date(mark.from).toISOString()} />
        </>
      )}
    </div>
  );
}

function Axis({ view, isWhole }: { readonly view: TimeView; readonly isWhole: boolean }) {
  const zero = absoluteText(view.zero);
  return (
    <>
      <div />
      <div class="axis" aria-hidden="true">
        {ticksOf(view, TICKS_MAX).map(({ left, afterMs }) => (
          <div key={afterMs} class="small number tick" style={{ left: `${left}%` }}>
            <span>{afterMs === 0 ? "0" : `+${durationText(afterMs)}`}</span>
          </div>
        ))}
      </div>
      <div />
      <p class="hint">{isWhole ? `0 is when it was posted, ${zero}.` : `0 is ${zero}.`}</p>
    </>
  );
}
