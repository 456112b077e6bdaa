import { createHash } from "node:crypto";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";

import type { JsonSchema } from "../../api/schema.ts";
import type { DashboardFile } from "../../assets.ts";
import { inTurns } from "../openapi/document.ts";
import { REFERENCE_PATH, type ShownDocument } from "./markup.ts";
import { referencePieces } from "./page.ts";

/**
 * The page and its style. They are made when they are first asked for, because most daemons never serve them, and in
 * many turns of the event loop, because nobody else may wait for them.
 */
export function referenceFiles(
  document: () => Promise<JsonSchema>,
): () => Promise<readonly DashboardFile[]> {
  let made: Promise<readonly DashboardFile[]> | null = null;
  const make = async () => makeFiles(await document());
  return () =>
    (made ??= make().catch((error: unknown) => {
      // The next request tries again.
      made = null;
      throw error;
    }));
}

async function makeFiles(document: JsonSchema): Promise<readonly DashboardFile[]> {
  const hash = createHash("sha256").update(REFERENCE_STYLE).digest("hex").slice(0, 12);
  const stylePath = `${REFERENCE_PATH}/style-${hash}.css`;
  // `openapi/` makes all that the type names, and a test reads the page against the document.
  const shown = document as unknown as ShownDocument;
  const page = await inTurns(pageInSteps(referencePieces(shown, stylePath)));
  const style = { path: stylePath, type: "text/css; charset=utf-8", isImmutable: true };
  const html = { path: REFERENCE_PATH, type: "text/html; charset=utf-8", isImmutable: false };
  return Promise.all([compressed(html, page), compressed(style, REFERENCE_STYLE)]);
}

function* pageInSteps(pieces: Iterable<string>): Generator<void, string> {
  let page = "";
  for (const piece of pieces) {
    page += piece;
    yield;
  }
  return page;
}

const toGzip = promisify(gzip);
const toBrotli = promisify(brotliCompress);

// The best level takes seconds, and this is done while the daemon serves.
const BROTLI = { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } };

/** Compresses in other threads. */
async function compressed(
  { path, type, isImmutable }: Pick<DashboardFile, "path" | "type" | "isImmutable">,
  text: string,
): Promise<DashboardFile> {
  const body = Buffer.from(text);
  const [gzipped, brotli] = await Promise.all([toGzip(body), toBrotli(body, BROTLI)]);
  return { path, type, isImmutable, body, gzip: gzipped, brotli };
}

/** The style of the reference: a file of its own, because the page's Content-Security-Policy takes no other. */
export const REFERENCE_STYLE = `
:root {
  color-scheme: light dark;
  --ground: #fff; --raised: #f5f6f8; --line: #dcdfe4; --text: #1c2024; --dim: #5b6470;
  --link: #0b5cad; --good: #1a7f45; --bad: #b3261e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #14171b; --raised: #1d2127; --line: #343a43; --text: #e6e9ed; --dim: #a0a8b3;
    --link: #7db7f5; --good: #5fd08d; --bad: #ff8f85;
  }
}
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; }
body { margin: 0; background: var(--ground); color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
a { color: var(--link); }
h1, h2, h3, h4 { line-height: 1.25; }
h2 { margin: 3rem 0 .5rem; padding-top: 1rem; border-top: 2px solid var(--line); }
h3 { margin: 0 0 .5rem; font-size: 1.2rem; }
h4 { margin: 1.25rem 0 .5rem; }
h2 a, h3 a, h4 a { color: inherit; text-decoration: none; }
h2 a:hover, h3 a:hover, h4 a:hover { text-decoration: underline; }
code, pre { font: .875em/1.45 ui-monospace, monospace; }
code { overflow-wrap: anywhere; }
pre { margin: 0; padding: .75rem; border-radius: 6px; background: var(--raised); white-space: pre-wrap; }
pre code { font-size: inherit; }
figure { margin: .75rem 0; }
figcaption, .bounds, .who { color: var(--dim); font-size: .875rem; }
.path b { color: var(--good); }
table { width: 100%; margin: .5rem 0; border-collapse: collapse; font-size: .9375rem; }
th, td { padding: .375rem .5rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
td { overflow-wrap: anywhere; }
td:first-child { min-width: 9rem; }
td:nth-child(2):not(:last-child) { min-width: 8rem; }
article { margin: 1.5rem 0 2.5rem; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .375rem 0; padding: 0 .75rem; }
details[open] { padding-bottom: .75rem; }
summary { padding: .375rem 0; cursor: pointer; }
.good > summary > b { color: var(--good); }
.bad > summary > b { color: var(--bad); }
.code { margin-right: .75rem; }
.callback { margin: 1rem 0; padding-left: 1rem; border-left: 3px solid var(--line); }
nav { padding: 1rem; background: var(--raised); font-size: .9375rem; }
nav ul { margin: 0; padding: 0; list-style: none; }
nav a { display: block; padding: .125rem 0; text-decoration: none; }
nav a:hover { text-decoration: underline; }
nav .brand a { display: inline; }
.brand, .group { margin: .75rem 0 .25rem; font-weight: 600; }
.group a { color: inherit; }
main { max-width: 56rem; padding: 0 1rem 4rem; }
:target { scroll-margin-top: 1rem; }
tr:target, article:target > h3 { background: var(--raised); }
@media (min-width: 60rem) {
  body { display: grid; grid-template-columns: 17rem minmax(0, 1fr); }
  nav { position: sticky; top: 0; height: 100vh; overflow-y: auto; border-right: 1px solid var(--line); }
  main { padding: 0 2.5rem 4rem; }
}
@media (max-width: 60rem) {
  nav { max-height: 33vh; overflow-y: auto; border-bottom: 1px solid var(--line); }
  nav ul { columns: 12rem; }
}
@media (max-width: 36rem) {
  thead { display: none; }
  tr, td { display: block; }
  tr { padding: .5rem 0; border-bottom: 1px solid var(--line); }
  td { padding: .125rem 0; border: 0; }
}
@media print { nav { display: none; } }
`;
