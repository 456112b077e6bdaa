import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { test } from "node:test";

import { ROOT } from "../../scripts/manifest.ts";
import { SETTING_LIST } from "../../src/config/config.ts";

const PAGES = execFileSync("git", ["ls-files", "*.md"], { cwd: ROOT, encoding: "utf8" })
  .split("\n")
  .filter((path) => path !== "" && existsSync(join(ROOT, path)));

/** The anchors that GitHub gives to the headings of a page. */
function anchorsOf(path: string): ReadonlySet<string> {
  const text = readFileSync(join(ROOT, path), "utf8").replaceAll(/^```.*?^```$/gms, "");
  const headings = [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) => heading);
  return new Set(
    headings.map((heading) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
        .replaceAll(" ", "-"),
    ),
  );
}

test("every relative link in a document leads to a file and a heading", () => {
  const broken = PAGES.flatMap((page) => {
    const text = readFileSync(join(ROOT, page), "utf8");
    const links = [...text.matchAll(/\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)/g)];
    return links.flatMap(([link, target = "", anchor]) => {
      const path = target === "" ? page : relative(ROOT, join(ROOT, dirname(page), target));
      const isThere = existsSync(join(ROOT, path));
      const isRight = anchor === undefined || (isThere && anchorsOf(path).has(anchor));
      return isThere && isRight ? [] : [`${page}: ${link}`];
    });
  });

  assert.deepEqual(broken, []);
});

test("a page of docs has at most 300 lines", () => {
  const long = PAGES.filter((page) => page.startsWith("docs/")).filter(
    (page) => readFileSync(join(ROOT, page), "utf8").split("\n").length > 301,
  );

  assert.deepEqual(long, []);
});

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
