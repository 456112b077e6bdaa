import {
  isOnlyReady,
  OWN_MAX,
  placeOf,
  readyKinds,
  timeKinds,
  walkOf,
  type SourceKind,
  type SourceQuery,
} from "../common/list-source.ts";
import { STORED_STATES, storedStates } from "../common/stored-states.ts";
import { fewTaskLister } from "./few-tasks.ts";
import type { Connection } from "./machine/connection.ts";
import { prepareEach } from "./prepare-each.ts";
import { searchParams } from "./task-filter.ts";

/** The sources of lists. Each names its index, so that a turn begins with a seek and reads in order. */

/** The place where the tasks that may pass are found, in the order of the list. */
export interface TaskSource {
  readonly kind: SourceKind;
  /** For `listed`: a JSON array of seqs. */
  readonly listText?: string;
  /** Other accounts' tasks are among its candidates, in a search within one account. */
  readonly isShared?: true;
}

// COLLATE BINARY changes no comparison of numbers; without it SQLite seeks by created_at alone and reads past all
// the rows of that time (the rowid has no collation of its own, so it is left out of the range).
function ofAccount(index: string, filter: string): string {
  return `
    SELECT t.created_at AS timeMs, t.seq FROM tasks AS t INDEXED BY ${index}
    WHERE ${filter} AND t.account_seq = @accountSeq
      AND t.created_at >= @createdAfter AND (t.created_at, t.seq) < (@placeTime, @placeSeq COLLATE BINARY)`;
}

const NEWEST_FIRST = "ORDER BY timeMs DESC, seq DESC LIMIT @max";

function ofReady(index: string, filter = ""): string {
  return `
    SELECT t.completed_at AS timeMs, t.seq FROM tasks AS t INDEXED BY ${index}
    WHERE t.account_seq = @accountSeq AND t.ready = 1 ${filter}
      AND (t.completed_at, t.seq) > (@placeTime, @placeSeq)
    ORDER BY t.completed_at, t.seq LIMIT @max`;
}

/** Selects one webhook of each; CROSS JOIN keeps their order. */
function ofWebhooks(table: string, filter: string): string {
  return `
    SELECT t.created_at AS timeMs, t.seq
    FROM (
      SELECT DISTINCT task_seq FROM ${table}
      WHERE ${filter} AND task_seq < @placeSeq
      ORDER BY task_seq DESC LIMIT @max
    ) AS f
    CROSS JOIN tasks AS t ON t.seq = f.task_seq`;
}

/**
 * The statement of each source: up to @max places beyond @placeTime and @placeSeq. Within an account they are read by
 * time, of all accounts by seq alone: no index orders all of them by time, and a row's seq is as old as its time.
 */
export const CANDIDATES_BY: Readonly<Record<SourceKind, string>> = {
  // Each state is a range of the index, and SQLite merges them as it reads; one range over all of them would be sorted.
  // So a list of all tasks needs no index of its own, for which every insert would pay. States that are not asked for
  // cost nothing.
  states: `${STORED_STATES.map((state) =>
    ofAccount("tasks_by_state", `@${state} AND t.state = '${state}'`),
  ).join(" UNION ALL ")} ${NEWEST_FIRST}`,
  state: `${ofAccount("tasks_by_state", "t.state = @state")} ${NEWEST_FIRST}`,
  type: `${ofAccount("tasks_by_type", "t.type = @type")} ${NEWEST_FIRST}`,
  tag: `${ofAccount("tasks_by_tag", "t.tag IS NOT NULL AND t.tag = @tag")} ${NEWEST_FIRST}`,
  ready: ofReady("tasks_ready"),
  readyByType: ofReady("tasks_ready_by_type", "AND t.type = @type"),
  readyByTag: ofReady("tasks_ready_by_tag", "AND t.tag IS NOT NULL AND t.tag = @tag"),
  failed: ofWebhooks("deliveries INDEXED BY deliveries_failed", "state IN ('given_up', 'refused')"),
  retrying: ofWebhooks("attempts INDEXED BY attempts_retrying", "started_at IS NULL AND retry > 0"),
  all: `
    SELECT t.created_at AS timeMs, t.seq FROM tasks AS t
    WHERE t.seq < @placeSeq
    ORDER BY t.seq DESC LIMIT @max`,
  // The list is in the order of the answer, and has been cut at the place.
  listed: `
    SELECT t.created_at AS timeMs, t.seq
    FROM json_each(@listText) AS l
    CROSS JOIN tasks AS t ON t.seq = l.value`,
};

