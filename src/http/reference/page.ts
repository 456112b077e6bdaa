import { type Markup, type Piece, joined, line, markup, prose, textOf } from "./markup.ts";

type Named<Value> = Readonly<Record<string, Value>>;

/** JSON Schema as the document uses it: keywords without a property here are shown by their names. */
export interface ShownSchema extends Named<unknown> {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly format?: string;
  readonly description?: string;
  readonly properties?: Named<ShownSchema>;
  readonly required?: readonly string[];
  readonly items?: ShownSchema;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly ShownSchema[];
  readonly allOf?: readonly ShownSchema[];
}

/** A parameter, a header, a body, an example or a response: the fields of all of them that are shown. */
interface ShownPart {
  readonly $ref?: string;
  readonly name?: string;
  readonly in?: string;
  readonly required?: boolean;
  readonly summary?: string;
  readonly description?: string;
  readonly schema?: ShownSchema;
  readonly example?: unknown;
  readonly value?: unknown;
  readonly examples?: Named<ShownPart>;
  readonly headers?: Named<ShownPart>;
  readonly content?: Named<ShownPart>;
}

interface ShownOperation {
  readonly operationId: string;
  readonly tags?: readonly string[];
  readonly summary: string;
  readonly description: string;
  readonly security: readonly Named<unknown>[];
  readonly parameters?: readonly ShownPart[];
  readonly requestBody?: ShownPart;
  readonly responses: Named<ShownPart>;
  /** By name, expression and method. */
  readonly callbacks?: Named<Named<Named<ShownOperation>>>;
}

/** The parts of `/openapi.json` that the reference shows, as `openapi/` makes them. */
export interface ShownDocument {
  readonly info: { readonly version: string; readonly description: string };
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly paths: Named<Named<ShownOperation>>;
  readonly components: {
    readonly securitySchemes: Named<ShownPart>;
    readonly schemas: Named<ShownSchema>;
    readonly headers: Named<ShownPart>;
    readonly examples: Named<ShownPart>;
  };
}

/**
 * The document as a page for people: HTML without scripts and without styles of its own, in pieces of an operation or a
 * schema each.
 */
export function* referencePieces(document: ShownDocument, stylePath: string): Generator<string> {
  const { info, components } = document;
  const groups = document.tags.map(({ name, description }) => {
    const placed = placedOperations(document.paths);
    return { name, description, placed: placed.filter((each) => each.tags?.includes(name)) };
  });
  const links = groups.map(({ name, placed }) => {
    const items = placed.map(({ title, operationId, summary }) => {
      return markup`<li><a href="#${operationId}" title="${title.join(" ")}">${summary}</a></li>\n`;
    });
    return markup`<p class="group"><a href="#group-${name}">${name}</a></p>\n<ul>\n${items}</ul>\n`;
  });
  yield textOf(markup`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>API reference · postbackd</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${stylePath}">
</head>
<body>
<nav aria-label="Operations">
<p class="group"><a href="#top">postbackd API</a> <span class="bounds">${info.version}</span></p>
${links}<p class="group"><a href="#headers">Headers of answers</a></p>
<p class="group"><a href="#errors">Errors</a></p>
<p class="group"><a href="#schemas">Schemas</a></p>
</nav>
<main id="top">
<h1>API reference</h1>
${prose(info.description)}<p>The same for programs: <a href="/openapi.json"><code>/openapi.json</code></a> (OpenAPI 3.1).
In the commands <code>$URL</code> stands for this daemon's address, <code>$KEY</code> for an API key, <code>$TOKEN</code>
for a worker's token, <code>$METRICS_TOKEN</code> for that of metrics and <code>$COOKIE</code> for the operator's session, as <code>postbackd-8787=…</code>.</p>
${section("credentials", "Credentials")}${table(
    Object.entries(components.securitySchemes).map(([name, { description }]) => {
      return [markup`<code id="scheme-${name}">${name}</code>`, line(description)];
    }),
  )}</section>\n`);
  for (const { name, description, placed } of groups) {
    yield textOf([section(`group-${name}`, name), prose(description)]);
    for (const each of placed) {
      const body = [operationMarkup(each), callbacksMarkup(each)];
      yield textOf(article(each.operationId, { title: each.summary, body }));
    }
    yield "</section>\n";
  }
  yield textOf(markup`${section("headers", "Headers of answers")}${headerTable(components.headers)}</section>
${section("errors", "Errors")}${Object.entries(components.examples).map(
    ([name, { summary, value }]) => article(name, { title: summary, body: jsonMarkup(value) }),
  )}</section>\n${section("schemas", "Schemas")}`);
  for (const [name, schema] of Object.entries(components.schemas)) {
    const type = markup`<p>${typeMarkup(schema)}</p>\n`;
    const body = [prose(schema.description), fieldsMarkup(schema) ?? type];
    yield textOf(article(`schema-${name}`, { title: name, body }));
  }
  yield "</section>\n</main>\n</body>\n</html>\n";
}

function section(id: string, title: string): Markup {
  return markup`<section id="${id}"><h2><a href="#${id}">${title}</a></h2>\n`;
}

