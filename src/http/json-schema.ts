/** A schema in JSON Schema 2020-12, the dialect of OpenAPI 3.1, as plain JSON. */
export interface JsonSchema {
  readonly [keyword: string]: unknown;
}

/** A schema of the document's components, by name. */
export function schemaRef(name: string): JsonSchema {
  return { $ref: `#/components/schemas/${name}` };
}

/** An object of exactly these properties; all are required but those that are named. */
export function objectSchema(
  properties: Readonly<Record<string, JsonSchema>>,
  {
    optional = [],
    description,
  }: { readonly optional?: readonly string[]; readonly description?: string } = {},
): JsonSchema {
  const required = Object.keys(properties).filter((name) => !optional.includes(name));
  return {
    type: "object",
    ...(description === undefined ? {} : { description }),
    properties,
    ...(required.length === 0 ? {} : { required }),
    additionalProperties: false,
  };
}

/** The schema, or null. */
export function nullable(schema: JsonSchema): JsonSchema {
  const { type, ...rest } = schema;
  if (typeof type === "string" && !("enum" in rest)) return { ...rest, type: [type, "null"] };
  return { anyOf: [schema, { type: "null" }] };
}
