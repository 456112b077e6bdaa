import type { DatabaseOverview } from "../../api/node.ts";
import type { System } from "../../api/operator.ts";
import { Badge, Bar, Fact } from "../part/figure.tsx";
import { Loaded, None, Panel, ScreenHead } from "../part/panel.tsx";
import { call } from "../shell/api.ts";
import {
  absoluteText,
  bytesText,
  countOf,
  countText,
  durationText,
  percentText,
} from "../shell/format.ts";
import { useResource } from "../shell/resource.ts";
import { LogPanel } from "./log-panel.tsx";
import { SettingsPanel } from "./settings-panel.tsx";

const POLL_MS = 5000;

/** The process, its database, its configuration and its log, for the operator. */
export function SystemScreen() {
  const system = useResource("system", (load) => call("GET /v1/operator/system", load), {
    everyMs: POLL_MS,
    pollMs: POLL_MS,
  });
  return (
    <>
      <ScreenHead title="System" />
      <Loaded resource={system}>
        {(facts) => (
          <div class="stack">
            <ConditionPanel conditions={facts.conditions} />
            <div class="columns">
              <Status facts={facts} />
              <Storage facts={facts} />
            </div>
            <LogPanel lines={facts.log} />
            <SettingsPanel settings={facts.settings} restartNeeds={facts.restart_needs} />
          </div>
        )}
      </Loaded>
    </>
  );
}

interface FactsProps {
  readonly facts: System;
}

const COMPONENTS: Readonly<Record<string, string>> = {
  api: "API",
  runners: "Runners",
  webhooks: "Webhooks",
};

function Status({ facts }: FactsProps) {
  const { status, components } = facts.status;
  return (
    <Panel title="Status" tools={<Badge state={status} />}>
      <dl class="facts panel-body">
        {Object.entries(components).map(([name, state]) => (
          <Fact key={name} name={COMPONENTS[name] ?? name}>
            <Badge state={state} />
          </Fact>
        ))}
        <Fact name="URL">
          <code>{facts.url}</code>
        </Fact>
        <Fact name="Version">
          {facts.version}{" "}
          <span class="hint">
            Node {facts.node.replace("v", "")}, SQLite {facts.sqlite}
          </span>
        </Fact>
        <Fact name="Machine">
          {facts.platform} <span class="hint">process {facts.pid}</span>
        </Fact>
        <Fact name="Up for">
          {durationText(facts.uptime_ms)}{" "}
          <span class="hint">since {absoluteText(Date.parse(facts.started_at))}</span>
        </Fact>
      </dl>
    </Panel>
  );
}

function Storage({ facts: { database, disk, memory, backups, event_loop: loop } }: FactsProps) {
  return (
    <Panel title="Storage and memory">
      <dl class="facts panel-body">
        {database.bytes !== null && (
          <Fact name="Database">
            {bytesText(database.bytes)}{" "}
            <span class="hint">and {bytesText(database.wal_bytes ?? 0)} in its WAL</span>
          </Fact>
        )}
        <Fact name="Data">
          {bytesText(database.data_bytes)}{" "}
          {database.bytes !== null && <span class="hint">the rest is room that is used again</span>}
        </Fact>
        <Fact name={database.bytes === null ? "Server" : "File"}>
          <code>{database.path}</code>
        </Fact>
        <Fact name="Disk">
          <Disk free={disk.free_bytes} total={disk.total_bytes} />
        </Fact>
        {backups !== null && (
          <Fact name="Backup">
            <Backup {...backups} />
          </Fact>
        )}
        <Fact name="Memory">
          {bytesText(memory.rss_bytes)}{" "}
          <span class="hint">{bytesText(memory.heap_bytes)} of it JavaScript’s heap</span>
        </Fact>
        {loop !== null && (
          <Fact name="Delay">
            {loop.p99_delay_ms} ms (p99), {loop.worst_delay_ms} ms at worst{" "}
            <span class="hint">before the process gets to anything, in the last minute</span>
          </Fact>
        )}
      </dl>
    </Panel>
  );
}

