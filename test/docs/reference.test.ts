import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { commandReference } from "../../scripts/reference.ts";

test("docs/reference/cli.md lists every command with its flags", async () => {
  const page = readFileSync(new URL("../../docs/reference/cli.md", import.meta.url), "utf8");

  const remedy = "run: node --import tsx scripts/reference.ts > docs/reference/cli.md";
  assert.equal(page, await commandReference(), remedy);
});
