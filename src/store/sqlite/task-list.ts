import type { TaskCursor, TaskPage, TaskQuery } from "../store.ts";
import type { Connection } from "./connection.ts";
import { SUMMARY_COLUMNS, toSummary, type SummaryRow } from "./tasks.ts";

/** How a list may be narrowed by state. Clients' `queued` is two states of the table. */
type StateFilter = "any" | "queued" | "one";

/** Which filters a list has: one statement each. */
interface ListFilters {
  readonly state: StateFilter;
  readonly type: boolean;
  readonly tag: boolean;
}

// What one page may carry to the main thread; a page that would be larger ends earlier. A refused task keeps what
// was posted, up to the size of a request: a thousand of them would be a gigabyte in one answer.
const PAGE_BYTES_MAX = 4 * 1024 * 1024;

const QUEUED_STATES = ["queued", "delayed"];
const ALL_STATES = [...QUEUED_STATES, "running", "completed", "failed", "cancelled"];

const STATE_FILTER = {
  any: "",
  queued: `AND t.state IN ('queued', 'delayed')`,
  one: "AND t.state = @state",
} as const satisfies Record<StateFilter, string>;

/**
 * One statement per combination of filters, by {@link nameOf}. Each names its index, so that a page begins by a
 * seek and is read in order; a time that is not limited and a first page have bounds that exclude nothing.
 */
export const LIST_TASKS_BY: Readonly<Record<string, string>> = Object.fromEntries(
  (["any", "queued", "one"] as const).flatMap((state) =>
    [false, true].flatMap((type) =>
      [false, true].map((tag) => [nameOf({ state, type, tag }), listTasks({ state, type, tag })]),
    ),
  ),
);

function nameOf({ state, type, tag }: ListFilters): string {
  return [`state_${state}`, ...(type ? ["type"] : []), ...(tag ? ["tag"] : [])].join("_");
}

function listTasks(filters: ListFilters): string {
  return `
    ${rangesOf(filters)
      .map((state) => selectRange(state, filters))
      .join(" UNION ALL ")}
    ORDER BY created_at DESC, seq DESC
    LIMIT @limit`;
}

// Where tasks_by_state is read for several states, each is a range of it, and SQLite merges them as it reads; one
// range over all of them would be sorted. So a list of all tasks needs no index of its own, which every
// insert would pay for.
function rangesOf(filters: ListFilters): readonly string[] {
  const { state } = filters;
  if (indexOf(filters) !== "tasks_by_state" || state === "one") return [STATE_FILTER[state]];
  const states = state === "queued" ? QUEUED_STATES : ALL_STATES;
  return states.map((each) => `AND t.state = '${each}'`);
}

// COLLATE BINARY changes no comparison of numbers; without it SQLite seeks by created_at alone and reads past all
// the rows of that time (the rowid has no collation of its own, so it is left out of the range).
function selectRange(stateFilter: string, filters: ListFilters): string {
  return `
    SELECT ${SUMMARY_COLUMNS}, t.seq
    FROM tasks AS t INDEXED BY ${indexOf(filters)}
    WHERE t.account_seq = @accountId ${stateFilter}
      ${filters.type ? "AND t.type = @type" : ""}
      ${filters.tag ? "AND t.tag IS NOT NULL AND t.tag = @tag" : ""}
      AND t.created_at >= @createdAfter AND (t.created_at, t.seq) < (@beforeTime, @beforeSeq COLLATE BINARY)`;
}

// A tag is nearly always the narrowest filter, then a state.
function indexOf({ state, type, tag }: ListFilters): string {
  if (tag) return "tasks_by_tag";
  return state === "any" && type ? "tasks_by_type" : "tasks_by_state";
}

/** The reads on tasks that may take long: a filter that few tasks pass reads past all the others. */
export function taskListReads(connection: Connection) {
  const select = new Map(
    Object.entries(LIST_TASKS_BY).map(([name, sql]) => [
      name,
      connection.prepare<[object], ListedRow>(sql),
    ]),
  );

  return {
    listTasks(query: TaskQuery): TaskPage {
      const { accountId, state, type, tag, limit } = query;
      const statement = select.get(nameOf(filtersOf(query)));
      if (statement === undefined) throw new Error("no statement lists tasks by these filters");
      const before = boundOf(query);
      // One row more than asked for tells whether there is a next page.
      const rows = statement.iterate({
        ...{ accountId, state, type, tag, limit: limit + 1 },
        ...{ createdAfter: query.createdAfter ?? 0 },
        ...{ beforeTime: before.createdAt, beforeSeq: before.seq },
      });
      const { page, isLast } = takePage(rows, limit);
      const last = isLast ? undefined : page.at(-1);
      const next = last === undefined ? null : { createdAt: last.created_at, seq: last.seq };
      return { tasks: page.map(toSummary), next };
    },
  };
}

type ListedRow = SummaryRow & { seq: number };

/** The rows of one page: up to `limit` of them, and no more than its bytes admit, but one at least. */
function takePage(
  rows: Iterable<ListedRow>,
  limit: number,
): { readonly page: readonly ListedRow[]; readonly isLast: boolean } {
  const page: ListedRow[] = [];
  let bytes = 0;
  for (const row of rows) {
    bytes += Buffer.byteLength(row.data_text);
    const isFull = page.length === limit || (page.length > 0 && bytes > PAGE_BYTES_MAX);
    if (isFull) return { page, isLast: false };
    page.push(row);
  }
  return { page, isLast: true };
}

function filtersOf({ state, type, tag }: TaskQuery): ListFilters {
  const stateFilter = state === null ? "any" : state === "queued" ? "queued" : "one";
  return { state: stateFilter, type: type !== null, tag: tag !== null };
}

/** The place before which a page begins: the cursor's, or the end of the time asked for when that is earlier. */
function boundOf({ after, createdBefore }: TaskQuery): TaskCursor {
  // Before every row of that time: the first has seq 1.
  const end = { createdAt: createdBefore ?? Number.MAX_SAFE_INTEGER, seq: 0 };
  return after !== null && after.createdAt < end.createdAt ? after : end;
}