function Backup({ newest, failure }: NonNullable<System["backups"]>) {
  return (
    <>
      {newest === null ? (
        <None text="none yet" />
      ) : (
        <>
          {absoluteText(Date.parse(newest.created_at))}{" "}
          <span class="hint">{bytesText(newest.bytes)}</span>
        </>
      )}
      {failure !== null && (
        <p class="notice notice-warning">
          Failed at {absoluteText(Date.parse(failure.at))}: {failure.reason}
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
    <span class="disk">
      <span>
        {text} <span class="hint">{percentText(share)}</span>
      </span>
      <Bar share={1 - share} label={text} isBad={share < FREE_SHARE_MIN} />
    </span>
  );
}

/** The states that the operator should end, with how; nothing where there are none. */
export function ConditionPanel({ conditions }: Pick<System, "conditions">) {
  if (conditions.length === 0) return null;
  return (
    <section class="panel attention" aria-labelledby="conditions-title">
      <div class="panel-head">
        <h2 id="conditions-title">Conditions</h2>
      </div>
      <ul>
        {conditions.map(({ name, subject, since, text, remedy }) => (
          <li key={`${name} ${subject ?? ""}`}>
            <span class="badge badge-bad">{name}</span>
            <p>
              {text}: {remedy}. <span class="hint">since {absoluteText(Date.parse(since))}</span>
            </p>
          </li>
        ))}
      </ul>
    </section>
  );
}

interface DatabaseProps {
  readonly database: DatabaseOverview;
}

/** How the server is that the nodes share. */
export function DatabasePanel({ database }: DatabaseProps) {
  const { warnings, connections, dead_rows: dead, commits_wait: commitsWait } = database;
  return (
    <Panel
      title="Database"
      note={`PostgreSQL ${database.version}`}
      tools={<Badge state={warnings.length === 0 ? "operational" : "warn"} />}
    >
      <dl class="facts panel-body">
        {warnings.map((text) => (
          <Fact key={text} name="Warning">
            {text}
          </Fact>
        ))}
        <Fact name="Size">{bytesText(database.bytes)}</Fact>
        <Fact name="Connections">
          {countText(connections.used)} of {countText(connections.max)}
        </Fact>
        <Fact name="Oldest snapshot">
          <Snapshot held={database.oldest_snapshot} />
        </Fact>
        <Fact name="Standbys">
          <Standbys database={database} />
        </Fact>
        <Fact name="Commits">{commitsWait ? "wait for a standby" : "wait for no standby"}</Fact>
        <Fact name="Dead rows">
          {countText(dead.queue)} in the queue, {countText(dead.outbox)} in the outbox
        </Fact>
      </dl>
    </Panel>
  );
}

function Snapshot({ held }: { readonly held: DatabaseOverview["oldest_snapshot"] }) {
  if (held === null) return <None text="none" />;
  const age = held.age_ms === null ? "age unknown" : durationText(held.age_ms);
  return (
    <>
      {age}{" "}
      <span class="hint">
        and {countOf(held.transactions, "transaction")}, kept by the {held.holder}{" "}
        <bdi>{held.name}</bdi>
        {held.pid !== null && `, process ${held.pid}`}
      </span>
    </>
  );
}

function Standbys({ database: { standbys } }: DatabaseProps) {
  if (standbys.length === 0) return <None text="none" />;
  return (
    <>
      {standbys.map((standby, place) => (
        <div key={place}>
          <bdi>{standby.name}</bdi> <span class="hint">{standbyText(standby)}</span>
        </div>
      ))}
    </>
  );
}

type Standby = DatabaseOverview["standbys"][number];

function standbyText({ state, sync_state: sync, lag_bytes: bytes, lag_ms: ms }: Standby): string {
  // A user who is no monitor is told the name alone.
  if (state === null && bytes === null) return "more may not be seen";
  const lag = bytes === null ? [] : [`${bytesText(bytes)} behind`];
  const took = ms === null ? [] : [`replays within ${durationText(ms)}`];
  return [state, sync, ...lag, ...took].filter((part) => part !== null).join(", ");
}
