import { joined, line, markup, type Markup, type Piece } from "./markup.ts";
import { nameOf, type ShownSchema } from "./shown-document.ts";

/** The place of a named schema on the page. */
export function schemaAnchor(name: string): string {
  return `schema-${name}`;
}

/** A schema in a few words; a named one is a link. */
export function typeMarkup(schema: ShownSchema): Piece {
  const { $ref, enum: values, anyOf, allOf, items, type, format } = schema;
  if ($ref !== undefined) {
    return markup`<a href="#${schemaAnchor(nameOf($ref))}">${nameOf($ref)}</a>`;
  }
  if (schema.const !== undefined) return markup`<code>${JSON.stringify(schema.const)}</code>`;
  if (values !== undefined) {
    return joined(
      values.map((value) => markup`<code>${JSON.stringify(value)}</code>`),
      markup` <i>or</i> `,
    );
  }
  if (anyOf !== undefined) return joined(anyOf.map(typeMarkup), markup` <i>or</i> `);
  if (allOf !== undefined) return joined(allOf.map(typeMarkup), markup` <i>and</i> `);
  if (items !== undefined) return ["array of ", typeMarkup(items)];
  const names = typeof type === "string" ? [type] : (type ?? ["any JSON"]);
  return `${names.join(" or ")}${format === undefined ? "" : ` (${format})`}`;
}

/** A table of the fields of a schema; null where it has none of its own. */
export function fieldsMarkup(schema: ShownSchema): Markup | null {
  const rows = fieldsOf(schema, "");
  if (rows.length === 0) return null;
  return markup`<table><thead><tr><th>Field</th><th>Type</th><th>Meaning</th></tr></thead><tbody>
${rows.map(fieldRow)}</tbody></table>\n`;
}

/** The bounds that a value has to keep to, beside its type. */
export function boundsMarkup(schema: ShownSchema): Piece {
  const bounds: readonly Piece[] = [
    range(schema.minimum, schema.maximum, ""),
    range(schema.minLength, schema.maxLength, "characters"),
    range(schema.minItems, schema.maxItems, "items"),
    shown("pattern", schema.pattern),
    shown("default", schema.default),
    shown("for example", schema.examples?.[0]),
  ].filter((bound) => bound !== null);
  if (bounds.length === 0) return null;
  return markup` <span class="bounds">${joined(bounds, "; ")}</span>`;
}

interface Field {
  readonly name: string;
  readonly schema: ShownSchema;
  readonly isRequired: boolean;
}

// Of its own alone: a schema with a name has a table elsewhere.
function fieldsOf(schema: ShownSchema, prefix: string): readonly Field[] {
  const { properties = {}, required = [], items, anyOf = [], allOf = [] } = schema;
  const own = Object.entries(properties).flatMap(([key, value]) => {
    const name = `${prefix}${key}`;
    const field = { name, schema: value, isRequired: required.includes(key) };
    return [field, ...fieldsOf(value, `${name}.`)];
  });
  const inItems = items === undefined ? [] : fieldsOf(items, `${prefix.replace(/\.$/, "")}[].`);
  return [...own, ...inItems, ...[...anyOf, ...allOf].flatMap((each) => fieldsOf(each, prefix))];
}

function fieldRow({ name, schema, isRequired }: Field): Markup {
  const presence = isRequired ? null : markup` <span class="bounds">optional</span>`;
  return markup`<tr><td><code>${name}</code>${presence}</td><td>${typeMarkup(schema)}</td><td>${line(
    schema.description ?? "",
  )}${boundsMarkup(schema)}</td></tr>\n`;
}

function range(least: number | undefined, most: number | undefined, unit: string): string | null {
  if (least === undefined && most === undefined) return null;
  return `${rangeText(least, most)} ${unit}`.trimEnd();
}

function rangeText(least: number | undefined, most: number | undefined): string {
  if (least === undefined) return `at most ${most}`;
  return most === undefined ? `at least ${least}` : `${least} to ${most}`;
}

function shown(what: string, value: unknown): Markup | null {
  if (value === undefined) return null;
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return markup`${what} <code>${text}</code>`;
}
