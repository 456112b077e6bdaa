import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { ROOT } from "../../scripts/manifest.ts";

/** The sources as one text, without the line ends and quotes that split a long message. */
const SOURCES = readdirSync(join(ROOT, "src"), { recursive: true, encoding: "utf8" })
  .filter((path) => path.endsWith(".ts"))
  .map((path) => readFileSync(join(ROOT, "src", path), "utf8"))
  .join("\n")
  .replaceAll(/["`] \+\s+["`]/g, "");

test("every line of docs/reference/log-messages.md is in the sources", () => {
  const page = readFileSync(join(ROOT, "docs", "reference", "log-messages.md"), "utf8");
  const cells = page.split("\n").flatMap((line) => /^\| (`.*?`) \|/.exec(line)?.[1] ?? []);
  const messages = cells.flatMap((cell) =>
    [...cell.matchAll(/`([^`]+)`/g)].map(([, text]) => text),
  );
  assert.ok(messages.length > 25, String(messages.length));

  // Numbers and … stand for values.
  const parts = messages.flatMap((message = "") => message.split(/\d+|…|\(|\)/));
  const missing = parts.filter((part) => part.trim().length > 7 && !SOURCES.includes(part.trim()));
  assert.deepEqual(missing, []);
});
