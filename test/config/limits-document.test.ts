import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { ROOT } from "../../scripts/manifest.ts";
import { SETTING_LIST } from "../../src/config/config.ts";

const LIMITS = SETTING_LIST.filter(({ key }) => key.startsWith("limits."));

/** The cells of every row of a table in a page of docs/. */
function rows(page: string): readonly (readonly string[])[] {
  const lines = readFileSync(join(ROOT, "docs", page), "utf8").split("\n");
  return lines
    .filter((line) => line.startsWith("| "))
    .map((line) =>
      line
        .slice(1, -1)
        .split("|")
        .map((cell) => cell.trim()),
    );
}

test("docs/reference/limits.md has every setting of limits with its default", () => {
  const shown = rows("reference/limits.md").filter(([name = ""]) => name.startsWith("`limits."));
  assert.deepEqual(
    shown.map(([name, standard]) => [name, standard]),
    LIMITS.map(({ key, default: standard }) => [`\`${key}\``, `\`${String(standard)}\``]),
  );
});

test("docs/project/limit-tests.md names a test that exists for every limit", () => {
  const named = rows("project/limit-tests.md").slice(1);
  for (const { key } of LIMITS)
    assert(
      named.some(([name]) => name === `\`${key}\``),
      key,
    );
  for (const [name, cell = ""] of named) {
    const [, file = "", title = ""] = /^`(test\/[^`]+)`: (.+)$/.exec(cell) ?? [];
    assert(file !== "" && existsSync(join(ROOT, file)), `${name}: ${cell}`);
    const tests = readFileSync(join(ROOT, file), "utf8");
    assert(tests.includes(title), `${name}: ${file} has no test '${title}'`);
  }
});
