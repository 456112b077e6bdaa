import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { validate } from "dockerfile-utils";

import { ROOT } from "../../scripts/manifest.ts";

test("the linter finds nothing in the Dockerfile", () => {
  const text = readFileSync(join(ROOT, "deploy", "Dockerfile"), "utf8");
  assert.deepEqual(validate(text), []);
  // The linter reads it: a spoilt one has a finding.
  assert.notDeepEqual(validate(text.replace("COPY --from", "COPY --form")), []);
});
