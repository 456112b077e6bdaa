import { INSTANT } from "../domain/clock/time.ts";
import { integerBetween, textRule, type Rule } from "../domain/rule.ts";
import { isAtMostCodePoints } from "../domain/text.ts";
import { closed, nullable, type JsonSchema, type Schema } from "./schema.ts";

/** The values that a query or the fields of a body may hold, by name. */
export type Inputs = Readonly<Record<string, Input<unknown>>>;

/** A value of a query or a field of a body: its rule, its value when it is absent, and its purpose. */
export interface Input<Value, Written = unknown> extends Rule<Value, Written> {
  /** The value that counts when it is absent, or null in a body. Null when it is required. */
  readonly absent: { readonly value: Value } | null;
  /** Empty where the name says it all. */
  readonly description: string;
}

interface OptionalInput<Value, Written> extends Input<Value, Written> {
  readonly absent: { readonly value: Value };
}

/** The values of a query or a body, by name. */
export type InputValues<Of extends Inputs> = {
  readonly [Name in keyof Of]: Of[Name] extends Input<infer Value> ? Value : never;
};

/** The values as a client writes them, by name. An optional one may be undefined or `Gap`. */
export type WrittenInputs<Of extends Inputs, Gap = never> = keyof Of extends never
  ? Nothing
  : { readonly [Name in RequiredName<Of>]: WrittenOf<Of[Name]> } & {
      readonly [Name in Exclude<keyof Of, RequiredName<Of>>]?:
        | WrittenOf<Of[Name]>
        | Gap
        | undefined;
    };

/** An object without members. */
export type Nothing = Readonly<Record<string, never>>;

type RequiredName<Of extends Inputs> = {
  [Name in keyof Of]: Of[Name]["absent"] extends object ? never : Name;
}[keyof Of];

type WrittenOf<One> = One extends Input<unknown, infer Written> ? Written : never;

/** The inputs of an operation beside the parts of its path. */
export interface OperationInputs {
  readonly query?: Inputs;
  readonly body?: Inputs;
  /** No body is the same as `{}`. */
  readonly isBodyOptional?: true;
  /**
   * The content that makes the body large, see http/body.ts; without it a few KiB are all. Bodies of leases and results
   * the operation parses itself: those may take long, see http/long-bodies.ts.
   */
  readonly holds?: "message" | "leases" | "results";
  /** Any JSON that the operation parses itself, by how many tasks there may be: instead of fields. */
  readonly json?: (tasksMax: number) => Schema<unknown>;
}

/** The inputs of the operations with the given responses; an operation that is left out takes nothing. */
export type InputsFor<Answers> = { readonly [Key in keyof Answers]?: OperationInputs };

/** A required value. `schema` adds to the schema of the rule, here as below. */
export function required<T, Written>(
  rule: Rule<T, Written>,
  description = "",
  schema: JsonSchema = {},
): Input<T, Written> {
  return { ...rule, schema: { ...rule.schema, ...schema }, absent: null, description };
}

/** An optional value, which is null when absent. */
export function optional<T, Written>(
  rule: Rule<T, Written>,
  description = "",
  schema: JsonSchema = {},
): OptionalInput<T | null, Written> {
  const input = required<T | null, Written>(rule, description, schema);
  return { ...input, absent: { value: null } };
}

/** An optional value, which is `standard` when absent. */
export function withDefault<T extends string | number | boolean, Written>(
  rule: Rule<T, Written>,
  standard: T,
  description = "",
): OptionalInput<T, Written> {
  const input = required(rule, description, { default: standard });
  return { ...input, absent: { value: standard } };
}

/** A whole number from `min` to `max`, in plain digits. */
export function wholeNumber(
  { min, max, standard }: { readonly min: number; readonly max: number; readonly standard: number },
  description: string,
) {
  return withDefault(integerBetween(min, max), standard, description);
}

/** Text of at most `lengthMax` code points. */
export function textUpTo(lengthMax: number, description: string) {
  const rule = textRule({
    takes: `at most ${lengthMax} characters`,
    hint: "TEXT",
    schema: { type: "string", maxLength: lengthMax },
    read: (text) => (isAtMostCodePoints(text, lengthMax) ? text : null),
  });
  return optional(rule, description);
}

/** A time in RFC 3339, in a query: milliseconds since the epoch. */
export function pointInTime(description: string, { example = "2030-01-31T09:00:00.000Z" } = {}) {
  const rule = { ...INSTANT, takes: `${INSTANT.takes}, where + is %2B` };
  const text = `${description} RFC 3339; the + of an offset is written %2B.`;
  return optional(rule, text, { examples: [example] });
}

/** The place where a page begins, as the page before has named it. The operation reads its meaning. */
export const CURSOR_RULE = textRule({
  takes: "the next_cursor of an earlier page of this list",
  hint: "CURSOR",
  // Without an example: a cursor is valid only for the caller that received it.
  schema: { type: "string", pattern: "^[A-Za-z0-9_-]+$" },
  read: (text) => text,
});

export const CURSOR = optional(
  CURSOR_RULE,
  "`next_cursor` of the page before, with the same filters.",
);

/** The schema of a body of such fields: those that may be absent may also be null. */
export function bodySchema(inputs: Inputs): JsonSchema {
  const entries = Object.entries(inputs);
  const names = entries.flatMap(([name, { absent }]) => (absent === null ? [name] : []));
  return closed({
    type: "object",
    properties: Object.fromEntries(entries.map(([name, input]) => [name, fieldSchema(input)])),
    ...(names.length === 0 ? {} : { required: names }),
  });
}

function fieldSchema({ schema, absent, description }: Input<unknown>): JsonSchema {
  const about = description === "" ? {} : { description };
  return absent === null ? { ...schema, ...about } : nullable(schema, about);
}
