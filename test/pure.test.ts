import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";

import { isPureTest } from "../scripts/test-groups.ts";

const files = readdirSync(import.meta.dirname, { recursive: true, encoding: "utf8" })
  .map((file) => join("test", file))
  .filter((file) => file.endsWith(".test.ts") && isPureTest(file));

for (const file of files) await import(join(dirname(import.meta.dirname), file));
