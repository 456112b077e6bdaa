import type { Input, InputValues, Inputs } from "../api/input.ts";
import { isJsonObject } from "../domain/json/json.ts";
import { type Rule, parseText } from "../domain/rule.ts";
import { type StatusDetail, StatusError, statusMessage } from "../domain/status.ts";
import { unknownNote } from "../domain/text.ts";

/**
 * Reads a body that must be an object with the given fields. Throws 40503 when it is not an object, else 40501 for the
 * first field that is unknown or breaks its rule, with all such fields among the details.
 */
export function parseFields<Fields extends Inputs>(
  body: unknown,
  fields: Fields,
): InputValues<Fields> {
  if (!isJsonObject(body)) {
    throw new StatusError(40503, { detail: "The body must be a JSON object." });
  }
  const faults = Object.keys(body)
    .filter((name) => !Object.hasOwn(fields, name))
    .slice(0, FAULTS_MAX)
    .map((name) => ({ name, reason: `This field is ${unknownNote(name, Object.keys(fields))}.` }));
  const values: Record<string, unknown> = {};
  for (const [name, field] of Object.entries(fields)) {
    const parsed = parseField(field, Object.hasOwn(body, name) ? body[name] : null);
    if ("reason" in parsed) faults.push({ name, reason: parsed.reason });
    else values[name] = parsed.value;
  }
  if (faults.length > 0) throw invalidFields(faults);
  // Every name of the fields has the value that its own rule made.
  return values as InputValues<Fields>;
}

function parseField<Value>(
  field: Input<Value>,
  given: unknown,
): { readonly value: Value } | { readonly reason: string } {
  if (given === null) return field.absent ?? { reason: "It is missing." };
  const parsed = field.parse(given);
  if (parsed.kind === "value") return parsed;
  return {
    reason: parsed.isOfItem === true ? `Its ${parsed.reason}.` : `It must be ${field.takes}.`,
  };
}

interface FieldFault {
  readonly name: string;
  readonly reason: string;
}

const FAULTS_MAX = 20;

/** 40501 for one field, with what a client has to do about it. */
export function invalidField(name: string, reason: string): StatusError {
  return invalidFields([{ name, reason }]);
}

function invalidFields(faults: readonly FieldFault[]): StatusError {
  const shown = faults.slice(0, FAULTS_MAX).map(({ name, reason }) => ({
    name: shorten(name),
    reason,
  }));
  const [first = { name: "", reason: "" }] = shown;
  return new StatusError(40501, {
    message: statusMessage(40501, first),
    details: shown.map(toDetail),
  });
}

function toDetail({ name, reason }: FieldFault): StatusDetail {
  return { pointer: `/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`, detail: reason };
}

function shorten(name: string): string {
  return (name.length <= 64 ? name : `${name.slice(0, 64)}…`).toWellFormed();
}

/**
 * Reads a query. A parameter that is unknown, repeated, malformed or out of range is 40000 and never clamped or ignored
 * (http-api.md): a client that mistypes a filter must not get everything.
 */
export function parseQuery<Query extends Inputs>(
  query: URLSearchParams,
  inputs: Query,
): InputValues<Query> {
  const values: Record<string, unknown> = {};
  for (const [name, text] of query) {
    const input = Object.hasOwn(inputs, name) ? inputs[name] : undefined;
    if (input === undefined) throw malformed(name, `is ${unknownNote(name, Object.keys(inputs))}`);
    if (Object.hasOwn(values, name)) throw malformed(name, "may occur only once");
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
 * Throws 40000 for an invalid escape, or an escape that is not UTF-8. URLSearchParams takes `%zz` literally and `%ff`
 * for U+FFFD, so a filter would have an unintended value.
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
  return malformed(name, `takes ${takes}`);
}

function malformed(name: string, what: string): StatusError {
  const shown = name.length <= 64 ? name : `${name.slice(0, 64).toWellFormed()}…`;
  return badRequest(`The query parameter '${shown}' ${what}.`);
}

function badRequest(detail: string): StatusError {
  return new StatusError(40000, { detail });
}
