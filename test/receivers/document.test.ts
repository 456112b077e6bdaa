import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";

import { GO, PHP, PYTHON, TYPESCRIPT } from "./languages.ts";
import { pathOf } from "./receiver-process.ts";

const DOCUMENT = join(
  dirname(dirname(import.meta.dirname)),
  "docs",
  "guides",
  "receive-webhooks.md",
);
const LANGUAGES = [TYPESCRIPT, PYTHON, GO, PHP];

test("docs/guides/receive-webhooks.md shows each receiver, character for character, and no other code but commands", () => {
  const text = readFileSync(DOCUMENT, "utf8");
  const blocks = [...text.matchAll(/^```(?!sh$)\w+\n(.*?)^```$/gms)].map(([, code]) => code);

  assert.deepEqual(
    blocks,
    LANGUAGES.map((language) => readFileSync(pathOf(language), "utf8")),
  );
});

test("docs/guides/receive-webhooks.md links each receiver", () => {
  const text = readFileSync(DOCUMENT, "utf8");

  for (const { file } of LANGUAGES) assert(text.includes(`[${file}](../../${file})`), file);
});
