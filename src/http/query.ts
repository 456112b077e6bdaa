import { StatusError } from "../domain/status.ts";

/** What may stand in a query: for each name, how its text becomes a value, or null when it cannot. */
export type QueryRules = Readonly<Record<string, (text: string) => unknown>>;

/** The values of a query by the rules: null for what is absent. */
export type QueryValues<Rules extends QueryRules> = {
  readonly [Name in keyof Rules]: Exclude<ReturnType<Rules[Name]>, null> | null;
};

/**
 * Reads a query. What is unknown, repeated, malformed or out of range is 40000 and never clamped or
 * ignored (contract §1): a client that mistypes a filter must not get everything.
 */
export function parseQuery<Rules extends QueryRules>(
  query: URLSearchParams,
  rules: Rules,
): QueryValues<Rules> {
  const values: Record<string, unknown> = {};
  for (const name of Object.keys(rules)) values[name] = null;
  for (const [name, text] of query) {
    const rule = Object.hasOwn(rules, name) ? rules[name] : undefined;
    if (rule === undefined) throw malformed(name, "It is not known here");
    if (values[name] !== null) throw malformed(name, "It may stand only once");
    const value = rule(text);
    if (value === null) throw malformed(name, "Its value is malformed or out of range");
    values[name] = value;
  }
  // Every name of the rules has been given null or what its own rule made.
  return values as QueryValues<Rules>;
}

function malformed(name: string, what: string): StatusError {
  const shown = name.length <= 64 ? name : `${name.slice(0, 64).toWellFormed()}…`;
  const detail = `${what}: the query parameter '${shown}'.`;
  return new StatusError(40000, { details: [{ pointer: "", detail }] });
}

/** A rule for whole numbers from `min` to `max`, in plain digits. */
export function wholeNumber(min: number, max: number): (text: string) => number | null {
  return (text) => {
    const number = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    return number >= min && number <= max ? number : null;
  };
}

/** A rule for `true` and `false`. */
export function trueOrFalse(text: string): boolean | null {
  if (text === "true") return true;
  return text === "false" ? false : null;
}

/** A rule for text of at most `lengthMax` UTF-16 units. */
export function textUpTo(lengthMax: number): (text: string) => string | null {
  return (text) => (text.length <= lengthMax ? text : null);
}
