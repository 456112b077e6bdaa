import { createHash } from "node:crypto";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

import type { JsonSchema } from "../../api/schema.ts";
import type { DashboardFile } from "../../assets.ts";
import { referencePage } from "./reference-page.ts";
import { REFERENCE_STYLE } from "./reference-style.ts";
import type { ShownDocument } from "./shown-document.ts";

/** Where the reference is. */
export const REFERENCE_PATH = "/docs";

/** The page and its style. They are made when they are first asked for: most daemons never serve them. */
export function referenceFiles(document: () => JsonSchema): () => readonly DashboardFile[] {
  let made: readonly DashboardFile[] | null = null;
  return () => (made ??= makeFiles(document()));
}

function makeFiles(document: JsonSchema): readonly DashboardFile[] {
  const hash = createHash("sha256").update(REFERENCE_STYLE).digest("hex").slice(0, 12);
  const stylePath = `${REFERENCE_PATH}/style-${hash}.css`;
  // `openapi/` makes all that the type names, and a test reads the page against the document.
  const shown = document as unknown as ShownDocument;
  const page = referencePage(shown, stylePath);
  return [
    compressed(
      { path: REFERENCE_PATH, type: "text/html; charset=utf-8", isImmutable: false },
      page,
    ),
    compressed(
      { path: stylePath, type: "text/css; charset=utf-8", isImmutable: true },
      REFERENCE_STYLE,
    ),
  ];
}

// The best level takes seconds, and this is done while the daemon serves.
const BROTLI = { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } };

function compressed(
  { path, type, isImmutable }: Pick<DashboardFile, "path" | "type" | "isImmutable">,
  text: string,
): DashboardFile {
  const body = Buffer.from(text);
  const [gzip, brotli] = [gzipSync(body), brotliCompressSync(body, BROTLI)];
  return { path, type, isImmutable, body, gzip, brotli };
}
