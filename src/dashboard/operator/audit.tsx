import type { AuditEntry } from "../../api/audit.ts";
import { AUDIT_ACTION, AUDIT_ACTIONS } from "../../domain/audit/audit-entry.ts";
import { DAY_MS } from "../../domain/clock/duration.ts";
import { FilterField, Segments } from "../part/control.tsx";
import { Time } from "../part/figure.tsx";
import { Empty, Loaded, None, ScreenHead } from "../part/panel.tsx";
import { type Column, Table } from "../part/table.tsx";
import { call } from "../shell/api.ts";
import { useResource } from "../shell/resource.ts";
import { route, setQuery } from "../shell/route.ts";
import { Pages } from "./pages.tsx";

const RANGES = [
  { value: "24h", text: "24 h", ms: DAY_MS },
  { value: "7d", text: "7 d", ms: 7 * DAY_MS },
  { value: "30d", text: "30 d", ms: 30 * DAY_MS },
  { value: "all", text: "All", ms: null },
] as const;

const ALL = RANGES[3];

const POLL_MS = 15_000;

/** Who did what of consequence, for the operator, newest first. */
export function AuditScreen() {
  const { query } = route.value;
  const parsed = AUDIT_ACTION.parse(query.get("action"));
  const action = parsed.kind === "value" ? parsed.value : null;
  const range = RANGES.find(({ value }) => value === query.get("range")) ?? ALL;
  const cursor = query.get("cursor");
  const account = query.get("account") ?? "";
  const entries = useResource(
    JSON.stringify([action, range.value, account, cursor]),
    (load) => {
      const since = range.ms === null ? null : new Date(Date.now() - range.ms).toISOString();
      const page = {
        action: action ?? undefined,
        account: account === "" ? undefined : account,
        cursor: cursor ?? undefined,
      };
      return call("GET /v1/operator/audit", {
        ...load,
        query: { ...page, since: since ?? undefined },
      });
    },
    { everyMs: 0, pollMs: POLL_MS },
  );
  return (
    <>
      <ScreenHead title="Audit">
        <FilterField label="Account" name="account" resets={["cursor"]} />
        <ActionField action={action} />
        <Segments
          label="Time"
          options={RANGES}
          value={range.value}
          choose={(value) => setQuery({ range: value === ALL.value ? null : value, cursor: null })}
        />
      </ScreenHead>
      <Loaded resource={entries}>
        {({ entries: page, next_cursor: next }) => <Entries entries={page} next={next} />}
      </Loaded>
    </>
  );
}

function ActionField({ action }: { readonly action: AuditEntry["action"] | null }) {
  return (
    <select
      class="filter-field"
      aria-label="Action"
      value={action ?? ""}
      onChange={({ currentTarget }) => setQuery({ action: currentTarget.value, cursor: null })}
    >
      <option value="">every action</option>
      {AUDIT_ACTIONS.map((each) => (
        <option key={each} value={each}>
          {each}
        </option>
      ))}
    </select>
  );
}

interface EntriesProps {
  readonly entries: readonly AuditEntry[];
  readonly next: string | null;
}

function Entries({ entries, next }: EntriesProps) {
  if (entries.length === 0) {
    return (
      <div class="panel">
        <Empty title="Nothing of this was done in that time." />
      </div>
    );
  }
  return (
    <section class="panel" aria-label="Entries">
      <Table label="Entries" columns={COLUMNS} rows={entries.map(toRow)} keyOf={({ id }) => id} />
      <Pages next={next}>
        <p class="hint">Kept for 400 days, the last million of them. Nothing changes an entry.</p>
      </Pages>
    </section>
  );
}

interface Row extends AuditEntry {
  readonly id: string;
}

// Several may have the same time, but those of one page stay in their places.
function toRow(entry: AuditEntry, index: number): Row {
  return { ...entry, id: `${entry.at} ${index}` };
}

const COLUMNS: readonly Column<Row>[] = [
  { name: "When", cell: ({ at }) => <Time at={at} /> },
  {
    name: "Who",
    wraps: true,
    cell: ({ actor: { kind, name } }) => (
      <>
        {kind} {name !== null && <bdi class="mono">{name}</bdi>}
      </>
    ),
  },
  {
    name: "From",
    title: "The client's address",
    isMinor: true,
    cell: ({ actor: { address } }) =>
      address === null ? <None /> : <span class="mono">{address}</span>,
  },
  { name: "Action", cell: ({ action }) => <b>{action}</b> },
  {
    name: "What",
    wraps: true,
    cell: ({ subject }) => (subject === null ? <None /> : <bdi class="mono">{subject}</bdi>),
  },
  { name: "Details", wraps: true, cell: ({ details }) => <Details details={details} /> },
];

function Details({ details }: Pick<AuditEntry, "details">) {
  const shown = Object.entries(details ?? {}).flatMap(([name, value]) =>
    value === null ? [] : [`${name}=${value}`],
  );
  return shown.length === 0 ? <None /> : <bdi>{shown.join(" ")}</bdi>;
}
