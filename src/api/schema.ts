/** A schema in JSON Schema 2020-12, the dialect of OpenAPI 3.1, as plain JSON. */
export interface JsonSchema {
  readonly [keyword: string]: unknown;
  /** Of a reference: the schema that it stands for. It is a symbol, so that no JSON shows it. */
  readonly [DEFINITION]?: JsonSchema;
}

const DEFINITION = Symbol("definition");
const COMPONENT = "#/components/schemas/";
declare const VALUE: unique symbol;

/** A schema, with the type of the values that fit it. It is only a type: nothing checks a value. */
export interface Schema<Value> extends JsonSchema {
  readonly [VALUE]?: Value;
}

/** The type of the values that fit a schema. */
export type Static<Of extends Schema<unknown>> = Of extends Schema<infer Value> ? Value : never;

/** The members of an object, by name and in their order. */
export type Fields = Readonly<Record<string, Schema<unknown>>>;

export type ValuesOf<Of extends Fields> = { readonly [Name in keyof Of]: Static<Of[Name]> };

/** Further keywords of a schema; a text is its description. */
export type More = JsonSchema | string;

function keywords(more: More): JsonSchema {
  return typeof more === "string" ? { description: more } : more;
}

export function text(more: More = {}): Schema<string> {
  return { type: "string", ...keywords(more) };
}

export function word<const Word extends string>(
  words: readonly Word[],
  more: More = {},
): Schema<Word> {
  return { type: "string", enum: words, ...keywords(more) };
}

export function number(more: More = {}): Schema<number> {
  return { type: "number", ...keywords(more) };
}

export function integer(more: More = {}): Schema<number> {
  return { type: "integer", ...keywords(more) };
}

export function count(more: More = {}): Schema<number> {
  return integer({ minimum: 0, ...keywords(more) });
}

export function flag(more: More = {}): Schema<boolean> {
  return { type: "boolean", ...keywords(more) };
}

export function constant<const Value extends string | number>(
  value: Value,
  more: More = {},
): Schema<Value> {
  return { const: value, ...keywords(more) };
}

export function anything(more: More = {}): Schema<unknown> {
  return keywords(more);
}

export function list<Item>(items: Schema<Item>, more: More = {}): Schema<readonly Item[]> {
  return { type: "array", items, ...keywords(more) };
}

/**
 * An object of an answer: all of `fields` are there, those that are `optional` may be, and later versions may add some.
 */
export function object<Own extends Fields, Optional extends Fields = {}>(
  fields: Own,
  { optional, ...more }: JsonSchema & { readonly optional?: Optional } = {},
): Schema<ValuesOf<Own> & Partial<ValuesOf<Optional>>> {
  const properties = { ...fields, ...optional };
  const required = Object.keys(fields);
  return {
    type: "object",
    ...more,
    ...(Object.keys(properties).length === 0 ? {} : { properties }),
    ...(required.length === 0 ? {} : { required }),
  };
}

/** An object of a body: members with other names are refused. */
export function closed<Value>(schema: Schema<Value>): Schema<Value> {
  return { ...schema, additionalProperties: false };
}

export function either<One, Other>(
  one: Schema<One>,
  other: Schema<Other>,
  more: More = {},
): Schema<One | Other> {
  return { anyOf: [one, other], ...keywords(more) };
}

export function nullable<Value>(schema: Schema<Value>, more: More = {}): Schema<Value | null> {
  const { type, enum: words } = schema;
  if (typeof type !== "string") return { anyOf: [schema, { type: "null" }], ...keywords(more) };
  const orNull = Array.isArray(words) ? { enum: [...words, null] } : {};
  return { ...schema, type: [type, "null"], ...orNull, ...keywords(more) };
}

/** A schema that the document shows once, by this name, and refers to everywhere else. */
export function named<Value>(name: string, schema: Schema<Value>): Schema<Value> {
  return { $ref: `${COMPONENT}${name}`, [DEFINITION]: schema };
}

/** The names of an object's members, also of a named object, in their order. */
export function memberNames(schema: JsonSchema): readonly string[] {
  return Object.keys(Object((schema[DEFINITION] ?? schema)["properties"]));
}

/** Every named schema that a part of the document refers to, by its name. */
export function namedSchemas(part: unknown): Readonly<Record<string, JsonSchema>> {
  const found: Record<string, JsonSchema> = {};
  // Many parts are the same object in many places.
  const known = new Set<object>();
  const look = (value: unknown): void => {
    if (typeof value !== "object" || value === null || known.has(value)) return;
    known.add(value);
    const { $ref, [DEFINITION]: definition }: JsonSchema = Object(value);
    if (definition !== undefined) add(String($ref).replace(COMPONENT, ""), definition);
    Object.values(value).forEach(look);
  };
  const add = (name: string, definition: JsonSchema): void => {
    if (found[name] === definition) return;
    if (found[name] !== undefined) throw new Error(`two schemas are named ${name}`);
    found[name] = definition;
    look(definition);
  };
  look(part);
  return found;
}
