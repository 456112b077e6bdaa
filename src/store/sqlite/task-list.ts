import type { TaskCursor, TaskQuery } from "../store.ts";
import { prepareWalk, walkOn, walkSql, type Walk } from "./filtered-walk.ts";
import { takeRows, type ListPart, type ListTurn } from "./list-turns.ts";
import type { Connection } from "./machine/connection.ts";
import { SUMMARY_COLUMNS, toSummary, type SummaryRow } from "./tasks.ts";

/** What an index finds in the order of the list: all, or what passes one filter. Clients' `queued` is two states of the table. */
type ListSource = "all" | ListFilter;
type ListFilter = "queued" | "state" | "type" | "tag";

const QUEUED_STATES = ["queued", "delayed"];
const ALL_STATES = [...QUEUED_STATES, "running", "completed", "failed", "cancelled"];

// Where tasks_by_state is read for several states, each is a range of it, and SQLite merges them as it reads; one
// range over all of them would be sorted. So a list of all tasks needs no index of its own, which every
// insert would pay for.
const RANGES: Readonly<Record<ListSource, readonly string[]>> = {
  all: ALL_STATES.map((state) => rangeOf("tasks_by_state", `t.state = '${state}'`)),
  queued: QUEUED_STATES.map((state) => rangeOf("tasks_by_state", `t.state = '${state}'`)),
  state: [rangeOf("tasks_by_state", "t.state = @state")],
  type: [rangeOf("tasks_by_type", "t.type = @type")],
  tag: [rangeOf("tasks_by_tag", "t.tag IS NOT NULL AND t.tag = @tag")],
};

// COLLATE BINARY changes no comparison of numbers; without it SQLite seeks by created_at alone and reads past all
// the rows of that time (the rowid has no collation of its own, so it is left out of the range).
function rangeOf(index: string, filter: string): string {
  return `
    FROM tasks AS t INDEXED BY ${index}
    WHERE t.account_seq = @accountId AND ${filter}
      AND t.created_at >= @createdAfter AND (t.created_at, t.seq) < (@beforeTime, @beforeSeq COLLATE BINARY)`;
}

function selectFrom(source: ListSource, columns: string): string {
  return `
    ${RANGES[source].map((range) => `SELECT ${columns} ${range}`).join(" UNION ALL ")}
    ORDER BY created_at DESC, seq DESC`;
}

/**
 * A list with one filter or none: each names its index, so that a page begins by a seek and is read in order; a time that
 * is not limited and a first page have bounds that exclude nothing.
 */
export const LIST_TASKS_BY = { all: listTasks("all"), ...eachFilter(listTasks) };

function listTasks(source: ListSource): string {
  return `${selectFrom(source, `${SUMMARY_COLUMNS}, t.seq`)} LIMIT @limit`;
}

const PASSES = `
  (@type IS NULL OR t.type = @type) AND (@tag IS NULL OR t.tag = @tag)
  AND (@state IS NULL OR t.state = @state OR t.state = @stateToo)`;

/** A list with several filters, along the index of one of them. */
export const WALK_TASKS_BY = eachFilter((source) =>
  walkSql({ candidates: selectFrom(source, "t.created_at, t.seq"), passes: PASSES }),
);

function eachFilter<Value>(make: (source: ListFilter) => Value): Record<ListFilter, Value> {
  return { queued: make("queued"), state: make("state"), type: make("type"), tag: make("tag") };
}

type ListedRow = SummaryRow & { seq: number };

/** The list of an account's tasks, read on the reader thread. */
export function taskListReads(connection: Connection) {
  const prepare = (by: ListSource) => connection.prepare<[object], ListedRow>(LIST_TASKS_BY[by]);
  const select = { all: prepare("all"), ...eachFilter(prepare) };
  const walks = eachFilter((by) => prepareWalk(connection, WALK_TASKS_BY[by]));

  function list(turn: TaskQuery & ListTurn, source: ListSource): ListPart<TaskCursor> {
    // One row more than asked for tells whether there is a next page.
    const rows = select[source].iterate({ ...paramsOf(turn), limit: turn.limit + 1 });
    const { taken, bytes, isFull } = takeRows(rows, turn);
    return { tasks: taken.map(toSummary), bytes, next: isFull ? placeOf(taken) : null, isFull };
  }

  function walk(
    turn: TaskQuery & ListTurn,
    along: readonly [Walk, ...Walk[]],
  ): ListPart<TaskCursor> {
    const { taken, end, ...found } = walkOn(along, { ...turn, params: paramsOf(turn) });
    const reached = end === undefined ? null : { createdAt: end[0], seq: end[1] };
    const next = found.isFull ? (placeOf(taken) ?? turn.after) : reached;
    return { tasks: taken.map(toSummary), next, ...found };
  }

  return {
    /** A part of a page; a whole one unless there are several filters. */
    listTasks: connection.transaction((turn: TaskQuery & ListTurn): ListPart<TaskCursor> => {
      const [first, ...others] = filtersOf(turn);
      if (first === undefined || others.length === 0) return list(turn, first ?? "all");
      return walk(turn, [walks[first], ...others.map((each) => walks[each])]);
    }),
  };
}

// A tag is nearly always the narrowest filter, then a state.
function filtersOf({ state, type, tag }: TaskQuery): readonly ListFilter[] {
  const filters: ListFilter[] = [];
  if (tag !== null) filters.push("tag");
  if (state !== null) filters.push(state === "queued" ? "queued" : "state");
  if (type !== null) filters.push("type");
  return filters;
}

function paramsOf(query: TaskQuery) {
  const { accountId, state, type, tag } = query;
  const before = boundOf(query);
  return {
    ...{ accountId, state, type, tag, createdAfter: query.createdAfter ?? 0 },
    stateToo: state === "queued" ? "delayed" : state,
    ...{ beforeTime: before.createdAt, beforeSeq: before.seq },
  };
}

function placeOf(rows: readonly ListedRow[]): TaskCursor | null {
  const last = rows.at(-1);
  return last === undefined ? null : { createdAt: last.created_at, seq: last.seq };
}

/** The place before which a page begins: the cursor's, or the end of the time asked for when that is earlier. */
function boundOf({ after, createdBefore }: TaskQuery): TaskCursor {
  // Before every row of that time: the first has seq 1.
  const end = { createdAt: createdBefore ?? Number.MAX_SAFE_INTEGER, seq: 0 };
  return after !== null && after.createdAt < end.createdAt ? after : end;
}
