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
