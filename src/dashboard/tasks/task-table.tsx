import type { FoundDelivery, FoundTask } from "../../api/search.ts";
import { ATTEMPTS_COUNTED_MAX } from "../../domain/webhook/delivery.ts";
import { CopyButton } from "../part/control.tsx";
import { Badge, Countdown, Ready, Time, shownState } from "../part/figure.tsx";
import { Clipped, None } from "../part/panel.tsx";
import { type Column, Table } from "../part/table.tsx";
import { now } from "../shell/clock.ts";
import { durationText } from "../shell/format.ts";
import { hrefOf } from "../shell/route.ts";
import type { Selection } from "./task-list.ts";

interface TaskTableProps {
  readonly rows: readonly FoundTask[];
  /** Tasks that the search no longer finds. */
  readonly gone: ReadonlySet<string>;
  readonly current: string | null;
  readonly moveTo: (id: string) => void;
  readonly selection: Selection;
  /** Whether rows belong to several accounts. */
  readonly hasAccounts: boolean;
}

export function TaskTable({ gone, moveTo, selection, hasAccounts, ...table }: TaskTableProps) {
  return (
    <Table
      label="Tasks"
      look="task-table"
      columns={[pick(selection, table.rows), ...columnsFor(hasAccounts)]}
      keyOf={({ id }) => id}
      rowAttributes={({ id }) => ({
        onClick: () => moveTo(id),
        ...(gone.has(id) && {
          class: "is-gone",
          title: "The search no longer finds this task.",
        }),
      })}
      {...table}
    />
  );
}

function pick(selection: Selection, rows: readonly FoundTask[]): Column<FoundTask> {
  const isWhole = rows.every(({ id }) => selection.has(id));
  return {
    name: "",
    look: "pick",
    head: (
      <input
        type="checkbox"
        aria-label="Select all tasks of this page"
        checked={isWhole}
        onChange={() => selection.setAll(!isWhole)}
      />
    ),
    cell: ({ id }) => (
      <input
        type="checkbox"
        aria-label={`Select task ${id}`}
        checked={selection.has(id)}
        onClick={(event) => {
          if (event.shiftKey) selection.extend(id);
          else selection.toggle(id);
        }}
      />
    ),
  };
}

function columnsFor(hasAccounts: boolean): readonly Column<FoundTask>[] {
  return hasAccounts ? COLUMNS : COLUMNS.filter(({ name }) => name !== "Account");
}

const COLUMNS: readonly Column<FoundTask>[] = [
  {
    name: "State",
    isFixed: true,
    cell: ({ state, status_message: message, ready }) => (
      <>
        <Badge state={state} title={message} />
        {ready && <Ready />}
      </>
    ),
  },
  {
    name: "Task",
    isFixed: true,
    look: "task-id",
    cell: ({ id }) => (
      <>
        <a class="mono" href={hrefOf(`/tasks/${encodeURIComponent(id)}`)} title={id}>
          {shortId(id)}
        </a>
        <CopyButton text={id} what="id" />
      </>
    ),
  },
  { name: "Tag", isFixed: true, look: "of-tag", cell: ({ tag }) => textOrNone(tag) },
  {
    name: "Webhooks",
    isFixed: true,
    look: "of-webhooks",
    cell: (row) => <Webhooks row={row} />,
  },
  { name: "Type", isMinor: true, look: "less", cell: ({ type }) => textOrNone(type) },
  { name: "Account", look: "less", cell: ({ login }) => <Clipped text={login} /> },
  { name: "Created", look: "of-time", cell: (row) => <Time at={row.created_at} /> },
  {
    name: "Run",
    isMinor: true,
    isNumber: true,
    look: "less",
    cell: (row) =>
      row.state === "queued" && row.start_at !== null ? <Time at={row.start_at} /> : runText(row),
  },
];

function textOrNone(text: string | null) {
  return text === null ? <None /> : <Clipped text={text} />;
}

/** The beginning and the end of an id: ids that were made one after the other begin alike. */
function shortId(id: string): string {
  return id.length <= 16 ? id : `${id.slice(0, 4)}…${id.slice(-8)}`;
}

function runText({ state, started_at: start, completed_at: end, progress }: FoundTask): string {
  if (start === null) return "–";
  if (end !== null) return durationText(Date.parse(end) - Date.parse(start));
  if (state !== "running") return "–";
  if (progress !== null) return `${Math.floor(progress.progress * 100)} %`;
  return durationText(Math.max(0, now.value - Date.parse(start)));
}

function Webhooks({ row: { state, deliveries } }: { readonly row: FoundTask }) {
  if (deliveries.length === 0) return <span class="none">none</span>;
  // A cancelled task sends nothing.
  if (state === "cancelled") return <span class="none">not sent</span>;
  return (
    <ul class="webhooks">
      {deliveries.map((each) => (
        <li key={each.kind} class="line">
          <Badge state={shownState(each, hasFailed(each))} />
          <span>{each.kind}</span>
          <bdi class="clipped" title={each.host}>
            {each.host}
          </bdi>
          <Last delivery={each} />
          {each.next_attempt_at !== null && !each.is_paused && each.state === "scheduled" && (
            <Countdown at={each.next_attempt_at} />
          )}
        </li>
      ))}
    </ul>
  );
}

function hasFailed({ last }: FoundDelivery): boolean {
  return last !== null && last.outcome !== "delivered";
}

function Last({ delivery: { attempts, last } }: { readonly delivery: FoundDelivery }) {
  if (last === null) return null;
  const how = last.http_status === null ? (last.error ?? last.outcome) : String(last.http_status);
  const counted = `${attempts}${attempts < ATTEMPTS_COUNTED_MAX ? "" : "+"}`;
  return (
    <span class="none" title={`Attempts: ${counted}, the last one: ${how}`}>
      <span class="clipped webhook-last">{how}</span>
      {attempts > 1 && ` ×${counted}`}
    </span>
  );
}
