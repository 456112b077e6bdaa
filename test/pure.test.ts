import { readdirSync } from "node:fs";
import { join } from "node:path";

import { PURE_FOLDERS } from "../scripts/pure-tests.ts";

for (const folder of PURE_FOLDERS) {
  const path = join(import.meta.dirname, folder);
  const files = readdirSync(path).filter((name) => name.endsWith(".test.ts"));
  for (const name of files) await import(join(path, name));
}
