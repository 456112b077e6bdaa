import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useState } from "preact/hooks";

import type { FoundTask } from "../../api/search.ts";
import { parseTaskSearch } from "../../domain/task/task-search.ts";
import { Button } from "../part/control.tsx";
import { Problem } from "../part/panel.tsx";
import { NewTask } from "../post/post-dialog.tsx";
import { ApiError, errorText } from "../shell/api.ts";
import { now } from "../shell/clock.ts";
import { countText } from "../shell/format.ts";
import { useIdCursor, useKeys } from "../shell/keyboard.ts";
import { useResource } from "../shell/resource.ts";
import { go, route, setQuery } from "../shell/route.ts";
import { isOperator, shownAccount } from "../shell/session.ts";
import { type TaskAction, askBulk, hasUndelivered, tasksFor } from "./bulk-dialog.tsx";
import {
  type LeftList,
  type Selection,
  keepListPath,
  keepMarks,
  keepShown,
  readTaskPage,
  returnToList,
  useSelection,
  useShownPage,
  watchScroll,
} from "./task-list.ts";
import type { ShownPage, TaskPage } from "./task-page.ts";
import { NothingFound, PageEnd, TaskSearchForm, focusSearch } from "./task-search-form.tsx";
import { TaskTable } from "./task-table.tsx";

// No report comes of a pause.
const POLL_MS = 15_000;
// Older pages change rarely.
const OLDER_EVERY_MS = 5000;

/** Every task that the reader may see, newest first, and the actions on several of them. */
export function TasksScreen() {
  const q = route.value.query.get("q") ?? "";
  const cursor = route.value.query.get("cursor");
  const place = `${shownAccount.value ?? ""} ${cursor ?? ""} ${q}`;
  const [waiting, setWaiting] = useState(0);
  const pages = useResource(
    place,
    async (load): Promise<TaskPage | { readonly fault: string }> => {
      const parsed = parseTaskSearch(q, now.peek());
      if ("problem" in parsed) return { fault: parsed.problem };
      try {
        return await readTaskPage({ q, cursor, waiting }, load);
      } catch (error) {
        if (error instanceof ApiError && error.code === 40000) return { fault: errorText(error) };
        throw error;
      }
    },
    cursor === null ? { pollMs: POLL_MS } : { everyMs: OLDER_EVERY_MS, pollMs: POLL_MS },
  );
  const { data, problem, reload } = pages;
  const fault = data !== null && "fault" in data ? data.fault : null;
  const fresh = data !== null && "rows" in data ? data : null;
  const found = useMemo(() => returnToList(place), [place]);
  const [kept, showArrived] = useShownPage(place, { fresh, found: found?.shown ?? null });
  const page = kept?.page ?? null;
  keepListPath(route.value.query);
  if (kept !== null) keepShown(place, kept);
  useEffect(watchScroll, []);
  const arrived = page?.arrived.length ?? 0;
  if (arrived !== waiting) setWaiting(arrived);
  return (
    <>
      <div class="row screen-head">
        <h1>Tasks</h1>
        <NewTask />
      </div>
      <TaskSearchForm q={q} fault={fault} />
      {problem !== null && <Problem text={problem} retry={reload} />}
      {fault === null && (
        <section class="panel" aria-label="Found tasks">
          {page === null ? (
            problem === null && <p class="loading">Loading…</p>
          ) : (
            <FoundTasks
              key={place}
              q={q}
              cursor={cursor}
              page={page}
              found={found}
              showArrived={showArrived}
              reload={reload}
            />
          )}
        </section>
      )}
    </>
  );
}

interface FoundTasksProps {
  readonly q: string;
  readonly cursor: string | null;
  readonly page: ShownPage;
  /** The list as it was left; null for a newly opened list. */
  readonly found: LeftList | null;
  readonly showArrived: () => void;
  readonly reload: () => void;
}

