import type { DatabaseOverview } from "../../api/node.ts";
import { Badge } from "../part/badge.tsx";
import { Fact } from "../part/fact.tsx";
import { None, Panel } from "../part/panel.tsx";
import { bytesText, countOf, countText, durationText } from "../shell/format.ts";

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
