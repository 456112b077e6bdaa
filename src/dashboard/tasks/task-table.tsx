import type { FoundDelivery, FoundTask } from "../../api/search.ts";
import { ATTEMPTS_COUNTED_MAX } from "../../domain/webhook/delivery.ts";
import { CopyButton } from "../part/control.tsx";
import { Badge, Countdown, Ready, Time, shownState } from "../part/figure.tsx";
import { Clipped, None } from "../part/panel.tsx";
import { type FittedColumn, FittedTable } from "../part/table.tsx";
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

/** A table of tasks, one per row. */
export function TaskTable(props: TaskTableProps) {
  const { rows, selection, hasAccounts } = props;
  const isWhole = rows.every(({ id }) => selection.has(id));
  return (
    <FittedTable label="Tasks" class="task-table" columns={columnsFor(hasAccounts)}>
      <thead>
        <tr>
          <th scope="col" class="pick">
            <input
              type="checkbox"
              aria-label="Select all tasks of this page"
              checked={isWhole}
              onChange={() => selection.setAll(!isWhole)}
            />
          </th>
          <th scope="col">State</th>
          <th scope="col">Task</th>
          <th scope="col">Tag</th>
          <th scope="col">Webhooks</th>
          <th scope="col">Type</th>
          {hasAccounts && <th scope="col">Account</th>}
          <th scope="col">Created</th>
          <th scope="col" class="number">
            Run
          </th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <Row key={row.id} row={row} {...props} />
        ))}
      </tbody>
    </FittedTable>
  );
}

const FIXED = ["", "State", "Task", "Tag", "Webhooks"].map((name) => ({ name, isFixed: true }));

function columnsFor(hasAccounts: boolean): readonly FittedColumn[] {
  const account = hasAccounts ? [{ name: "Account" }] : [];
  return [
    ...FIXED,
    { name: "Type", isMinor: true },
    ...account,
    { name: "Created" },
    { name: "Run", isMinor: true },
  ];
}

function Row({
  row,
  gone,
  current,
  moveTo,
  selection,
  hasAccounts,
}: TaskTableProps & { row: FoundTask }) {
  const { id, state, type, tag, login } = row;
  const isGone = gone.has(id);
  return (
    <tr
      aria-current={id === current ? "true" : undefined}
      class={isGone ? "is-gone" : undefined}
      title={isGone ? "The search no longer finds this task." : undefined}
      onClick={() => moveTo(id)}
    >
      <td class="pick">
        <input
          type="checkbox"
          aria-label={`Select task ${id}`}
          checked={selection.has(id)}
          onClick={(event) => {
            if (event.shiftKey) selection.extend(id);
            else selection.toggle(id);
          }}
        />
      </td>
      <StateCell row={row} />
      <td class="task-id">
        <a class="mono" href={hrefOf(`/tasks/${encodeURIComponent(id)}`)} title={id}>
          {shortId(id)}
        </a>
        <CopyButton text={id} what="id" />
      </td>
      <td class="of-tag">{tag === null ? <None /> : <Clipped text={tag} />}</td>
      <td class="of-webhooks">
        <Webhooks row={row} />
      </td>
      <td class="less">{type === null ? <None /> : <Clipped text={type} />}</td>
      {hasAccounts && (
        <td class="less">
          <Clipped text={login} />
        </td>
      )}
      <td class="of-time">
        <Time at={row.created_at} />
      </td>
      <td class="number less">
        {state === "queued" && row.start_at !== null ? <Time at={row.start_at} /> : runText(row)}
      </td>
    </tr>
  );
}

function StateCell({
  row: { state, status_message: message, ready },
}: {
  readonly row: FoundTask;
}) {
  return (
    <td class="of-state">
      <Badge state={state} title={message} />
      {ready && <Ready />}
    </td>
  );
}

/** The beginning and the end of an id: ids that were made one after the other begin alike. */
export function shortId(id: string): string {
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
        <li key={each.kind}>
          <Badge state={shownState(each, hasFailed(each))} />
          <span>{each.kind}</span>
          <bdi class="clipped webhook-host" title={each.host}>
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