function FoundTasks({ q, cursor, page, found, showArrived, reload }: FoundTasksProps) {
  const { rows, arrived } = page;
  const ids = rows.map(({ id }) => id);
  const { current, moveTo, keys, selection } = useMarks(ids, found);
  const chosen = rows.filter(({ id }) => selection.has(id));
  const target = chosen.length > 0 ? chosen : rows.filter(({ id }) => id === current);
  function start(wanted: TaskAction): void {
    if (tasksFor(wanted, target).length > 0) askBulk(wanted, target, reload);
  }
  function onCurrent(act: (id: string) => void): () => void {
    return () => {
      if (current !== null) act(current);
    };
  }
  useKeys([
    { key: "/", does: "Search", run: focusSearch },
    ...keys,
    { key: "Enter", does: "Open the task", run: onCurrent((id) => go(`/tasks/${id}`)) },
    { key: "x", does: "Select the task", run: onCurrent((id) => selection.toggle(id)) },
    {
      key: "X",
      does: "Select everything up to the task",
      run: onCurrent((id) => selection.extend(id)),
    },
    { key: "r", does: "Redeliver the selected tasks", run: () => start("redeliver") },
    ...(arrived.length > 0 ? [{ key: "n", does: "Show new tasks", run: showArrived }] : []),
  ]);
  return (
    <>
      <ListHead
        cursor={cursor}
        showArrived={showArrived}
        arrived={arrived.length}
        count={rows.length}
      >
        <ActionButtons chosen={chosen} selection={selection} start={start} />
      </ListHead>
      {rows.length === 0 ? (
        <NothingFound q={q} hasMore={page.next !== null} isFirst={cursor === null} />
      ) : (
        <TaskTable
          rows={rows}
          current={current}
          moveTo={moveTo}
          selection={selection}
          gone={page.gone}
          hasAccounts={isOperator.value && shownAccount.value === null}
        />
      )}
      <PageEnd page={page} />
    </>
  );
}

/** The cursor and the selection of the list, kept for a reader who comes back; they begin as they were left. */
function useMarks(ids: readonly string[], found: LeftList | null) {
  const cursor = useIdCursor(ids, "task", found?.current);
  const selection = useSelection(ids, found?.selected);
  const { current } = cursor;
  useLayoutEffect(() => {
    if (found !== null) globalThis.scrollTo(0, found.scrollY);
  }, []);
  useLayoutEffect(() => keepMarks({ selected: new Set(ids.filter(selection.has)), current }));
  function moveTo(id: string): void {
    // A click on its link leaves the list before the list is drawn again.
    keepMarks({ current: id });
    cursor.moveTo(id);
  }
  return { ...cursor, moveTo, selection };
}

interface ActionButtonsProps {
  readonly chosen: readonly FoundTask[];
  readonly selection: Selection;
  readonly start: (action: TaskAction) => void;
}

function ActionButtons({ chosen, selection, start }: ActionButtonsProps) {
  if (chosen.length === 0) return null;
  return (
    <>
      {ACTIONS.map(({ action, verb }) => {
        const possible = tasksFor(action, chosen);
        if (possible.length === 0) return null;
        const meant = action === "redeliver" ? possible.filter(hasUndelivered) : possible;
        return (
          <Button key={action} press={() => start(action)}>
            {meant.length === 0 ? `${verb}…` : `${verb} ${countText(meant.length)}`}
          </Button>
        );
      })}
      <button type="button" class="link-button" onClick={selection.clear}>
        Clear the selection of {countText(chosen.length)}
      </button>
    </>
  );
}

const ACTIONS: readonly { readonly action: TaskAction; readonly verb: string }[] = [
  { action: "redeliver", verb: "Redeliver" },
  { action: "cancel", verb: "Cancel" },
];

interface ListHeadProps {
  readonly cursor: string | null;
  readonly arrived: number;
  readonly count: number;
  readonly showArrived: () => void;
  readonly children: ComponentChildren;
}

function ListHead({ cursor, arrived, count, showArrived, children }: ListHeadProps) {
  if (cursor === null && arrived === 0 && count === 0) return null;
  return (
    <div class="row rule-below list-head">
      {cursor === null ? (
        arrived > 0 && (
          <button type="button" class="button button-small button-new" onClick={showArrived}>
            {countText(arrived)} new
          </button>
        )
      ) : (
        <Button press={() => setQuery({ cursor: null })}>Back to the newest</Button>
      )}
      {children}
      <span class="hint list-count">
        {count > 0 && `${countText(count)} on this page, newest first`}
      </span>
    </div>
  );
}
