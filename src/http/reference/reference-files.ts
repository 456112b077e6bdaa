import { createHash } from "node:crypto";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";

import type { JsonSchema } from "../../api/schema.ts";
import type { DashboardFile } from "../../assets.ts";
import { inTurns } from "../in-turns.ts";
import { referencePieces } from "./reference-page.ts";
import { REFERENCE_STYLE } from "./reference-style.ts";
import type { ShownDocument } from "./shown-document.ts";

/** Where the reference is. */
export const REFERENCE_PATH = "/docs";

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
