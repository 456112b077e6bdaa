import { useState } from "preact/hooks";

import { call } from "../shell/api.ts";
import type { Load } from "../shell/resource.ts";
import { lastMove, route } from "../shell/route.ts";
import { session } from "../shell/session.ts";
import {
  PAGE_SIZE,
  type ShownPage,
  type TaskPage,
  followPage,
  freshPage,
  withExactDays,
} from "./task-page.ts";

const PAGE_SIZE_MAX = 200;

/** How many pages are asked for automatically while nothing is found. */
const EMPTY_PAGES_MAX = 10;

interface TaskPageQuery {
  readonly q: string;
  readonly cursor: string | null;
  /** New tasks that the page knows already: it asks for so many more, to learn of the others too. */
  readonly waiting: number;
}

/**
 * Reads one page of tasks. While nothing is found it reads further back by itself, ten pages at most. An automatic read
 * reads one page, so that an unattended screen does not keep the daemon busy.
 */
export async function readTaskPage(
  { q, cursor, waiting }: TaskPageQuery,
  load: Load,
): Promise<TaskPage> {
  const limit = Math.min(PAGE_SIZE_MAX, PAGE_SIZE + waiting);
  const text = q === "" ? undefined : withExactDays(q);
  let from = cursor;
  for (let left = load.isAutomatic ? 1 : EMPTY_PAGES_MAX; ; left--) {
    const query = { limit, q: text, cursor: from ?? undefined };
    const page = await call("GET /v1/tasks/search", { ...load, query });
    const { tasks, next_cursor: next, examined_until: examinedUntil } = page;
    if (tasks.length > 0 || next === null || left === 1)
      return { rows: tasks, next, examinedUntil };
    from = next;
  }
}

/** A page as it is shown at a place. */
interface KeptPage {
  readonly place: string;
  /** The page of the last read. */
  readonly fresh: TaskPage;
  readonly page: ShownPage;
}

/**
 * The shown page, while newer states of it are read: tasks stay in place. Another place starts again; the first place
 * starts with `found`, if that was stored. Also returns a function that shows the tasks that have come since.
 */
export function useShownPage(
  place: string,
  { fresh, found }: { readonly fresh: TaskPage | null; readonly found: KeptPage | null },
): readonly [kept: KeptPage | null, showArrived: () => void] {
  const [kept, setKept] = useState(found);
  const before = kept?.place === place ? kept : null;
  let now = before;
  if (fresh !== null && fresh !== before?.fresh) {
    const page = before === null ? freshPage(fresh) : followPage(before.page, fresh);
    now = { place, fresh, page };
    setKept(now);
  }
  function showArrived(): void {
    if (now === null) return;
    setKept({ ...now, page: freshPage(now.fresh) });
    globalThis.scrollTo(0, 0);
  }
  return [now, showArrived];
}

/** The list of tasks as it was left, for a reader who comes back to it. */
export interface LeftList {
  /** The account, the search and the page of the list. */
  readonly place: string;
  readonly shown: KeptPage;
  readonly scrollY: number;
  readonly selected: ReadonlySet<string>;
  readonly current: string | null;
}

let left: LeftList | null = null;

// Nothing of one session is kept for the next.
session.subscribe(() => {
  left = null;
});

/**
 * Returns the list as it was left, for a reader who comes back to this place of it: from a task, or by the browser's
 * buttons. For a reader who opens the list again it returns null, and forgets the stored state.
 */
export function returnToList(place: string): LeftList | null {
  const { from, isByHistory } = lastMove();
  const isReturn = isByHistory || from.startsWith("/tasks/");
  if (!isReturn || left?.place !== place) left = null;
  return left;
}

/** Keeps the page shown at a place; at a new place without marks, and from the top. */
export function keepShown(place: string, shown: KeptPage): void {
  left =
    left?.place === place
      ? { ...left, shown }
      : { place, shown, scrollY: 0, selected: new Set(), current: null };
}

export function keepMarks(marks: Partial<Pick<LeftList, "selected" | "current">>): void {
  if (left !== null) left = { ...left, ...marks };
}

/** Keeps the scroll position; returns a function that stops it. */
export function watchScroll(): () => void {
  function keep(): void {
    // On the way to another screen the page scrolls to its top.
    if (left !== null && route.peek().path === "/tasks")
      left = { ...left, scrollY: globalThis.scrollY };
  }
  globalThis.addEventListener("scroll", keep, { passive: true });
  return () => globalThis.removeEventListener("scroll", keep);
}

let path = "/tasks";

/** The path of the list of tasks as it was left: its search and its page. */
export function listPath(): string {
  return path;
}

/** Remembers where the list is, for the way back from a task. */
export function keepListPath(query: URLSearchParams): void {
  const kept = new URLSearchParams();
  for (const name of ["q", "cursor"]) {
    const value = query.get(name);
    if (value !== null) kept.set(name, value);
  }
  path = kept.size === 0 ? "/tasks" : `/tasks?${kept.toString()}`;
}

export type Selection = ReturnType<typeof useSelection>;

/**
 * A selection among these ids; it begins with `first`. `extend` selects everything from the last toggled row to this
 * one.
 */
export function useSelection(ids: readonly string[], first: ReadonlySet<string> = new Set()) {
  const [chosen, setChosen] = useState(first);
  const [anchor, setAnchor] = useState<string | null>(null);
  function toggle(id: string): void {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    setChosen(next);
    setAnchor(id);
  }
  function extend(id: string): void {
    setChosen(new Set([...chosen, ...between(ids, anchor ?? id, id)]));
  }
  function clear(): void {
    setChosen(new Set());
    setAnchor(null);
  }
  return {
    toggle,
    extend,
    clear,
    has: (id: string) => chosen.has(id),
    setAll: (isSelected: boolean) => (isSelected ? setChosen(new Set(ids)) : clear()),
  };
}

/** The ids from one to the other, both included, in either direction. */
export function between(ids: readonly string[], from: string, to: string): readonly string[] {
  const [first = -1, last = -1] = [ids.indexOf(from), ids.indexOf(to)].toSorted((a, b) => a - b);
  return first === -1 ? [to] : ids.slice(first, last + 1);
}
