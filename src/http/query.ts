import type { Inputs, InputValues } from "../api/input.ts";
import { parseText } from "../domain/rule.ts";
import type { Rule } from "../domain/rule.ts";
import { StatusError } from "../domain/status.ts";
import { unknownNote } from "../domain/text.ts";

/**
 * Reads a query. A parameter that is unknown, repeated, malformed or out of range is 40000 and never clamped or ignored
 * (contract §1): a client that mistypes a filter must not get everything.
 */
export function parseQuery<Query extends Inputs>(
  query: URLSearchParams,
  inputs: Query,
): InputValues<Query> {
  const values: Record<string, unknown> = {};
  for (const [name, text] of query) {
    const input = Object.hasOwn(inputs, name) ? inputs[name] : undefined;
    if (input === undefined) throw malformed(name, unknownNote(name, Object.keys(inputs)));
    if (Object.hasOwn(values, name)) throw malformed(name, "It may stand only once");
    const parsed = parseText(input, text);
    if (parsed.kind === "fault") throw refusedValue(name, input);
    values[name] = parsed.value;
  }
  for (const [name, { absent }] of Object.entries(inputs)) {
    if (!Object.hasOwn(values, name)) values[name] = absent?.value ?? null;
  }
  // Every name of the inputs has the value that its own rule made, or its default.
  return values as InputValues<Query>;
}

/**
 * Throws 40000 for an invalid escape, or one that is not UTF-8. URLSearchParams takes `%zz` literally and `%ff` for
 * U+FFFD, so a filter would ask for what nobody meant.
 */
export function checkEscapes(search: string): void {
  try {
    decodeURIComponent(search);
  } catch {
    // This is the only error that it throws.
    throw badRequest("A percent escape in the query is malformed, or not UTF-8.");
  }
}

/** 40000 for a value that a rule refuses, or that only the operation can refuse. */
export function refusedValue(name: string, { takes }: Pick<Rule<unknown>, "takes">): StatusError {
  return malformed(name, `It takes ${takes}`);
}

function malformed(name: string, what: string): StatusError {
  const shown = name.length <= 64 ? name : `${name.slice(0, 64).toWellFormed()}…`;
  return badRequest(`${what}: the query parameter '${shown}'.`);
}

function badRequest(detail: string): StatusError {
  return new StatusError(40000, { detail });
}
