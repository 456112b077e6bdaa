import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";

import { exerciseReceiver } from "./exercise.ts";
import { GO, PHP, PYTHON, TYPESCRIPT } from "./languages.ts";
import { pathOf } from "./receiver-process.ts";

const DOCUMENT = join(
  dirname(dirname(import.meta.dirname)),
  "docs",
  "guides",
  "receive-webhooks.md",
);
const LANGUAGES = [TYPESCRIPT, PYTHON, GO, PHP];

for (const language of LANGUAGES) exerciseReceiver(language);

test("docs/guides/receive-webhooks.md shows and links the exact code of each receiver", () => {
  const text = readFileSync(DOCUMENT, "utf8");
  const blocks = [...text.matchAll(/^```(?!sh$)\w+\n(.*?)^```$/gms)].map(([, code]) => code);

  assert.deepEqual(
    blocks,
    LANGUAGES.map((language) => readFileSync(pathOf(language), "utf8")),
  );
  for (const { file } of LANGUAGES) assert(text.includes(`[${file}](../../${file})`), file);
});