function article(id: string, { title, body }: { readonly title: Piece; readonly body: Piece }) {
  return markup`<article id="${id}"><h3><a href="#${id}">${title}</a></h3>\n${body}</article>\n`;
}

function table(rows: readonly (readonly Piece[])[], heads: readonly string[] = []): Piece {
  if (rows.length === 0) return undefined;
  const head = markup`<thead><tr>${heads.map((each) => markup`<th>${each}</th>`)}</tr></thead>`;
  const body = rows.map((row) => markup`<tr>${row.map((each) => markup`<td>${each}</td>`)}</tr>\n`);
  return markup`<table>${heads.length > 0 && head}<tbody>\n${body}</tbody></table>\n`;
}

interface PlacedOperation extends ShownOperation {
  /** Its method and path. */
  readonly title: readonly [method: string, path: string];
}

function placedOperations(paths: ShownDocument["paths"]): readonly PlacedOperation[] {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => {
      return { ...operation, title: [method.toUpperCase(), path] as const };
    }),
  );
}

/** The callers of an operation, its input, its responses, and the command that calls it. */
function operationMarkup(operation: PlacedOperation, isCallback = false): Piece {
  const { title, description, requestBody, responses, parameters = [] } = operation;
  const [method, path] = title;
  const rows = parameters.map((parameter) => {
    const { name, in: place, required, schema = {}, example } = parameter;
    const shown = example === undefined ? schema : { ...schema, example };
    const bounds = markup`<span class="bounds">${place}${!required && ", optional"}</span>`;
    return fieldRow([markup`<code>${name}</code> ${bounds}`, shown], parameter.description);
  });
  return [
    markup`<p class="path"><b>${method}</b> <code>${path}</code></p>\n${prose(description)}`,
    !isCallback && markup`<p class="bounds">${callers(operation)}</p>\n`,
    rows.length > 0 && [markup`<h4>Parameters</h4>\n`, table(rows, ["Name", "Type", "Meaning"])],
    requestBody && markup`<h4>Body${!requestBody.required && " (optional)"}</h4>\n`,
    requestBody && contentMarkup(requestBody),
    !isCallback && markup`<h4>Ask</h4>\n<pre><code>${curlOf(operation)}</code></pre>\n`,
    markup`<h4>Answers</h4>\n`,
    Object.entries(responses).map(responseMarkup),
  ];
}

function callbacksMarkup({ callbacks = {} }: ShownOperation): Piece {
  const placed = Object.values(callbacks).flatMap(placedOperations);
  return placed.map((operation) => {
    const { operationId, summary } = operation;
    return markup`<section class="callback" id="${operationId}">
<h4><a href="#${operationId}">${summary}</a></h4>\n${operationMarkup(operation, true)}</section>\n`;
  });
}

const BEARER = '-H "Authorization: Bearer $KEY"';

/** By security scheme: its holder, and the arguments of curl. A command uses the first scheme of the operation. */
const CREDENTIALS: Named<readonly [who: string, ...args: readonly string[]]> = {
  bearer: ["an API key", BEARER],
  metrics: ["the metrics' token", BEARER.replace("KEY", "METRICS_TOKEN")],
  worker: ["a worker's token", BEARER.replace("KEY", "TOKEN")],
  session: [
    "a session of the dashboard",
    ...['-b "$COOKIE"', "-H 'X-Requested-With: postbackd'", '-H "Origin: $URL"'],
  ],
  basic: ["login and API key"],
};

function schemesOf({ security }: ShownOperation): readonly string[] {
  const taken = new Set(security.flatMap((each) => Object.keys(each)));
  return Object.keys(CREDENTIALS).filter((name) => taken.has(name));
}

function callers(operation: ShownOperation): Piece {
  const links = schemesOf(operation).map((name) => {
    return markup`<a href="#scheme-${name}">${CREDENTIALS[name]?.[0]}</a>`;
  });
  return links.length === 0 ? "Needs no key." : ["With ", joined(links, ", or "), "."];
}

/** The command that calls an operation, with the document's own examples. */
function curlOf(operation: PlacedOperation): string {
  const { title, parameters = [], requestBody } = operation;
  const [method, path] = title;
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const { example } = parameters.find((each) => each.name === name) ?? {};
    return encodeURIComponent(typeof example === "string" ? example : name.toUpperCase());
  });
  const [body] = Object.values(requestBody?.content ?? {});
  const [example = { value: {} }] = Object.values(body?.examples ?? {});
  const isImplied = method === "GET" || (method === "POST" && body !== undefined);
  const [, ...credentials] = CREDENTIALS[schemesOf(operation)[0] ?? ""] ?? [];
  const url = `"$URL${filled.replaceAll(/["$`\\]/g, String.raw`\$&`)}"`;
  const json = JSON.stringify(example.value ?? {}).replaceAll("'", String.raw`'\''`);
  return [
    `curl ${isImplied ? "" : `-X ${method} `}${url}`,
    ...credentials,
    ...(body === undefined ? [] : ["-H 'Content-Type: application/json'", `-d '${json}'`]),
  ].join(" \\\n  ");
}

