/** The number of a flag; throws, naming the flag, unless it is above 0. */
export function positive(name: string, text: string): number {
  const value = Number(text);
  if (value > 0) return value;
  throw new Error(`--${name} must be a number above 0`);
}

/** As {@link positive}, of a number without a fraction. */
export function wholeNumber(name: string, text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value > 0) return value;
  throw new Error(`--${name} must be a whole number above 0`);
}
