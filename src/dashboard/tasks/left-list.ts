import { lastMove, route } from "../shell/route.ts";
import { session } from "../shell/session.ts";
import type { KeptPage } from "./shown-page.ts";

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
 * buttons. For a reader who opens the list anew it returns null, and forgets what was kept.
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

/** Keeps the selection and the cursor. */
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