const CODE = /^- `(\d+)` _([^_]+)_/gm;

function responseMarkup([status, response]: [string, ShownPart]): Markup {
  const { description = "", headers = {} } = response;
  // The description of an error is a list of its codes: the headline has them without their reasons.
  const codes = [...description.matchAll(CODE)].map(([, code, message]) => {
    return markup`<span class="code"><code>${code}</code> ${message}</span> `;
  });
  const own = Object.entries(headers).filter(([, { $ref }]) => $ref === undefined);
  const common = Object.keys(headers).filter((name) => headers[name]?.$ref !== undefined);
  const links = common.map((name) => markup`<a href="#headers">${name}</a>`);
  return markup`<details class="${status.startsWith("2") ? "good" : "bad"}"><summary><b>${status}</b> ${
    codes.length > 0 ? codes : line(description)
  }</summary>
${codes.length > 0 && prose(description)}${contentMarkup(response)}${headerTable(Object.fromEntries(own))}${
    links.length > 0 && markup`<p>Headers: ${joined(links, ", ")}.</p>\n`
  }</details>\n`;
}

function headerTable(headers: Named<ShownPart>): Piece {
  return table(
    Object.entries(headers).map(([name, { description, schema = {} }]) => {
      return [markup`<code>${name}</code>`, [line(description), boundsMarkup(schema)]];
    }),
  );
}

function contentMarkup({ content = {} }: ShownPart): Piece {
  return Object.entries(content).map(([type, { schema = {}, examples = {} }]) => [
    markup`<p><code>${type}</code>: ${typeMarkup(schema)}</p>\n`,
    fieldsMarkup(schema),
    Object.entries(examples).map(([name, { $ref, value }]) => {
      if ($ref !== undefined) return markup`<a href="#${nameOf($ref)}">Example: ${name}</a> `;
      return markup`<figure><figcaption>Example: ${name}</figcaption>${jsonMarkup(value)}</figure>\n`;
    }),
  ]);
}

function jsonMarkup(value: unknown): Markup {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return markup`<pre><code>${text}</code></pre>`;
}

/** The last part of a reference. */
function nameOf($ref: string): string {
  return $ref.slice($ref.lastIndexOf("/") + 1);
}

/** A schema in a few words; a named schema is a link. */
function typeMarkup(schema: ShownSchema): Piece {
  const { $ref, enum: values, anyOf, allOf, items, type = "any JSON", format } = schema;
  if ($ref !== undefined) return markup`<a href="#schema-${nameOf($ref)}">${nameOf($ref)}</a>`;
  const constants = Object.hasOwn(schema, "const") ? [schema["const"]] : values;
  if (constants !== undefined) {
    const shown = constants.map((value) => markup`<code>${JSON.stringify(value)}</code>`);
    return joined(shown, markup` <i>or</i> `);
  }
  if (anyOf !== undefined) return joined(anyOf.map(typeMarkup), markup` <i>or</i> `);
  if (allOf !== undefined) return joined(allOf.map(typeMarkup), markup` <i>and</i> `);
  if (items !== undefined) return ["array of ", typeMarkup(items)];
  return [[type].flat().join(" or "), format !== undefined && ` (${format})`];
}

/** A table of the fields of a schema; undefined if it has no fields of its own. */
function fieldsMarkup(schema: ShownSchema): Piece {
  return table(fieldRows(schema, ""), ["Field", "Type", "Meaning"]);
}

// A named schema has a table of its own.
function fieldRows(schema: ShownSchema, prefix: string): readonly (readonly Piece[])[] {
  const { properties = {}, required = [], items, anyOf = [], allOf = [] } = schema;
  const own = Object.entries(properties).flatMap(([key, value]) => {
    const name = `${prefix}${key}`;
    const presence = !required.includes(key) && markup` <span class="bounds">optional</span>`;
    const row = fieldRow([markup`<code>${name}</code>${presence}`, value], value.description);
    return [row, ...fieldRows(value, `${name}.`)];
  });
  const inItems = items === undefined ? [] : fieldRows(items, `${prefix.replace(/\.$/, "")}[].`);
  return [...own, ...inItems, ...[...anyOf, ...allOf].flatMap((each) => fieldRows(each, prefix))];
}

function fieldRow([name, schema]: readonly [Piece, ShownSchema], description?: string) {
  return [name, typeMarkup(schema), [line(description), boundsMarkup(schema)]];
}

/** Keywords that the type, the rows of fields or the description show. */
const SHOWN_ELSEWHERE: ReadonlySet<string> = new Set([
  ...["$ref", "type", "format", "description", "properties", "required", "additionalProperties"],
  ...["items", "enum", "const", "anyOf", "allOf"],
]);

/** The other keywords of a schema: mostly the bounds of its values. */
function boundsMarkup(schema: ShownSchema): Piece {
  const bounds = Object.entries(schema).filter(([keyword]) => !SHOWN_ELSEWHERE.has(keyword));
  const shown = bounds.map(([keyword, value]) => {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    return markup`${keyword} <code>${text}</code>`;
  });
  return shown.length > 0 && markup` <span class="bounds">${joined(shown, "; ")}</span>`;
}
