import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { test } from "node:test";

import { ROOT } from "../../scripts/manifest.ts";

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
