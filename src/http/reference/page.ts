import {
  type Markup,
  type Piece,
  type ShownAnswer,
  type ShownContent,
  type ShownDocument,
  type ShownExample,
  type ShownHeader,
  type ShownOperation,
  type ShownParameter,
  type ShownSchema,
  boundsMarkup,
  curlOf,
  fieldsMarkup,
  joined,
  line,
  markup,
  nameOf,
  prose,
  schemaAnchor,
  textOf,
  typeMarkup,
} from "./markup.ts";

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

/** An operation with its place in the document. */
export interface PlacedOperation {
  readonly method: string;
  readonly path: string;
  readonly operation: ShownOperation;
}

/** All of one operation: who may call it, what it takes, what it answers, and the command that asks for it. */
export function operationMarkup(placed: PlacedOperation): Markup {
  const { operation } = placed;
  const { operationId, summary, description, requestBody } = operation;
  return markup`<article id="${operationId}">
<h3><a href="#${operationId}">${summary}</a></h3>
<p class="path"><b>${placed.method.toUpperCase()}</b> <code>${placed.path}</code></p>
${prose(description)}<p class="who">${callers(operation)}</p>
${parametersMarkup(operation.parameters ?? [])}${
    requestBody === undefined
      ? null
      : markup`<h4>Body${requestBody.required ? null : " (optional)"}</h4>
${contentMarkup(requestBody.content)}`
  }<h4>Ask</h4>
<pre><code>${curlOf(placed.method, placed.path, operation)}</code></pre>
<h4>Answers</h4>
${answersMarkup(operation)}${callbacksMarkup(operation)}</article>\n`;
}

const CALLERS: Readonly<Record<string, string>> = {
  bearer: "an API key",
  basic: "login and API key",
  worker: "a worker's token",
  metrics: "the metrics' token",
  session: "a session of the dashboard",
};

function callers({ security }: ShownOperation): Piece {
  const schemes = security.flatMap((each) => Object.keys(each));
  if (schemes.length === 0) return "Needs no key.";
  const links = schemes.map((name) => {
    return markup`<a href="#scheme-${name}">${CALLERS[name] ?? name}</a>`;
  });
  return ["With ", joined(links, ", or "), "."];
}

function parametersMarkup(parameters: readonly ShownParameter[]): Piece {
  if (parameters.length === 0) return null;
  const rows = parameters.map((parameter) => {
    const { name, required = false, schema, example } = parameter;
    const bounds = boundsMarkup(
      example === undefined ? schema : { ...schema, examples: [example] },
    );
    return markup`<tr><td><code>${name}</code> <span class="bounds">${parameter.in}${
      required ? null : ", optional"
    }</span></td><td>${typeMarkup(schema)}</td><td>${line(parameter.description)}${bounds}</td></tr>\n`;
  });
  return markup`<h4>Parameters</h4>
<table><thead><tr><th>Name</th><th>Type</th><th>Meaning</th></tr></thead><tbody>
${rows}</tbody></table>\n`;
}

function contentMarkup(content: ShownContent["content"] = {}): Piece {
  return Object.entries(content).map(([type, { schema, examples = {} }]) => {
    return markup`<p><code>${type}</code>: ${typeMarkup(schema)}</p>
${fieldsMarkup(schema)}${Object.entries(examples).map(exampleMarkup)}`;
  });
}

function exampleMarkup([name, example]: [string, ShownExample]): Markup {
  if ("$ref" in example) {
    const anchor = nameOf(example.$ref);
    return markup`<a class="more" href="#${anchor}">Example: ${name}</a> `;
  }
  const { value } = example;
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return markup`<figure><figcaption>Example: ${name}</figcaption><pre><code>${text}</code></pre></figure>\n`;
}

function answersMarkup({ responses }: ShownOperation): Piece {
  return Object.entries(responses).map(([status, answer]) => {
    const kind = status.startsWith("2") ? "good" : "bad";
    return markup`<details class="${kind}"><summary><b>${status}</b> ${headline(answer)}</summary>
${isCodeList(answer) ? prose(answer.description) : null}${contentMarkup(answer.content)}${headersMarkup(answer)}</details>\n`;
  });
}

const CODE = /^- `(\d+)` _([^_]+)_/gm;

function isCodeList({ description }: ShownAnswer): boolean {
  return description.search(CODE) >= 0;
}

// An error's description is a list of its codes: they are the headline, without their reasons.
function headline({ description }: ShownAnswer): Piece {
  const codes = [...description.matchAll(CODE)];
  if (codes.length === 0) return line(description);
  return codes.map(([, code = "", message = ""]) => {
    return markup`<span class="code"><code>${code}</code> ${message}</span> `;
  });
}

// Parts that many answers have are explained once, at the end of the page.
function headersMarkup({ headers = {} }: ShownAnswer): Piece {
  const all = Object.entries(headers);
  const common = all.filter(([, header]) => "$ref" in header);
  const rows = all.map(([name, header]) => ("$ref" in header ? null : headerRow([name, header])));
  const links = common.map(([name]) => markup`<a href="#headers">${name}</a>`);
  return [
    rows.length === common.length ? null : markup`<table><tbody>\n${rows}</tbody></table>\n`,
    links.length === 0 ? null : markup`<p>Headers: ${joined(links, ", ")}.</p>\n`,
  ];
}

function headerRow([name, { description, schema }]: [string, ShownHeader]): Markup {
  return markup`<tr><td><code>${name}</code></td><td>${line(description)}${boundsMarkup(schema)}</td></tr>\n`;
}

/** The headers and the errors that many answers have. */
export function commonMarkup({ headers, examples }: ShownDocument["components"]): Markup {
  const errors = Object.entries(examples).map(([name, { summary, value }]) => {
    return markup`<article id="${name}"><h3><a href="#${name}">${summary}</a></h3>
<pre><code>${JSON.stringify(value, null, 2)}</code></pre></article>\n`;
  });
  return markup`<section id="headers"><h2><a href="#headers">Headers of answers</a></h2>
<table><tbody>
${Object.entries(headers).map(headerRow)}</tbody></table></section>
<section id="errors"><h2><a href="#errors">Errors</a></h2>
${errors}</section>\n`;
}

function callbacksMarkup({ callbacks = {} }: ShownOperation): Piece {
  return Object.values(callbacks).flatMap((byUrl) =>
    Object.entries(byUrl).flatMap(([url, methods]) =>
      Object.entries(methods).map(([method, operation]) => {
        const { operationId, summary, description, parameters = [], requestBody } = operation;
        return markup`<section class="callback" id="${operationId}">
<h4><a href="#${operationId}">${summary}</a></h4>
<p class="path"><b>${method.toUpperCase()}</b> <code>${url}</code></p>
${prose(description)}${parametersMarkup(parameters)}${contentMarkup(requestBody?.content)}${answersMarkup(operation)}</section>\n`;
      }),
    ),
  );
}
