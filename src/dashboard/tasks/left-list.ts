import { lastMove, route } from "../shell/route.ts";
import { session } from "../shell/session.ts";
import type { KeptPage } from "./shown-page.ts";

/** The list of tasks as it was left, for whoever comes back to it. */
export interface LeftList {
  /** Whose list, which search and which page. */
  readonly place: string;
  readonly shown: KeptPage;
  readonly scrollY: number;
  readonly selected: ReadonlySet<string>;
  readonly current: string | null;
}

let left: LeftList | null = null;

// Nothing of one session is there for the next.
session.subscribe(() => {
  left = null;
});

/**
 * The list as it was left, for whoever comes back to this place of it: from a task, or by the browser's buttons. Null for
 * whoever goes there anew, and what was kept is forgotten.
 */
export function returnToList(place: string): LeftList | null {
  const { from, isByHistory } = lastMove();
  const isReturn = isByHistory || from.startsWith("/tasks/");
  if (!isReturn || left?.place !== place) left = null;
  return left;
}

/** Keeps what is shown at a place; at another place than before without marks, and from the top. */
export function keepShown(place: string, shown: KeptPage): void {
  left =
    left?.place === place
      ? { ...left, shown }
      : { place, shown, scrollY: 0, selected: new Set(), current: null };
}

/** Keeps what is selected, and where one is. */
export function keepMarks(marks: Partial<Pick<LeftList, "selected" | "current">>): void {
  if (left !== null) left = { ...left, ...marks };
}

/** Keeps the height while the list is scrolled. Answers what ends that. */
export function watchScroll(): () => void {
  function keep(): void {
    // On the way to another screen the page goes to its top.
    if (left !== null && route.peek().path === "/tasks")
      left = { ...left, scrollY: globalThis.scrollY };
  }
  globalThis.addEventListener("scroll", keep, { passive: true });
  return () => globalThis.removeEventListener("scroll", keep);
}
