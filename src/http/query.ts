import type { JsonSchema } from "../api/schema.ts";
import { INSTANT } from "../domain/clock/time.ts";
import { integerBetween, parseText, textRule, TRUTH } from "../domain/rule.ts";
import type { Rule } from "../domain/rule.ts";
import { StatusError } from "../domain/status.ts";
import { isAtMostCodePoints } from "../domain/text.ts";

/** What one query parameter may hold, and what it is for. */
export interface QueryRule<Value> extends Rule<Value> {
  readonly description: string;
}

/** What may stand in a query, by name. */
export type QueryRules = Readonly<Record<string, QueryRule<unknown>>>;

/** The values of a query by the rules: null for what is absent. */
export type QueryValues<Rules extends QueryRules> = {
  readonly [Name in keyof Rules]: Rules[Name] extends QueryRule<infer Value> ? Value | null : never;
};

/** For operations that take no query parameter. */
export const NO_QUERY = {} as const satisfies QueryRules;

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
    const parsed = parseText(rule, text);
    if (parsed.kind === "fault") throw refusedValue(name, rule);
    values[name] = parsed.value;
  }
  // Every name of the rules has been given null or what its own rule made.
  return values as QueryValues<Rules>;
}

/**
 * Throws 40000 for an escape that is none, or that is no UTF-8. URLSearchParams takes `%zz` for itself and `%ff`
 * for U+FFFD, so that a filter would ask for what nobody meant.
 */
export function checkEscapes(search: string): void {
  try {
    decodeURIComponent(search);
  } catch {
    // The one thing it throws for.
    throw badRequest("A percent escape in the query is malformed, or not UTF-8.");
  }
}

/** 40000 for a value that a rule does not take, also where only the operation can tell. */
export function refusedValue(
  name: string,
  { takes }: Pick<QueryRule<unknown>, "takes">,
): StatusError {
  return malformed(name, `It takes ${takes}`);
}

function malformed(name: string, what: string): StatusError {
  const shown = name.length <= 64 ? name : `${name.slice(0, 64).toWellFormed()}…`;
  return badRequest(`${what}: the query parameter '${shown}'.`);
}

function badRequest(detail: string): StatusError {
  return new StatusError(40000, { detail });
}

/** A parameter that follows a rule; `schema` is what its schema says beside. */
export function parameter<T>(
  rule: Rule<T>,
  description: string,
  schema: JsonSchema = {},
): QueryRule<T> {
  return { ...rule, schema: { ...rule.schema, ...schema }, description };
}

/** A whole number from `min` to `max`, in plain digits. */
export function wholeNumber(
  { min, max, standard }: { readonly min: number; readonly max: number; readonly standard: number },
  description: string,
): QueryRule<number> {
  return parameter(integerBetween(min, max), description, { default: standard });
}

/** `true` or `false`. */
export function trueOrFalse(standard: boolean, description: string): QueryRule<boolean> {
  return parameter(TRUTH, description, { default: standard });
}

/** Text of at most `lengthMax` code points. */
export function textUpTo(lengthMax: number, description: string): QueryRule<string> {
  const rule = textRule({
    takes: `at most ${lengthMax} characters`,
    hint: "TEXT",
    schema: { type: "string", maxLength: lengthMax },
    read: (text) => (isAtMostCodePoints(text, lengthMax) ? text : null),
  });
  return parameter(rule, description);
}

/** A time in RFC 3339: milliseconds since the epoch. */
export function pointInTime(
  description: string,
  { example = "2030-01-31T09:00:00.000Z" } = {},
): QueryRule<number> {
  const rule = { ...INSTANT, takes: `${INSTANT.takes}, where + is %2B` };
  const text = `${description} RFC 3339; the + of an offset is written %2B.`;
  return parameter(rule, text, { examples: [example] });
}
