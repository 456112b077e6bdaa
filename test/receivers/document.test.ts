import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";

import { GO, PHP, PYTHON, TYPESCRIPT } from "./languages.ts";

const DOCUMENT = join(
  dirname(dirname(import.meta.dirname)),
  ...["docs", "guides", "receive-webhooks.md"],
);

test("docs/guides/receive-webhooks.md links each receiver", () => {
  const text = readFileSync(DOCUMENT, "utf8");

  for (const { file } of [TYPESCRIPT, PYTHON, GO, PHP])
    assert(text.includes(`[${file}](../../${file})`), file);
});
