/** Changes words of a task search and leaves the others as they were written. */

/** The words of a search, quotes and all. */
export function searchWords(q: string): readonly string[] {
  return q.match(/(?:"(?:[^"\\]|\\.)*"?|[^\s"])+/gsu) ?? [];
}

/** The values that the words `name:a,b` list. */
export function listedIn(q: string, name: string): readonly string[] {
  return searchWords(q).flatMap((word) => valuesOf(word, name) ?? []);
}

/** The search with one more value, or one fewer if it was in: `state:failed` becomes `state:failed,queued`. */
export function toggled(q: string, name: string, value: string): string {
  const before = listedIn(q, name);
  const after = before.includes(value)
    ? before.filter((each) => each !== value)
    : [...before, value];
  const others = searchWords(q).filter((word) => valuesOf(word, name) === null);
  // They come before the others: quotes that are not closed would swallow them.
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
