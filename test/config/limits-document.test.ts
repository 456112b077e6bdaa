import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";

import { SETTING_LIST } from "../../src/config/config.ts";

const ROOT = dirname(dirname(import.meta.dirname));

/** The cells of every row that names a test: first the limit, then its default, last the test. */
function rows(): readonly (readonly string[])[] {
  const text = readFileSync(join(ROOT, "docs", "reference", "limits.md"), "utf8");
  const lines = text.split("\n").filter((line) => line.startsWith("|") && line.includes("`test/"));
  return lines.map((line) =>
    line
      .slice(1, -1)
      .split("|")
      .map((cell) => cell.trim()),
  );
}

test("docs/reference/limits.md has every setting of limits with its default, why, and where it is shown", () => {
  const limits = SETTING_LIST.filter(({ key }) => key.startsWith("limits."));
  assert(limits.length > 15);
  const shown = rows().filter(([name = ""]) => name.startsWith("`limits."));
  assert.deepEqual(
    shown.map(([name, standard]) => [name, standard]),
    limits.map(({ key, default: standard }) => [`\`${key}\``, `\`${String(standard)}\``]),
  );
  for (const cells of rows()) {
    assert.equal(cells.length, 5, cells[0]);
    assert(
      cells.every((cell) => cell !== ""),
      cells[0],
    );
  }
});

test("docs/reference/limits.md names a test that there is for every limit", () => {
  for (const [name, , , , named = ""] of rows()) {
    const [, file = "", title = ""] = /^`(test\/[^`]+)`: (.+)$/.exec(named) ?? [];
    assert(file !== "" && existsSync(join(ROOT, file)), `${name}: ${named}`);
    const tests = readFileSync(join(ROOT, file), "utf8");
    assert(tests.includes(title), `${name}: ${file} has no test '${title}'`);
  }
});
