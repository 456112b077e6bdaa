import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { loadConfig, readFileText } from "../../src/config/config.ts";

const FOLDER = fileURLToPath(new URL("../../examples", import.meta.url));
const FILES = readdirSync(FOLDER).filter((name) => name.endsWith(".toml"));

test("every example is a valid configuration", () => {
  assert.ok(FILES.includes("marketplaces.toml"));
  for (const file of FILES) {
    const flags = { config: join(FOLDER, file) };
    const verdict = loadConfig({ flags, env: {}, cwd: "/", readFile: readFileText });
    assert.deepEqual(verdict.kind === "problems" ? verdict.problems : [], [], file);
  }
});

test("examples/marketplaces.toml has 15 marketplaces with names and currencies", () => {
  const flags = { config: join(FOLDER, "marketplaces.toml") };

  const verdict = loadConfig({ flags, env: {}, cwd: "/", readFile: readFileText });

  assert.ok(verdict.kind === "config");
  assert.equal(verdict.config.marketplaces.length, 15);
  const german = verdict.config.marketplaces.find(({ code }) => code === "amazon_de");
  assert.deepEqual([german?.name, german?.details["currency"]], ["Amazon.de", "EUR"]);
});
