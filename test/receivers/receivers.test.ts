import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";

import { exerciseReceiver } from "./exercise.ts";
import { GO, PHP, PYTHON, TYPESCRIPT } from "./languages.ts";

const ROOT = dirname(dirname(import.meta.dirname));
const LANGUAGES = [TYPESCRIPT, PYTHON, GO, PHP];

for (const language of LANGUAGES) exerciseReceiver(language);

test("docs/guides/receive-webhooks.md links each receiver", () => {
  const text = readFileSync(join(ROOT, "docs", "guides", "receive-webhooks.md"), "utf8");

  for (const { file } of LANGUAGES) assert(text.includes(`[${file}](../../${file})`), file);
});
