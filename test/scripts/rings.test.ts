import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";

import { RINGS } from "../../scripts/rings.ts";
import { lintTree } from "./lint.ts";

const RING_RULE = "eslint(no-restricted-imports)";

// A folder or a file of src, and modules that it must not import.
const REFUSED = `
  domain/ ../store/store.ts node:fs zod ../log.ts fs
  domain/clock/clock.ts node:net
  domain/account/key.ts node:fs
  api/ ../http/respond.ts node:crypto
  store/ ./sqlite/connection.ts better-sqlite3
  store/common/ ../sqlite/a.ts node:fs
  store/sql/ ../sqlite/machine/connection.ts
  store/sqlite/ ../../deliver/send.ts node:child_process ../other.ts
  store/sqlite/machine/ ../tasks.ts ../../store.ts
  store/postgres/ ../sqlite/a.ts better-sqlite3
  store/postgres/machine/ ../tasks.ts
  store/move/ ../postgres/tasks.ts
  deliver/ ../run/engine.ts h3 node:child_process ../helpers/daemon.ts
  run/ ../store/sqlite/connection.ts node:net undici ../http/app.ts ./../http/app.ts a-package-of-a-package
  http/ ../deliver/loop.ts ../deliver/send.ts
  http/operations/ ../../deliver/loop.ts croner
  dashboard/ ../store/store.ts node:crypto
  dev/ ../deliver/send.ts
  testing/ ../daemon/daemon.ts
  client/ node:crypto ../deliver/connections.ts
  dashboard/part/ h3
  dashboard/task/ ../../http/app.ts
  listen/ ../http/operation.ts
  worker/ ../store/sqlite/sqlite-store.ts node:http ../config/config.ts
  admin/ ../http/operation.ts node:fs
  cli/ ../store/sqlite/sqlite-store.ts node:net
  ops/ ../daemon/daemon.ts ../http/app.ts
  daemon/daemon.ts ../cli/start.ts
  config/config.ts ../daemon/daemon.ts
  config/file.ts pino
  log.ts node:net
  assets.ts better-sqlite3
  embedded/daemon.ts ../http/server.ts
  main.ts ./daemon/daemon.ts
  command.ts ./cli/run.ts
  worker.ts ./deliver/link.ts
  index.ts ./deliver/send.ts
  young-generation.ts node:fs
  node-version.ts node:fs
  verify.ts node:crypto
  parser/ ../http/server.ts
  node-internals.ts ./http/app.ts
  stray.ts ./domain/a.ts
  http/one/two/three/a.ts ./b.ts`;

// A folder or a file of src, and modules that it may import.
const ALLOWED = `
  domain/ node:crypto ./a.ts
  api/ ../domain/task.ts
  store/store.ts ../domain/task.ts
  store/sqlite/ ../store.ts ../common/group-commit.ts ./machine/connection.ts ../../assets.ts better-sqlite3 node:worker_threads
  store/common/ ../store.ts
  store/sqlite/machine/ ../../common/batch.ts ./connection.ts
  store/postgres/ pg ./machine/connection.ts
  store/move/ ../sqlite/machine/connection.ts
  parser/ node:worker_threads ../http/long-bodies.ts
  deliver/ node:dns/promises node:http
  run/ node:child_process ../deliver/send.ts croner
  http/ h3/node node:http
  http/operations/ ../envelope.ts ../../store/store.ts ./b.ts
  dashboard/api.ts ../api/answers.ts
  dashboard/ ../domain/task-search.ts
  dashboard/part/ @preact/signals
  dashboard/task/ ../../domain/time.ts
  client/ ../api/answers.ts
  worker/ ../deliver/service-client.ts ../run/command.ts
  cli/ ../daemon/daemon.ts ./a.ts
  daemon/daemon.ts ../store/sqlite/sqlite-store.ts
  config/value.ts smol-toml
  config/file.ts node:fs
  log.ts pino
  assets.ts node:fs
  main.ts ./cli/run.ts
  command.ts ./main.ts
  worker.ts ./worker/task-worker.ts
  index.ts ./embedded/daemon.ts`;

const FORMS = [
  ["domain/type.ts", 'import type { Store } from "../store/store.ts";'],
  ["http/export.ts", 'export * from "../store/sqlite/sqlite-store.ts";'],
  ["http/operations/late.ts", 'export const late = import("../../daemon/daemon.ts");'],
] as const;

/** The text of each file, one import each, by its path below src. */
function sourcesOf(table: string): Map<string, string> {
  const sources = new Map<string, string>();
  for (const line of table.trim().split("\n")) {
    const [place = "", ...modules] = line.trim().split(" ");
    for (const [i, module] of modules.entries()) {
      const file = place.endsWith("/") ? `${place}import-${i}.ts` : place;
      sources.set(`src/${file}`, `import { x } from "${module}";\n`);
    }
  }
  return sources;
}

describe("the ring rule", () => {
  test("refuses each import that the table of rings does not allow", () => {
    const refused = sourcesOf(REFUSED);
    for (const [file, text] of FORMS) refused.set(`src/${file}`, text);
    const found = lintTree(refused);

    const missed = [...refused].filter(([file]) => !found.get(file)?.includes(RING_RULE));
    assert.deepEqual(missed, []);
  });

  test("accepts each import that the table allows, and any import of tests and scripts", () => {
    const text = 'import { command } from "../src/run/command.ts";\nimport "node:net";\n';
    const outside = ["test/a.test.ts", "scripts/a.ts"].map((file) => [file, text] as const);
    const found = lintTree(new Map([...sourcesOf(ALLOWED), ...outside]));

    const broken = [...found].filter(([, rules]) => rules.includes(RING_RULE));
    assert.deepEqual(broken, []);
  });

  test("has a refused import for every ring of the table", () => {
    const files = [...sourcesOf(REFUSED).keys()];
    const untested = RINGS.filter(({ files: glob }) => {
      const start = `src/${glob.replace(/\*$/, "")}`;
      return !files.some((file) => file.startsWith(start));
    });
    assert.deepEqual(untested, []);
  });

  test("has a ring for every file of src", () => {
    const src = join(dirname(dirname(import.meta.dirname)), "src");
    const files = readdirSync(src, { recursive: true, encoding: "utf8" });

    const homeless = files
      .filter((file) => /\.tsx?$/.test(file))
      .filter((file) => !RINGS.some(({ files: glob }) => file.startsWith(glob.replace(/\*$/, ""))));
    assert.deepEqual(homeless, []);
  });
});
