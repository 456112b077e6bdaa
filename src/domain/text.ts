// C0, DEL and C1: no name, label or URL has a use for them.
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;
const CONTROLS = new RegExp(CONTROL, "g");
const SHOWN_LENGTH_MAX = 64;

export function hasControl(text: string): boolean {
  return CONTROL.test(text);
}

/** A name of a client's, as a message or a row repeats it: at most 64 characters, without control characters. */
export function shownName(name: string): string {
  const head = name.slice(0, SHOWN_LENGTH_MAX).toWellFormed().replaceAll(CONTROLS, "\uFFFD");
  return name.length > SHOWN_LENGTH_MAX ? `${head}…` : head;
}

export function isAtMostCodePoints(text: string, max: number): boolean {
  // A code point takes one or two units, so only lengths in between need counting.
  return text.length <= max || (text.length <= 2 * max && [...text].length <= max);
}

/** True for a string of at most `lengthMax` code points, without control characters or half a surrogate pair. */
export function isPlainText(value: unknown, lengthMax: number): value is string {
  if (typeof value !== "string" || !isAtMostCodePoints(value, lengthMax)) return false;
  return value.isWellFormed() && !hasControl(value);
}

// Texts of clients must not move a terminal's cursor or reverse its text.
const UNPRINTABLE = /[\p{Cc}\p{Cf}\u2028\u2029]/gu;

/** Text without the characters that a terminal would act on. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, "\ufffd");
}

/** Text in quotes, on one line, with escapes for invisible characters: nothing of it is lost. */
export function quotedText(text: string): string {
  return escapedJson(JSON.stringify(text));
}

/** JSON of the same value, without characters that a terminal would act on: JSON itself escapes only C0. */
export function escapedJson(json: string): string {
  return json.replace(UNPRINTABLE, escaped);
}

function escaped(text: string): string {
  const units = Array.from({ length: text.length }, (_, i) => text.charCodeAt(i));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`).join("");
}

/** The known name closest to `word`, "none" without known names. `timeout` is close to `webhooks.timeout`. */
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

/** The known name that `word` was most likely meant to be; null if none is close, and for a long word. */
export function closeName(word: string, known: readonly string[]): string | null {
  if (word.length > CLOSE_LENGTH_MAX || known.length === 0) return null;
  const nearest = nearestName(word, known);
  const edits = nameDistance(word.toLowerCase(), nearest.toLowerCase());
  // Two edits exchange two letters; in a word of two letters they make any other.
  const most = Math.min(word.length - 1, Math.max(2, Math.floor(word.length / 3)));
  return edits <= most ? nearest : null;
}

/** Returns `unknown`, with the known name that may have been meant. */
export function unknownNote(name: string, known: readonly string[]): string {
  const close = closeName(name, known);
  return close === null ? "unknown" : `unknown (did you mean '${close}'?)`;
}

// A misspelt name of ours is no longer.
const CLOSE_LENGTH_MAX = 24;

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
