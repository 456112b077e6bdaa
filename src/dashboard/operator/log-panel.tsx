import { useEffect, useRef } from "preact/hooks";

import type { System } from "../../api/operator.ts";
import { Segments } from "../part/control.tsx";
import { Badge } from "../part/figure.tsx";
import { None, Panel } from "../part/panel.tsx";
import { absoluteText } from "../shell/format.ts";
import { route, setQuery } from "../shell/route.ts";

type Line = System["log"][number];

const LEVELS = [
  { value: "info", text: "All" },
  { value: "warn", text: "Warnings" },
  { value: "error", text: "Errors" },
] as const;

type Level = (typeof LEVELS)[number]["value"];

const RANKS: Readonly<Record<string, number>> = { info: 0, warn: 1, error: 2 };

/** The daemon's last log lines, the newest last. It follows the end unless the reader has scrolled up. */
export function LogPanel({ lines }: { readonly lines: readonly Line[] }) {
  const asked = route.value.query.get("log");
  const level: Level = LEVELS.find(({ value }) => value === asked)?.value ?? "info";
  const shown = lines.filter((line) => rankOf(line.level) >= rankOf(level));
  return (
    <Panel
      title="Recent log"
      tools={
        <Segments
          label="Level"
          options={LEVELS}
          value={level}
          choose={(value) => setQuery({ log: value === "info" ? null : value }, { replaces: true })}
        />
      }
    >
      {shown.length === 0 ? (
        <p class="panel-body hint">
          {lines.length === 0
            ? "Nothing has been logged yet."
            : "Nothing has been logged at this level."}
        </p>
      ) : (
        <Lines key={level} lines={shown} />
      )}
    </Panel>
  );
}

function rankOf(level: string): number {
  return RANKS[level] ?? 0;
}

// Half a line: a browser's scroll positions are not whole numbers.
const END_PX = 12;

function Lines({ lines }: { readonly lines: readonly Line[] }) {
  const box = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const newest = lines.at(-1);
  useEffect(() => {
    const element = box.current;
    if (element !== null && isAtEnd.current) element.scrollTop = element.scrollHeight;
  }, [newest?.time, newest?.message, lines.length]);
  return (
    <div
      ref={box}
      class="log"
      role="log"
      aria-label="Recent log"
      aria-live="off"
      tabIndex={0}
      onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
        isAtEnd.current = scrollHeight - scrollTop - clientHeight < END_PX;
      }}
    >
      {lines.map((line, i) => (
        <LogLine key={`${line.time} ${i - lines.length}`} line={line} />
      ))}
    </div>
  );
}

function LogLine({ line: { time, level, message, facts } }: { readonly line: Line }) {
  const at = Date.parse(time);
  const clock = new Date(at).toLocaleTimeString("en-GB");
  return (
    <p class="log-line">
      <time dateTime={time} title={`${absoluteText(at)} (${time})`}>
        {clock}
      </time>
      {level === "info" ? <None text="info" /> : <Badge state={level} />}
      <span class="log-text">
        {message} {facts !== "" && <span class="none">{facts}</span>}
      </span>
    </p>
  );
}
