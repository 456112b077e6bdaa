/** Changes words of a task search and leaves the others as they were written. */

/** The words of a search, quotes and all. */
export function searchWords(q: string): readonly string[] {
  return q.match(/(?:"(?:[^"\\]|\\.)*"?|[^\s"])+/gsu) ?? [];
}

/** What the words `name:a,b` ask for. */
export function listedIn(q: string, name: string): readonly string[] {
  return searchWords(q).flatMap((word) => valuesOf(word, name) ?? []);
}

/** The search with one value more, or less if it was in: `state:failed` becomes `state:failed,queued`. */
export function toggled(q: string, name: string, value: string): string {
  const before = listedIn(q, name);
  const after = before.includes(value)
    ? before.filter((each) => each !== value)
    : [...before, value];
  const others = searchWords(q).filter((word) => valuesOf(word, name) === null);
  // Before the others: quotes that are not closed would take it in.
  return [...(after.length === 0 ? [] : [`${name}:${after.join(",")}`]), ...others].join(" ");
}

/** The search without one of its words. */
export function withoutWord(q: string, index: number): string {
  return searchWords(q)
    .filter((_, at) => at !== index)
    .join(" ");
}

function valuesOf(word: string, name: string): readonly string[] | null {
  if (!word.toLowerCase().startsWith(`${name}:`)) return null;
  const values = word
    .slice(name.length + 1)
    .toLowerCase()
    .replaceAll('"', "");
  return values.split(",").filter((value) => value !== "");
}