/** How many candidates there are up to @max, and when the newest of them was made. */
export const COUNT_CANDIDATES_BY = eachSource(
  (candidates) => `SELECT count(*) AS count, max(timeMs) AS newest FROM (${candidates})`,
);

/** Makes a statement for each source from its candidates. */
export function eachSource(
  sql: (candidates: string) => string,
): Readonly<Record<SourceKind, string>> {
  const made = Object.entries(CANDIDATES_BY).map(([kind, candidates]) => [kind, sql(candidates)]);
  // It has the same kinds.
  return Object.fromEntries(made) as Record<SourceKind, string>;
}

export const MANY_OF_ACCOUNT = `
  SELECT count(*)
  FROM (SELECT 1 FROM tasks INDEXED BY tasks_by_state WHERE account_seq = @accountSeq LIMIT @max)`;

/** Chooses the source of a turn. */
export function sourceChooser(connection: Connection): (of: SourceQuery) => TaskSource {
  const listFew = fewTaskLister(connection);
  const manyOwn = connection.prepare<[object], number>(MANY_OF_ACCOUNT).pluck();
  const count = prepareEach<{ count: number }, SourceKind>(connection, COUNT_CANDIDATES_BY);

  // When several indexes serve, it takes one that comes to its end within the turn, so that rare tasks are not searched
  // for among all others.
  function narrowest(kinds: readonly SourceKind[], of: SourceQuery, otherwise: SourceKind) {
    const [first = otherwise, ...others] = kinds;
    const endsSoon = (kind: SourceKind): boolean => {
      const counted = count(kind).get({ ...sourceParams({ kind }, of), max: of.turnMax });
      return (counted?.count ?? 0) < of.turnMax;
    };
    const isFirst = others.length === 0 || endsSoon(first);
    return { kind: isFirst ? first : (others.find(endsSoon) ?? first) };
  }

  function listed(of: SourceQuery): TaskSource | null {
    const listText = listFew(of);
    return listText === null ? null : { kind: "listed", listText };
  }

  function within(accountSeq: number, of: SourceQuery): TaskSource {
    const { search } = of;
    const walk = search.tag === null ? walkOf(search) : null;
    // When an account has few tasks, all of them are looked at, instead of the failed ones of all accounts.
    const max = Math.min(OWN_MAX, of.examineMax);
    const isLarge = walk !== null && (manyOwn.get({ accountSeq, max }) ?? 0) === max;
    if (isLarge) return { kind: walk, isShared: true };
    const ready = search.tag === null && isOnlyReady(search) ? listed(of) : null;
    return ready ?? narrowest(timeKinds(search), of, "states");
  }

  return (of) => {
    const { accountSeq, search, isReady } = of;
    if (isReady) return narrowest(readyKinds(search), of, "ready");
    const byId = search.id === null ? null : listed(of);
    if (byId !== null) return byId;
    if (accountSeq !== null) return within(accountSeq, of);
    const walk = walkOf(search);
    return walk === null ? (listed(of) ?? { kind: "all" }) : { kind: walk };
  };
}

/** The parameters of a source's statements, except the number of rows. */
export function sourceParams({ kind, listText = "[]" }: TaskSource, of: SourceQuery) {
  const wanted = of.search.states?.flatMap(storedStates) ?? STORED_STATES;
  const flags = STORED_STATES.map((state) => [state, wanted.includes(state) ? 1 : 0] as const);
  const { timeMs: placeTime, seq: placeSeq } = placeOf(kind, of);
  const [state] = wanted;
  return {
    ...searchParams(of),
    ...Object.fromEntries(flags),
    state,
    placeTime,
    placeSeq,
    listText,
  };
}
