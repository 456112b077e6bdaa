/**
 * The known name that is closest to `word`, to suggest it for a misspelt one; "none" when nothing is known. A section
 * may be left out: `timeout` is close to `webhooks.timeout`.
 */
export function nearestName(word: string, known: readonly string[]): string {
  // Shortened, because the distance costs the product of the lengths; no known name is that long.
  const typed = word.slice(0, 64).toLowerCase();
  let nearest = "none";
  let least = Infinity;
  for (const name of known) {
    const lower = name.toLowerCase();
    const last = lower.slice(lower.lastIndexOf(".") + 1);
    const distance = Math.min(nameDistance(typed, lower), nameDistance(typed, last) + 0.5);
    if (distance < least) {
      least = distance;
      nearest = name;
    }
  }
  return nearest;
}

/** Counts the edits between two names; a name that begins with the other, such as `retry`, is close at any length. */
function nameDistance(a: string, b: string): number {
  const isPrefix = Math.min(a.length, b.length) >= 3 && (a.startsWith(b) || b.startsWith(a));
  const prefixDistance = isPrefix ? 1 + Math.abs(a.length - b.length) / 10 : Infinity;
  return Math.min(prefixDistance, editDistance(a, b));
}

/** The Levenshtein distance, with two rows at a time. */
function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_unused, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(replaced, (previous[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1));
    }
    previous = row;
  }
  return previous[b.length] ?? 0;
}
