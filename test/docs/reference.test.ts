import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { commandReference } from "../../scripts/cli-reference.ts";

test("docs/commands.md lists every command with its flags", async () => {
  const page = readFileSync(new URL("../../docs/commands.md", import.meta.url), "utf8");

  const remedy = "run: node --import tsx scripts/cli-reference.ts > docs/commands.md";
  assert.equal(page, await commandReference(), remedy);
});
