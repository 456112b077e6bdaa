import { line, markup, prose, textOf, type Markup, type Piece } from "./markup.ts";
import { commonMarkup, operationMarkup, type PlacedOperation } from "./operation-markup.ts";
import { fieldsMarkup, schemaAnchor, typeMarkup } from "./schema-markup.ts";
import type { ShownDocument, ShownSchema } from "./shown-document.ts";

/**
 * The document as a page for people: HTML without scripts and without styles of its own, in pieces of an operation or a
 * schema each.
 */
export function* referencePieces(document: ShownDocument, stylePath: string): Generator<string> {
  const groups = groupsOf(document);
  const { schemas } = document.components;
  yield textOf(headMarkup(document, { groups, stylePath }));
  for (const { name, description, placed } of groups) {
    yield textOf(markup`<section id="group-${name}">
<h2><a href="#group-${name}">${name}</a></h2>
${prose(description)}`);
    for (const each of placed) yield textOf(operationMarkup(each));
    yield "</section>\n";
  }
  yield textOf(commonMarkup(document.components));
  yield `<section id="schemas">\n<h2><a href="#schemas">Schemas</a></h2>\n`;
  for (const [name, schema] of Object.entries(schemas)) yield textOf(schemaMarkup(name, schema));
  yield "</section>\n</main>\n</body>\n</html>\n";
}

interface HeadParts {
  readonly groups: readonly Group[];
  readonly stylePath: string;
}

/** Everything before the first group. */
function headMarkup(document: ShownDocument, { groups, stylePath }: HeadParts): Markup {
  const { info } = document;
  return markup`<!doctype html>
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
<p class="brand"><a href="#top">postbackd API</a> <span class="bounds">${info.version}</span></p>
${groups.map(groupLinks)}<p class="group"><a href="#headers">Headers of answers</a></p>
<p class="group"><a href="#errors">Errors</a></p>
<p class="group"><a href="#schemas">Schemas</a></p>
</nav>
<main id="top">
<h1>API reference</h1>
${prose(info.description)}<p>The same for programs: <a href="/openapi.json"><code>/openapi.json</code></a> (OpenAPI 3.1).
In the commands <code>$URL</code> stands for this daemon's address, <code>$KEY</code> for an API key, <code>$TOKEN</code>
for a worker's token, <code>$METRICS_TOKEN</code> for that of metrics and <code>$COOKIE</code> for the operator's session, as <code>postbackd-8787=…</code>.</p>
${schemesMarkup(document)}`;
}

interface Group {
  readonly name: string;
  readonly description: string;
  readonly placed: readonly PlacedOperation[];
}

function groupsOf({ tags, paths }: ShownDocument): readonly Group[] {
  const all = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method, path, operation })),
  );
  const groups = tags.map(({ name, description }) => {
    const placed = all.filter(({ operation }) => operation.tags.includes(name));
    return { name, description, placed };
  });
  return groups.filter(({ placed }) => placed.length > 0);
}

function groupLinks({ name, placed }: Group): Markup {
  const links = placed.map(({ method, path, operation: { operationId, summary } }) => {
    const title = `${method.toUpperCase()} ${path}`;
    return markup`<li><a href="#${operationId}" title="${title}">${summary}</a></li>\n`;
  });
  return markup`<p class="group"><a href="#group-${name}">${name}</a></p>
<ul>
${links}</ul>\n`;
}

function schemesMarkup({ components }: ShownDocument): Piece {
  const rows = Object.entries(components.securitySchemes).map(([name, { description }]) => {
    return markup`<tr id="scheme-${name}"><td><code>${name}</code></td><td>${line(description)}</td></tr>\n`;
  });
  return markup`<h2 id="credentials"><a href="#credentials">Credentials</a></h2>
<table><tbody>
${rows}</tbody></table>\n`;
}

function schemaMarkup(name: string, schema: ShownSchema): Markup {
  const fields = fieldsMarkup(schema);
  const { description = "" } = schema;
  return markup`<article id="${schemaAnchor(name)}">
<h3><a href="#${schemaAnchor(name)}">${name}</a></h3>
${prose(description)}${fields ?? markup`<p>${typeMarkup(schema)}</p>\n`}</article>\n`;
}
