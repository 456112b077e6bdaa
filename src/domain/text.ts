// C0, DEL and C1: no name, label or URL has a use for them.
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;

/** True for text that has a control character: C0, DEL or C1. */
export function hasControl(text: string): boolean {
  return CONTROL.test(text);
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
