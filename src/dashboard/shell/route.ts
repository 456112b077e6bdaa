import { computed, signal } from "@preact/signals";

const BASE = "/dashboard";

/** A place in the dashboard: the path below /dashboard, and its query. */
export interface Route {
  /** Begins with a slash: `/tasks`. */
  readonly path: string;
  readonly query: URLSearchParams;
}

export const route = signal<Route>(currentRoute());

/** The account that the operator looks at, by `?account=`; null: all of them. */
export const actsFor = computed(() => route.value.query.get("account") || null);

/** The parts of the path: `/tasks/ID` is `["tasks", "ID"]`. */
export const pathParts = computed(() =>
  route.value.path
    .split("/")
    .filter((part) => part !== "")
    .map(decode),
);

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function currentRoute(): Route {
  const { pathname, search } = globalThis.location;
  const path = pathname.startsWith(BASE) ? pathname.slice(BASE.length) : pathname;
  return { path: path === "" ? "/" : path, query: new URLSearchParams(search) };
}

/** How the reader came to the present place. */
interface Move {
  /** The path of the previous place. */
  readonly from: string;
  /** True after the browser's back or forward button. */
  readonly isByHistory: boolean;
}

let move: Move = { from: "", isByHistory: false };

/** How the reader came to the present place. */
export function lastMove(): Move {
  return move;
}

/**
 * The URL of a place in the dashboard. The selected account stays, unless the place names one (`?account=` means none).
 */
export function hrefOf(path: string): string {
  const url = new URL(`${BASE}${path}`, globalThis.location.origin);
  const account = actsFor.value;
  const named = url.searchParams.get("account");
  if (named === "") url.searchParams.delete("account");
  if (account !== null && named === null) url.searchParams.set("account", account);
  return url.pathname + url.search;
}

/** The place of the tasks that a search finds. */
export function tasksPath(q: string): string {
  return `/tasks?${new URLSearchParams({ q }).toString()}`;
}

/** Goes to a place, by {@link hrefOf}. */
export function go(path: string, { replaces = false } = {}): void {
  goTo(hrefOf(path), { replaces });
}

/** Sets parameters of the query; null removes one. `replaces` makes no new entry in the history. */
export function setQuery(
  values: Readonly<Record<string, string | null>>,
  { replaces = false } = {},
): void {
  const { path, query } = route.value;
  const next = new URLSearchParams(query);
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === "") next.delete(name);
    else next.set(name, value);
  }
  const search = next.size === 0 ? "" : `?${next.toString()}`;
  goTo(`${BASE}${path}${search}`, { replaces });
}

function goTo(href: string, { replaces }: { readonly replaces: boolean }): void {
  if (replaces) history.replaceState(null, "", href);
  else history.pushState(null, "", href);
  const before = route.value.path;
  move = { from: before, isByHistory: false };
  route.value = currentRoute();
  if (!replaces && before !== route.value.path) globalThis.scrollTo(0, 0);
}

/** Follows the browser's buttons, and links within the dashboard without loading the page again. */
export function watchRoute(): void {
  globalThis.addEventListener("popstate", () => {
    move = { from: route.value.path, isByHistory: true };
    route.value = currentRoute();
  });
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (link === null || !isOurs(link) || isSpecialClick(event)) return;
    event.preventDefault();
    goTo(link.pathname + link.search, { replaces: false });
  });
}

function isOurs(link: HTMLAnchorElement): boolean {
  const isInside =
    link.origin === globalThis.location.origin && link.pathname.startsWith(`${BASE}/`);
  return isInside && link.target === "" && !link.hasAttribute("download");
}

function isSpecialClick(event: MouseEvent): boolean {
  const { button, metaKey, ctrlKey, shiftKey, altKey, defaultPrevented } = event;
  return button !== 0 || metaKey || ctrlKey || shiftKey || altKey || defaultPrevented;
}
