import { closed, type JsonSchema } from "../api/schema.ts";
import { isJsonObject, toPlainNumber } from "../domain/json/json.ts";
import { oneOf } from "../domain/rule.ts";
import type { Rule } from "../domain/rule.ts";
import { StatusError, statusMessage, type StatusDetail } from "../domain/status.ts";
import { isPlainText } from "../domain/text.ts";

/** What one field of a small body may hold: how it is read, and how that is documented. */
export interface FieldRule<Value> {
  /** The value, or what a client has to do about it, as a sentence. */
  readonly parse: (value: unknown) => { readonly value: Value } | { readonly reason: string };
  readonly schema: JsonSchema;
  readonly isRequired: boolean;
}

/** The fields of a body, by name. */
export type FieldRules = Readonly<Record<string, FieldRule<unknown>>>;

/** The values of a body by the rules. */
export type FieldValues<Rules extends FieldRules> = {
  readonly [Name in keyof Rules]: Rules[Name] extends FieldRule<infer Value> ? Value : never;
};

/**
 * Reads a body that must be an object of these fields. Throws 40503 where it is no object, else 40501 for the
 * first field that is unknown or breaks its rule, with all such fields among the details.
 */
export function parseFields<Rules extends FieldRules>(
  body: unknown,
  rules: Rules,
): FieldValues<Rules> {
  if (!isJsonObject(body)) {
    throw new StatusError(40503, { detail: "The body must be a JSON object." });
  }
  const faults = Object.keys(body)
    .filter((name) => !Object.hasOwn(rules, name))
    .map((name) => ({ name, reason: "It is not known here." }));
  const values: Record<string, unknown> = {};
  for (const [name, rule] of Object.entries(rules)) {
    const parsed = parseField(rule, Object.hasOwn(body, name) ? body[name] : undefined);
    if ("reason" in parsed) faults.push({ name, reason: parsed.reason });
    else values[name] = parsed.value;
  }
  if (faults.length > 0) throw invalidFields(faults);
  // Every name of the rules has been given what its own rule made.
  return values as FieldValues<Rules>;
}

/** The schema of such a body. */
export function fieldsSchema(rules: FieldRules): JsonSchema {
  const entries = Object.entries(rules);
  const required = entries.flatMap(([name, { isRequired }]) => (isRequired ? [name] : []));
  return closed({
    type: "object",
    properties: Object.fromEntries(entries.map(([name, { schema }]) => [name, schema])),
    ...(required.length === 0 ? {} : { required }),
  });
}

/** How much text a field takes. */
export interface TextBounds {
  /** In code points. */
  readonly lengthMax: number;
  /** A stricter rule, and what to do where it is broken. */
  readonly also?: { readonly isFine: (text: string) => boolean; readonly reason: string };
  /** Line breaks and tabs are fine. */
  readonly isMultiline?: boolean;
}

/** A field of text that must be given. */
export function requiredText(bounds: TextBounds, schema: JsonSchema): FieldRule<string> {
  return {
    parse: (value) => parseText(value, bounds),
    schema: { type: "string", maxLength: bounds.lengthMax, ...schema },
    isRequired: true,
  };
}

/** A field of text that may be absent or null; its value is null then. */
export function optionalText(bounds: TextBounds, schema: JsonSchema): FieldRule<string | null> {
  return {
    parse: (value) =>
      value === undefined || value === null ? { value: null } : parseText(value, bounds),
    schema: { type: ["string", "null"], maxLength: bounds.lengthMax, ...schema },
    isRequired: false,
  };
}

/** A field that follows a rule and must be given; `schema` is what its schema says beside. */
export function required<T>(rule: Rule<T>, schema: JsonSchema = {}): FieldRule<T> {
  return {
    parse(value) {
      const parsed = rule.parse(value);
      return parsed.kind === "value" ? parsed : { reason: `It must be ${rule.takes}.` };
    },
    schema: { ...rule.schema, ...schema },
    isRequired: true,
  };
}

/** A field that follows a rule and may be absent or null; its value is null then. */
export function optional<T>(rule: Rule<T>, schema: JsonSchema = {}): FieldRule<T | null> {
  const { parse } = required(rule);
  const { type, ...rest } = rule.schema;
  return {
    parse: (value) => (value === undefined || value === null ? { value: null } : parse(value)),
    schema: { type: [type, "null"], ...rest, ...schema },
    isRequired: false,
  };
}

/** A field of one of a few words that may be absent or null; its value is null then. */
export function optionalWord<const Word extends string>(
  words: readonly Word[],
  description: string,
): FieldRule<Word | null> {
  return optional(oneOf(words), { enum: [...words, null], description });
}

/** What numbers a field takes. */
export interface NumberBounds {
  readonly min: number;
  readonly max: number;
  /** The value where it is absent or null. */
  readonly standard: number;
  /** Any number in between where this is false. */
  readonly isWhole: boolean;
}

/** A field of a number that may be absent or null. What is out of range is refused, never clamped. */
export function optionalNumber(
  { min, max, standard, isWhole }: NumberBounds,
  description: string,
): FieldRule<number> {
  const reason = `It must be a ${isWhole ? "whole " : ""}number from ${min} to ${max}.`;
  return {
    parse(value) {
      if (value === undefined || value === null) return { value: standard };
      const number = toPlainNumber(value);
      const isFine = typeof number === "number" && number >= min && number <= max;
      return isFine && (!isWhole || Number.isInteger(number)) ? { value: number } : { reason };
    },
    schema: {
      type: [isWhole ? "integer" : "number", "null"],
      ...{ minimum: min, maximum: max, default: standard, description },
    },
    isRequired: false,
  };
}

/** A field of `true` or `false` that may be absent or null; its value is false then. */
export function optionalBoolean(description: string): FieldRule<boolean> {
  return {
    parse(value) {
      if (value === undefined || value === null) return { value: false };
      return typeof value === "boolean" ? { value } : { reason: "It must be true or false." };
    },
    schema: { type: ["boolean", "null"], default: false, description },
    isRequired: false,
  };
}

function parseText(
  value: unknown,
  { lengthMax, also, isMultiline = false }: TextBounds,
): { readonly value: string } | { readonly reason: string } {
  const isString = typeof value === "string";
  const line = isString && isMultiline ? value.replaceAll(/[\t\n\r]/g, " ") : value;
  if (!isString || !isPlainText(line, lengthMax)) {
    const rule = `a string of at most ${lengthMax} characters, without control characters`;
    return { reason: `It must be ${rule} or lone surrogates.` };
  }
  return also === undefined || also.isFine(value) ? { value } : { reason: also.reason };
}

function parseField<Value>(
  rule: FieldRule<Value>,
  value: unknown,
): { readonly value: Value } | { readonly reason: string } {
  const isAbsent = value === undefined || value === null;
  return rule.isRequired && isAbsent ? { reason: "It is missing." } : rule.parse(value);
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
