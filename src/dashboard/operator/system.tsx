import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

import type { DatabaseOverview } from "../../api/node.ts";
import type { System } from "../../api/operator.ts";
import { FilterField, Segments } from "../part/control.tsx";
import { Badge, Bar, Facts } from "../part/figure.tsx";
import { None, Panel, PointList, Screen } from "../part/panel.tsx";
import { type Column, Table } from "../part/table.tsx";
import {
  absoluteText,
  bytesText,
  countOf,
  countText,
  durationText,
  percentText,
} from "../shell/format.ts";
import { useRead } from "../shell/resource.ts";
import { route, setQuery } from "../shell/route.ts";

const TIMING = { everyMs: 5000, pollMs: 5000 };

/** The process, its database, its configuration and its log, for the operator. */
export function SystemScreen() {
  const resource = useRead("GET /v1/operator/system", {}, TIMING);
  return (
    <Screen title="System" resource={resource}>
      {(system) => (
        <>
          <ConditionPanel conditions={system.conditions} />
          <div class="columns">
            <Status system={system} />
            <Storage system={system} />
          </div>
          <LogPanel lines={system.log} />
          <SettingsPanel settings={system.settings} restartNeeds={system.restart_needs} />
        </>
      )}
    </Screen>
  );
}

interface SystemProps {
  readonly system: System;
}

const COMPONENTS: Readonly<Record<string, string>> = {
  api: "API",
  runners: "Runners",
  webhooks: "Webhooks",
};

function Status({ system }: SystemProps) {
  const { status, components } = system.status;
  return (
    <Panel title="Status" tools={<Badge state={status} />}>
      <Facts
        rows={[
          ...Object.entries(components).map(
            ([name, state]) => [COMPONENTS[name] ?? name, <Badge state={state} />] as const,
          ),
          ["URL", <code>{system.url}</code>],
          [
            "Version",
            noted(system.version, `Node ${system.node.replace("v", "")}, SQLite ${system.sqlite}`),
          ],
          ["Machine", noted(system.platform, `process ${system.pid}`)],
          ["Up for", noted(durationText(system.uptime_ms), `since ${timeText(system.started_at)}`)],
        ]}
      />
    </Panel>
  );
}

/** A value, and quieter text after it. */
function noted(value: ComponentChildren, note: ComponentChildren) {
  return (
    <>
      {value} <span class="hint">{note}</span>
    </>
  );
}

function timeText(at: string): string {
  return absoluteText(Date.parse(at));
}

function Storage({ system }: SystemProps) {
  const { database, disk, memory, backups, event_loop: loop } = system;
  const { bytes, wal_bytes: walBytes, data_bytes: dataBytes, path } = database;
  const data = bytesText(dataBytes);
  return (
    <Panel title="Storage and memory">
      <Facts
        rows={[
          bytes !== null && [
            "Database",
            noted(bytesText(bytes), `and ${bytesText(walBytes ?? 0)} in its WAL`),
          ],
          ["Data", bytes === null ? data : noted(data, "free space in the file is reused")],
          [bytes === null ? "Server" : "File", <code>{path}</code>],
          ["Disk", <Disk free={disk.free_bytes} total={disk.total_bytes} />],
          backups !== null && ["Backup", <Backup {...backups} />],
          [
            "Memory",
            noted(
              bytesText(memory.rss_bytes),
              `${bytesText(memory.heap_bytes)} of it JavaScript’s heap`,
            ),
          ],
          loop !== null && [
            "Delay",
            noted(
              `${loop.p99_delay_ms} ms (p99), ${loop.worst_delay_ms} ms at worst`,
              "event-loop delay, last minute",
            ),
          ],
        ]}
      />
    </Panel>
  );
}

function Backup({ newest, failure }: NonNullable<System["backups"]>) {
  return (
    <>
      {newest === null ? (
        <None text="none yet" />
      ) : (
        noted(timeText(newest.created_at), bytesText(newest.bytes))
      )}
      {failure !== null && (
        <p class="row pad wraps notice tone-warn">
          Failed at {timeText(failure.at)}: {failure.reason}
        </p>
      )}
    </>
  );
}

// Below this free share the database may soon have no room.
const FREE_SHARE_MIN = 0.1;

function Disk({ free, total }: { readonly free: number | null; readonly total: number | null }) {
  if (free === null || total === null || total === 0) return <None text="unknown" />;
  const share = free / total;
  const text = `${bytesText(free)} of ${bytesText(total)} free`;
  return (
    <span class="stack stack-tight">
      <span>
        {text} <span class="hint">{percentText(share)}</span>
      </span>
      <Bar share={1 - share} label={text} isBad={share < FREE_SHARE_MIN} />
    </span>
  );
}

/** The states that the operator should end, with how; nothing if none exist. */
function ConditionPanel({ conditions }: Pick<System, "conditions">) {
  if (conditions.length === 0) return null;
  const points = conditions.map(({ name, since, text, remedy }) => ({
    word: name,
    tone: "bad" as const,
    text: noted(`${text}: ${remedy}.`, `since ${timeText(since)}`),
  }));
  return <PointList title="Conditions" points={points} />;
}

