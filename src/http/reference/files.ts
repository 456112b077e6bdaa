import { createHash } from "node:crypto";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";

import type { JsonSchema } from "../../api/schema.ts";
import type { DashboardFile } from "../../assets.ts";
import { inTurns } from "../openapi/document.ts";
import { REFERENCE_PATH } from "./markup.ts";
import { type ShownDocument, referencePieces } from "./page.ts";

/**
 * The page and its style. They are made at the first request, because most daemons never serve them, and in many turns
 * of the event loop, to delay no other request.
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

/** The style of the reference: a file of its own, because the page's Content-Security-Policy allows no inline style. */
export const REFERENCE_STYLE = `
:root {
  color-scheme: light dark;
  --raised: light-dark(#f5f6f8, #1d2127); --line: light-dark(#dcdfe4, #343a43);
  --text: light-dark(#1c2024, #e6e9ed); --dim: light-dark(#5b6470, #a0a8b3);
  --link: light-dark(#0b5cad, #7db7f5); --good: light-dark(#1a7f45, #5fd08d); --bad: light-dark(#b3261e, #ff8f85);
}
* { box-sizing: border-box; }
body { margin: 0; background: light-dark(#fff, #14171b); color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
a { color: var(--link); }
h2 { margin: 3rem 0 .5rem; padding-top: 1rem; border-top: 2px solid var(--line); }
h4 { margin: 1.25rem 0 .5rem; }
h2 a, h3 a, h4 a { color: inherit; text-decoration: none; }
code, pre { font: .875em/1.45 ui-monospace, monospace; overflow-wrap: anywhere; }
pre { margin: 0; padding: .75rem; border-radius: 6px; background: var(--raised); white-space: pre-wrap; }
pre code { font-size: inherit; }
figure { margin: .75rem 0; }
figcaption, .bounds { color: var(--dim); font-size: .875rem; }
.path b, .good > summary > b { color: var(--good); }
.bad > summary > b { color: var(--bad); }
.code { margin-right: .75rem; }
table { width: 100%; border-collapse: collapse; font-size: .9375rem; }
th, td { padding: .375rem .5rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; overflow-wrap: anywhere; }
td:first-child, td:nth-child(2):not(:last-child) { min-width: 8rem; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .375rem 0; padding: .375rem .75rem; }
summary { cursor: pointer; }
.callback { margin: 1rem 0; padding-left: 1rem; border-left: 3px solid var(--line); }
nav { padding: 1rem; background: var(--raised); font-size: .9375rem; overflow-y: auto; }
nav ul { margin: 0; padding: 0; list-style: none; }
nav a { text-decoration: none; }
nav a:hover { text-decoration: underline; }
.group { margin: .75rem 0 .25rem; font-weight: 600; }
main { max-width: 56rem; padding: 0 1rem 4rem; }
:target { scroll-margin-top: 1rem; background: var(--raised); }
main:target { background: none; }
@media (min-width: 60rem) {
  body { display: grid; grid-template-columns: 17rem minmax(0, 1fr); }
  nav { position: sticky; top: 0; height: 100vh; }
}
@media (max-width: 60rem) { nav { max-height: 33vh; } }
@media (max-width: 36rem) {
  thead { display: none; }
  tr, td { display: block; }
}
@media print { nav { display: none; } }
`;
