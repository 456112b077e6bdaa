/** The path of the reference. It stands in a file without imports, because a start loads it before the rest. */
export const REFERENCE_PATH = "/docs";

/** The parts of `/openapi.json` that the reference shows, as `openapi/` makes them. */
export interface ShownDocument {
  readonly info: { readonly version: string; readonly description: string };
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, ShownOperation>>>>;
  readonly components: {
    readonly securitySchemes: Readonly<Record<string, { readonly description: string }>>;
    readonly schemas: Readonly<Record<string, ShownSchema>>;
    readonly headers: Readonly<Record<string, ShownHeader>>;
    readonly examples: Readonly<
      Record<string, { readonly summary: string; readonly value: unknown }>
    >;
  };
}

export interface ShownOperation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly description: string;
  readonly security: readonly Readonly<Record<string, unknown>>[];
  readonly parameters?: readonly ShownParameter[];
  readonly requestBody?: ShownContent & { readonly required: boolean };
  readonly responses: Readonly<Record<string, ShownAnswer>>;
  /** By name, expression and method. */
  readonly callbacks?: Readonly<
    Record<string, Readonly<Record<string, Readonly<Record<string, ShownOperation>>>>>
  >;
}

export interface ShownParameter {
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  readonly description: string;
  readonly schema: ShownSchema;
  readonly example?: unknown;
}

export interface ShownContent {
  readonly content?: Readonly<Record<string, ShownBody>>;
}

export interface ShownBody {
  readonly schema: ShownSchema;
  readonly examples?: Readonly<Record<string, ShownExample>>;
}

export type ShownExample = Reference | { readonly value: unknown };

export interface ShownAnswer extends ShownContent {
  readonly description: string;
  readonly headers?: Readonly<Record<string, Reference | ShownHeader>>;
}

export interface ShownHeader {
  readonly description: string;
  readonly schema: ShownSchema;
}

export interface Reference {
  readonly $ref: string;
}

/** JSON Schema, as far as the document uses it. */
export interface ShownSchema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly properties?: Readonly<Record<string, ShownSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | ShownSchema;
  readonly items?: ShownSchema;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly ShownSchema[];
  readonly allOf?: readonly ShownSchema[];
  readonly format?: string;
  readonly pattern?: string;
  readonly default?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly examples?: readonly unknown[];
}

/** The last part of a reference: the name of what it stands for. */
export function nameOf($ref: string): string {
  return $ref.slice($ref.lastIndexOf("/") + 1);
}

const TEXT = Symbol("markup");

/** HTML that is safe to send: every text in it was escaped. No JSON can pass for it, because its key is a symbol. */
export interface Markup {
  readonly [TEXT]: string;
}

/** A part of a page: markup stays as it is, text is escaped, null is nothing. */
export type Piece = Markup | string | number | null | readonly Piece[];

/** Makes markup of a template's own text, which is trusted, and the pieces in it, which are not. */
export function markup(texts: TemplateStringsArray, ...pieces: readonly Piece[]): Markup {
  const parts = texts.map((text, at) => text + textOf(pieces[at] ?? null));
  return { [TEXT]: parts.join("") };
}

/** Pieces one after the other, with markup between them. */
export function joined(pieces: readonly Piece[], between: Piece): Piece {
  return pieces.flatMap((piece, at) => (at === 0 ? [piece] : [between, piece]));
}

export function textOf(piece: Piece): string {
  if (piece === null) return "";
  if (typeof piece === "string" || typeof piece === "number") return escaped(String(piece));
  if (TEXT in piece) return piece[TEXT];
  return piece.map(textOf).join("");
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? "");
}

const CODE = /`([^`]+)`/;
const EMPHASIS = /(?<=^|\s)_([^_]+)_(?=\s|$)/;

/** A line of the document, whose Markdown is of two kinds: `code` and _emphasis_. */
export function line(text: string): Piece {
  return text.split(CODE).map((part, at) => {
    if (at % 2 === 1) return markup`<code>${part}</code>`;
    return part.split(EMPHASIS).map((each, index) => {
      return index % 2 === 1 ? markup`<em>${each}</em>` : each;
    });
  });
}

/** Several lines of the document: those that begin with a dash are a list. */
export function prose(text: string): Piece {
  const lines = text.split("\n");
  const items = lines.filter((each) => each.startsWith("- "));
  const rest = lines.filter((each) => !each.startsWith("- ")).join(" ");
  return [
    rest === "" ? null : markup`<p>${line(rest)}</p>\n`,
    items.length === 0
      ? null
      : markup`<ul>${items.map((each) => markup`<li>${line(each.slice(2))}</li>`)}</ul>\n`,
  ];
}

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

/** The command that asks for an operation, with the document's own examples. */
export function curlOf(method: string, path: string, operation: ShownOperation): string {
  const { parameters = [], requestBody } = operation;
  const verb = method.toUpperCase();
  const body = exampleBody(Object.values(requestBody?.content ?? {})[0]);
  const isImplied = verb === "GET" || (verb === "POST" && body !== null);
  return [
    `curl ${isImplied ? "" : `-X ${verb} `}"$URL${doubleQuoted(filledPath(path, parameters))}"`,
    ...credentials(operation),
    ...(body === null ? [] : ["-H 'Content-Type: application/json'", `-d ${singleQuoted(body)}`]),
  ].join(" \\\n  ");
}

function filledPath(path: string, parameters: readonly ShownParameter[]): string {
  const inPath = parameters.filter((parameter) => parameter.in === "path");
  return inPath.reduce((filled, { name, example = name.toUpperCase() }) => {
    return filled.replace(`{${name}}`, () => encodeURIComponent(String(example)));
  }, path);
}

function exampleBody(body: ShownBody | undefined): string | null {
  if (body === undefined) return null;
  const [example] = Object.values(body.examples ?? {});
  if (example === undefined || !("value" in example)) return "{}";
  return JSON.stringify(example.value);
}

function credentials({ security }: ShownOperation): readonly string[] {
  const schemes = new Set(security.flatMap((each) => Object.keys(each)));
  if (schemes.has("bearer")) return ['-H "Authorization: Bearer $KEY"'];
  if (schemes.has("metrics")) return ['-H "Authorization: Bearer $METRICS_TOKEN"'];
  if (schemes.has("worker")) return ['-H "Authorization: Bearer $TOKEN"'];
  if (!schemes.has("session")) return [];
  return ['-b "$COOKIE"', "-H 'X-Requested-With: postbackd'", '-H "Origin: $URL"'];
}

function doubleQuoted(text: string): string {
  return text.replaceAll(/["$`\\]/g, String.raw`\$&`);
}

function singleQuoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
