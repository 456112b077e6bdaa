import type { AuditEntry } from "../../api/audit.ts";
import { AUDIT_ACTION, AUDIT_ACTIONS } from "../../domain/audit/audit-entry.ts";
import { FilterField } from "../part/control.tsx";
import { Time } from "../part/figure.tsx";
import { List } from "../part/list.tsx";
import { Empty, None, Screen } from "../part/panel.tsx";
import { ALL_TIME, DAY, MONTH, RangeField, WEEK, rangeIn, sinceOf } from "../part/range.tsx";
import type { Column } from "../part/table.tsx";
import { call } from "../shell/api.ts";
import { useResource } from "../shell/resource.ts";
import { route, setQuery } from "../shell/route.ts";

const RANGES = { ranges: [DAY, WEEK, MONTH, ALL_TIME], standard: ALL_TIME };
const TIMING = { everyMs: 0, pollMs: 15_000 };

/** Important actions with their actors, for the operator, newest first. */
export function AuditScreen() {
  const { query } = route.value;
  const parsed = AUDIT_ACTION.parse(query.get("action"));
  const action = parsed.kind === "value" ? parsed.value : null;
  const range = rangeIn(RANGES.ranges, RANGES.standard);
  const page = {
    action: action ?? undefined,
    account: query.get("account") || undefined,
    cursor: query.get("cursor") ?? undefined,
  };
  const entries = useResource(
    JSON.stringify([page, range.value]),
    (load) =>
      call("GET /v1/operator/audit", { ...load, query: { ...page, since: sinceOf(range) } }),
    TIMING,
  );
  return (
    <Screen
      title="Audit"
      resource={entries}
      tools={
        <>
          <FilterField label="Account" name="account" resets={["cursor"]} />
          <ActionField action={action} />
          <RangeField {...RANGES} />
        </>
      }
    >
      {({ entries: all, next_cursor: next }) => (
        <List
          label="Entries"
          columns={COLUMNS}
          rows={all.map(toRow)}
          keyOf={({ id }) => id}
          next={next}
          empty={<Empty title="No matching entries in this period." />}
        >
          <p class="hint">Append-only; kept for 400 days, up to 1 million entries.</p>
        </List>
      )}
    </Screen>
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

interface Row extends AuditEntry {
  readonly id: string;
}

// Several entries may have the same time, but the entries of a page keep their order.
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
