import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { validate } from "dockerfile-utils";

import { ROOT } from "../../scripts/manifest.ts";

/** A linter that is not ours reads the Dockerfile; whether its image works is the subject of image.test.ts. */

const FILE = join(ROOT, "deploy", "Dockerfile");

/** Each finding with its line. */
function findings(text: string): readonly string[] {
  return validate(text).map(({ range, message }) => {
    const said = typeof message === "string" ? message : message.value;
    return `${range.start.line + 1}: ${said}`;
  });
}

test("the linter finds nothing in the Dockerfile, and something in each that is spoilt", () => {
  const text = readFileSync(FILE, "utf8");
  const spoilt: readonly (readonly [string, string, RegExp])[] = [
    ["HEALTHCHECK --start-period", "HEALTCHECK --start-period", /Unknown instruction/],
    ["COPY --from", "COPY --form", /Unknown flag: form/],
    ["--interval=30s", "--interval=30", /duration/],
    ["WORKDIR /data", "WORKDIR data", /WORKDIR paths should be absolute/],
    ["EXPOSE 8787", "EXPOSE web", /Invalid containerPort/],
    ['CMD ["start"]', 'CMD ["start"]\nCMD ["dev"]', /only be one CMD/],
  ];

  assert.deepEqual(findings(text), []);
  for (const [part, other, finding] of spoilt) {
    assert.ok(text.includes(part), part);
    const found = findings(text.replace(part, other));
    assert.match(found.join("\n"), finding, other);
  }
});
