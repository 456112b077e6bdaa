import type { Rule } from "../domain/rule.ts";
import { closed, nullable, type JsonSchema } from "./schema.ts";

/** What a query or the fields of a body may hold, by name. */
export type Inputs = Readonly<Record<string, Input<unknown>>>;

/** A value of a query or a field of a body: its rule, what counts where it is absent, and what it is for. */
export interface Input<Value> extends Rule<Value> {
  /** What counts where there is none, or null in a body. Null where it must be given. */
  readonly absent: { readonly value: Value } | null;
  /** Empty where the name says it all. */
  readonly description: string;
}

/** The values of a query or a body, by name. */
export type InputValues<Of extends Inputs> = {
  readonly [Name in keyof Of]: Of[Name] extends Input<infer Value> ? Value : never;
};

/** What must be given. `schema` is what its schema says beside the rule's, as with the others. */
export function required<T>(rule: Rule<T>, description = "", schema: JsonSchema = {}): Input<T> {
  return { ...rule, schema: { ...rule.schema, ...schema }, absent: null, description };
}

/** What may be absent; it is null then. */
export function optional<T>(
  rule: Rule<T>,
  description = "",
  schema: JsonSchema = {},
): Input<T | null> {
  return { ...required<T | null>(rule, description, schema), absent: { value: null } };
}

/** What may be absent; it is `standard` then. */
export function withDefault<T extends string | number | boolean>(
  rule: Rule<T>,
  standard: T,
  description = "",
): Input<T> {
  const input = required(rule, description, { default: standard });
  return { ...input, absent: { value: standard } };
}

/** The schema of a body of such fields: those that may be absent may be null as well. */
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