/** How the server is that the nodes share. */
export function DatabasePanel({ database }: { readonly database: DatabaseOverview }) {
  const { warnings, connections, dead_rows: dead, commits_wait: commitsWait } = database;
  return (
    <Panel
      title="Database"
      note={`PostgreSQL ${database.version}`}
      tools={<Badge state={warnings.length === 0 ? "operational" : "warn"} />}
    >
      <Facts
        rows={[
          ...warnings.map((text) => ["Warning", text] as const),
          ["Size", bytesText(database.bytes)],
          ["Connections", `${countText(connections.used)} of ${countText(connections.max)}`],
          ["Oldest snapshot", <Snapshot held={database.oldest_snapshot} />],
          ["Standbys", <Standbys standbys={database.standbys} />],
          ["Replication", commitsWait ? "synchronous" : "asynchronous"],
          [
            "Dead rows",
            `${countText(dead.queue)} in the queue, ${countText(dead.outbox)} in the outbox`,
          ],
        ]}
      />
    </Panel>
  );
}

function Snapshot({ held }: { readonly held: DatabaseOverview["oldest_snapshot"] }) {
  if (held === null) return <None text="none" />;
  const age = held.age_ms === null ? "age unknown" : durationText(held.age_ms);
  return noted(
    age,
    <>
      and {countOf(held.transactions, "transaction")}, kept by the {held.holder}{" "}
      <bdi>{held.name}</bdi>
      {held.pid !== null && `, process ${held.pid}`}
    </>,
  );
}

function Standbys({ standbys }: Pick<DatabaseOverview, "standbys">) {
  if (standbys.length === 0) return <None text="none" />;
  return (
    <>
      {standbys.map((standby, place) => (
        <div key={place}>{noted(<bdi>{standby.name}</bdi>, standbyText(standby))}</div>
      ))}
    </>
  );
}

type Standby = DatabaseOverview["standbys"][number];

function standbyText({ state, sync_state: sync, lag_bytes: bytes, lag_ms: ms }: Standby): string {
  // A user who is not a monitor sees only the name.
  if (state === null && bytes === null) return "no permission to see more (needs pg_monitor)";
  const lag = bytes === null ? [] : [`${bytesText(bytes)} behind`];
  const took = ms === null ? [] : [`replays within ${durationText(ms)}`];
  return [state, sync, ...lag, ...took].filter((part) => part !== null).join(", ");
}

type Setting = System["settings"][number];

interface SettingsProps {
  readonly settings: readonly Setting[];
  /** Names of what was changed since the start and takes a restart. */
  readonly restartNeeds: readonly string[];
}

/** The configuration in force, with the source of each value. Values that the operator set come first. */
function SettingsPanel({ settings, restartNeeds }: SettingsProps) {
  const part = (route.value.query.get("q") ?? "").trim().toLowerCase();
  const found = settings.filter(({ key, value, source }) =>
    `${key} ${value ?? ""} ${source}`.toLowerCase().includes(part),
  );
  const rows = found.toSorted((a, b) => Number(a.is_default) - Number(b.is_default));
  const setCount = settings.filter(({ is_default: isDefault }) => !isDefault).length;
  return (
    <Panel
      title="Settings"
      note={`${countText(setCount)} of ${countText(settings.length)} set`}
      tools={<FilterField label="Part of a setting" />}
    >
      {restartNeeds.length > 0 && (
        <div class="panel-body">
          <p class="row pad wraps notice tone-warn">
            Pending changes of the configuration; restart to apply them:{" "}
            <code>{restartNeeds.join(", ")}</code>
          </p>
        </div>
      )}
      {rows.length === 0 ? (
        <p class="panel-body hint">No setting contains “{part}”.</p>
      ) : (
        <Table
          label="Settings"
          columns={COLUMNS}
          rows={rows}
          keyOf={({ key }) => key}
          rowAttributes={({ is_default: isDefault }) => ({ "data-marked": !isDefault })}
        />
      )}
    </Panel>
  );
}

const COLUMNS: readonly Column<Setting>[] = [
  { name: "Key", cell: ({ key }) => <code>{key}</code> },
  {
    name: "Value",
    wraps: true,
    cell: ({ value }) => (value === null ? <None /> : <code>{value}</code>),
  },
  {
    name: "Source",
    cell: ({ source, is_default: isDefault }) => (
      <span class={isDefault ? "clipped none" : "clipped"} title={source}>
        {source}
      </span>
    ),
  },
];

type Line = System["log"][number];

const LEVELS = [
  { value: "info", text: "All" },
  { value: "warn", text: "Warnings" },
  { value: "error", text: "Errors" },
] as const;

type Level = (typeof LEVELS)[number]["value"];

const RANKS: Readonly<Record<string, number>> = { info: 0, warn: 1, error: 2 };

/** The daemon's last log lines, the newest last. It follows the end unless the reader has scrolled up. */
function LogPanel({ lines }: { readonly lines: readonly Line[] }) {
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
      class="hint scroll"
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
      <time class="none number" dateTime={time} title={`${absoluteText(at)} (${time})`}>
        {clock}
      </time>
      {level === "info" ? <None text="info" /> : <Badge state={level} />}
      <span class="wraps log-text">
        {message} {facts !== "" && <span class="none">{facts}</span>}
      </span>
    </p>
  );
}
