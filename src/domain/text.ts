// C0, DEL and C1: no name, label or URL has a use for them.
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;
const CONTROLS = new RegExp(CONTROL, "g");
const SHOWN_LENGTH_MAX = 64;

/** True for text that has a control character: C0, DEL or C1. */
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
