import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";

import { RINGS } from "../../scripts/rings.ts";
import { lintTree } from "./lint.ts";

const RING_RULE = "eslint(no-restricted-imports)";

const SWITCH_WITHOUT_B = `
export function f(kind: "a" | "b"): void {
  switch (kind) {
    case "a":
      return;
  }
}
`;

// The file that imports, what it says, and why that is wrong.
const REFUSED = [
  ["domain/a.ts", 'import type { Store } from "../store/store.ts";', "a ring further out, a type"],
  ["domain/b.ts", 'import { readFileSync } from "node:fs";', "input and output"],
  ["domain/c.ts", 'import { z } from "zod";', "a package"],
  ["domain/d.ts", 'import { log } from "../log.ts";', "a file of the top level"],
  ["domain/e.ts", 'import { readFileSync } from "fs";', "a module of Node without node:"],
  ["domain/clock/clock.ts", 'import { connect } from "node:net";', "more than the time"],
  ["domain/account/key.ts", 'import { readFileSync } from "node:fs";', "files"],
  ["api/a.ts", 'import { envelope } from "../http/respond.ts";', "one end of what it describes"],
  ["api/b.ts", 'import { createHash } from "node:crypto";', "what no browser has"],
  ["store/a.ts", 'import { open } from "./sqlite/connection.ts";', "one of its implementations"],
  ["store/b.ts", 'import Database from "better-sqlite3";', "a database's package"],
  ["store/common/a.ts", 'import { open } from "../sqlite/a.ts";', "one of those that share it"],
  ["store/common/b.ts", 'import { readFileSync } from "node:fs";', "files"],
  ["store/sql/a.ts", 'import { openWriter } from "../sqlite/machine/connection.ts";', "a database"],
  ["store/sqlite/a.ts", 'import { send } from "../../deliver/send.ts";', "the network"],
  ["store/sqlite/b.ts", 'import { spawn } from "node:child_process";', "processes"],
  ["store/sqlite/c.ts", 'import { other } from "../other.ts";', "an unknown neighbour of store.ts"],
  ["store/sqlite/machine/a.ts", 'import { taskWrites } from "../tasks.ts";', "a noun"],
  ["store/sqlite/machine/b.ts", 'import type { Task } from "../../store.ts";', "all nouns"],
  ["store/postgres/a.ts", 'import { open } from "../sqlite/a.ts";', "the other store"],
  ["store/postgres/b.ts", 'import Database from "better-sqlite3";', "the other store's package"],
  ["store/postgres/machine/a.ts", 'import { taskWrites } from "../tasks.ts";', "a noun"],
  ["store/move/a.ts", 'import { taskWrites } from "../postgres/tasks.ts";', "a noun"],
  ["deliver/a.ts", 'import { Engine } from "../run/engine.ts";', "a ring further out"],
  ["deliver/b.ts", 'import { H3 } from "h3";', "another ring's package"],
  ["deliver/c.ts", 'import { spawn } from "node:child_process";', "processes"],
  ["run/a.ts", 'import { open } from "../store/sqlite/connection.ts";', "a database"],
  ["run/b.ts", 'import { connect } from "node:net";', "connections of its own"],
  ["run/c.ts", 'import { request } from "undici";', "another ring's package"],
  ["run/d.ts", 'import type { App } from "../http/app.ts";', "a ring further out, a type"],
  ["run/e.ts", 'import { loop } from "./../http/app.ts";', "a ring further out, in disguise"],
  ["http/a.ts", 'import { loop } from "../deliver/loop.ts";', "the engine"],
  ["http/b.ts", 'export * from "../store/sqlite/sqlite-store.ts";', "a database, by re-export"],
  ["http/c.ts", 'import { send } from "../deliver/send.ts";', "the network"],
  [
    "http/operations/a.ts",
    'import { loop } from "../../deliver/loop.ts";',
    "the engine, from below",
  ],
  [
    "http/operations/b.ts",
    'export const late = import("../../daemon/daemon.ts");',
    "the daemon, late",
  ],
  ["http/operations/c.ts", 'import { Cron } from "croner";', "another ring's package"],
  [
    "dashboard/a.ts",
    'import type { Store } from "../store/store.ts";',
    "what is remembered, a type",
  ],
  ["dev/a.ts", 'import { send } from "../deliver/send.ts";', "the network"],
  ["testing/a.ts", 'import { startDaemon } from "../daemon/daemon.ts";', "the daemon itself"],
  [
    "client/a.ts",
    'import { createHash } from "node:crypto";',
    "what workers and browsers do not have",
  ],
  [
    "client/b.ts",
    'import { connect } from "../deliver/connections.ts";',
    "the daemon's own connections",
  ],
  ["dashboard/b.ts", 'import { createHash } from "node:crypto";', "what no browser has"],
  ["dashboard/part/a.tsx", 'import { H3 } from "h3";', "another ring's package"],
  ["dashboard/task/a.tsx", 'import { ask } from "../../http/app.ts";', "the server, from below"],
  ["listen/a.ts", 'import { defineOperation } from "../http/operation.ts";', "the API itself"],
  ["worker/a.ts", 'import { open } from "../store/sqlite/sqlite-store.ts";', "a database"],
  ["worker/b.ts", 'import { request } from "node:http";', "connections of its own"],
  [
    "worker/c.ts",
    'import type { Config } from "../config/config.ts";',
    "the daemon's configuration, a type",
  ],
  [
    "admin/a.ts",
    'import { defineOperation } from "../http/operation.ts";',
    "a caller of use cases",
  ],
  ["admin/b.ts", 'import { readFileSync } from "node:fs";', "input and output"],
  ["cli/a.ts", 'import { open } from "../store/sqlite/sqlite-store.ts";', "a database"],
  ["cli/b.ts", 'import { connect } from "node:net";', "connections of its own"],
  ["ops/a.ts", 'import { startDaemon } from "../daemon/daemon.ts";', "the composition"],
  ["ops/b.ts", 'import { createApp } from "../http/app.ts";', "the API"],
  ["daemon/daemon.ts", 'import { start } from "../cli/start.ts";', "the command line"],
  ["config/config.ts", 'import { daemon } from "../daemon/daemon.ts";', "what is made of it"],
  ["config/file.ts", 'import pino from "pino";', "another file's package"],
  ["log.ts", 'import { connect } from "node:net";', "connections"],
  ["assets.ts", 'import Database from "better-sqlite3";', "a package"],
  ["embedded/daemon.ts", 'import { openServer } from "../http/server.ts";', "a part of the daemon"],
  ["main.ts", 'import { createDaemon } from "./daemon/daemon.ts";', "more than the command line"],
  ["command.ts", 'import { run } from "./cli/run.ts";', "what an older Node cannot parse"],
  ["worker.ts", 'import { Link } from "./deliver/link.ts";', "a ring that it does not show"],
  ["index.ts", 'import { send } from "./deliver/send.ts";', "a ring that it does not show"],
  ["young-generation.ts", 'import { readFileSync } from "node:fs";', "files"],
  ["node-version.ts", 'import { readFileSync } from "node:fs";', "files"],
  ["verify.ts", 'import { createHmac } from "node:crypto";', "what not every runtime has"],
  ["deliver/d.ts", 'import { startDaemon } from "../helpers/daemon.ts";', "tests"],
  ["parser/c.ts", 'import { openServer } from "../http/server.ts";', "what listens"],
  ["run/f.ts", 'import { x } from "a-package-of-a-package";', "a package nobody chose"],
  ["node-internals.ts", 'import { app } from "./http/app.ts";', "what listens"],
  ["stray.ts", 'import { a } from "./domain/a.ts";', "anything, being in no ring"],
  ["http/one/two/three/a.ts", 'import { b } from "./b.ts";', "anything, being too deep"],
] as const;

const ALLOWED = [
  ["domain/a.ts", 'import { createHash } from "node:crypto";'],
  ["domain/b.ts", 'import { a } from "./a.ts";'],
  ["api/a.ts", 'import { TASK_STATES } from "../domain/task.ts";'],
  ["store/store.ts", 'import type { Task } from "../domain/task.ts";'],
  ["store/sqlite/a.ts", 'import type { Store } from "../store.ts";'],
  ["store/common/a.ts", 'import { StoreError } from "../store.ts";'],
  ["store/sqlite/e.ts", 'import { GroupCommit } from "../common/group-commit.ts";'],
  ["store/sqlite/f.ts", 'import { openWriter } from "./machine/connection.ts";'],
  ["store/sqlite/machine/a.ts", 'import { BatchReply } from "../../common/batch.ts";'],
  ["store/sqlite/machine/b.ts", 'import { openReader } from "./connection.ts";'],
  ["store/sqlite/b.ts", 'import { schemaSql } from "../../assets.ts";'],
  ["store/sqlite/c.ts", 'import Database from "better-sqlite3";'],
  ["store/postgres/a.ts", 'import pg from "pg";'],
  ["store/postgres/b.ts", 'import { Connection } from "./machine/connection.ts";'],
  ["store/move/a.ts", 'import { openWriter } from "../sqlite/machine/connection.ts";'],
  ["store/sqlite/d.ts", 'import { Worker } from "node:worker_threads";'],
  ["parser/a.ts", 'import { Worker } from "node:worker_threads";'],
  ["parser/b.ts", 'import { BODY_PARSES } from "../http/long-bodies.ts";'],
  ["deliver/a.ts", 'import { lookup } from "node:dns/promises";'],
  ["deliver/b.ts", 'import { request } from "node:http";'],
  ["run/a.ts", 'import { spawn } from "node:child_process";'],
  ["run/b.ts", 'import { send } from "../deliver/send.ts";'],
  ["run/c.ts", 'import { Cron } from "croner";'],
  ["http/a.ts", 'import { toNodeHandler } from "h3/node";'],
  ["http/b.ts", 'import type { IncomingMessage } from "node:http";'],
  ["http/operations/a.ts", 'import { toEnvelope } from "../envelope.ts";'],
  ["http/operations/b.ts", 'import type { Store } from "../../store/store.ts";'],
  ["http/operations/c.ts", 'import { b } from "./b.ts";'],
  ["dashboard/api.ts", 'import type { AnswerOf } from "../api/answers.ts";'],
  ["dashboard/a.ts", 'import { parseTaskSearch } from "../domain/task-search.ts";'],
  ["dashboard/part/a.tsx", 'import { signal } from "@preact/signals";'],
  ["dashboard/task/a.tsx", 'import { toSpanText } from "../../domain/time.ts";'],
  ["client/a.ts", 'import type { AnswerOf } from "../api/answers.ts";'],
  ["worker/a.ts", 'import { createServiceClient } from "../deliver/service-client.ts";'],
  ["worker/b.ts", 'import { createCommandRunner } from "../run/command.ts";'],
  ["cli/a.ts", 'import { createDaemon } from "../daemon/daemon.ts";'],
  ["cli/b.ts", 'export const late = import("./a.ts");'],
  ["daemon/daemon.ts", 'import { openSqliteStore } from "../store/sqlite/sqlite-store.ts";'],
  ["config/value.ts", 'import { parse } from "smol-toml";'],
  ["config/file.ts", 'import { readFileSync } from "node:fs";'],
  ["log.ts", 'import pino from "pino";'],
  ["assets.ts", 'import { readFileSync } from "node:fs";'],
  ["main.ts", 'import { run } from "./cli/run.ts";'],
  ["command.ts", 'export const late = import("./main.ts");'],
  ["worker.ts", 'import { newTaskWorker } from "./worker/task-worker.ts";'],
  ["index.ts", 'export { createDaemon } from "./embedded/daemon.ts";'],
] as const;

describe("the ring rule", () => {
  const wrong = lintTree(new Map(REFUSED.map(([file, text]) => [`src/${file}`, text])));

  for (const [file, text, reason] of REFUSED) {
    test(`refuses src/${file} ${reason}: ${text}`, () => {
      assert.ok(wrong.get(`src/${file}`)?.includes(RING_RULE));
    });
  }

  test("finds nothing in a tree that keeps it", () => {
    const findings = lintTree(new Map(ALLOWED.map(([file, text]) => [`src/${file}`, text])));

    const broken = [...findings].filter(([, rules]) => rules.includes(RING_RULE));
    assert.deepEqual(broken, []);
  });

  test("leaves tests and scripts alone", () => {
    const text = 'import { command } from "../src/run/command.ts";\nimport "node:net";\n';
    const findings = lintTree(
      new Map([
        ["test/a.test.ts", text],
        ["scripts/a.ts", text],
      ]),
    );

    assert.deepEqual(
      [...findings.values()].flat().filter((rule) => rule === RING_RULE),
      [],
    );
  });

  test("has a refused import for every ring of the table", () => {
    const files = REFUSED.map(([file]) => file);

    const untested = RINGS.filter(({ files: glob }) => {
      const start = glob.replace(/\*$/, "");
      return !files.some((file) => file.startsWith(start));
    });
    assert.deepEqual(untested, []);
  });

  test("knows every file of src", () => {
    const src = join(dirname(dirname(import.meta.dirname)), "src");
    const files = readdirSync(src, { recursive: true, encoding: "utf8" });

    const homeless = files
      .filter((file) => /\.tsx?$/.test(file))
      .filter((file) => !RINGS.some(({ files: glob }) => file.startsWith(glob.replace(/\*$/, ""))));
    assert.deepEqual(homeless, []);
  });
});

describe("the linter", () => {
  const body = (lines: number): string => "  f();\n".repeat(lines);
  const findings = lintTree(
    new Map([
      ["src/domain/promise.ts", "export async function f(): Promise<void> {}\nf();\n"],
      ["src/domain/any.ts", "export const x: any = 1;\n"],
      ["src/domain/bang.ts", 'export const x = "a".at(0)!;\n'],
      ["src/domain/long.ts", `const f = () => {};\nexport function g() {\n${body(59)}}\n`],
      ["src/domain/switch.ts", SWITCH_WITHOUT_B],
      ["src/domain/cycle-a.ts", 'import { b } from "./cycle-b.ts";\nexport const a = () => b;\n'],
      ["src/domain/cycle-b.ts", 'import { a } from "./cycle-a.ts";\nexport const b = () => a;\n'],
      ["src/domain/CamelCase.ts", "export const x = 1;\n"],
      ["src/domain/require.ts", 'export const fs: unknown = require("node:fs");\n'],
      ["src/domain/type.ts", 'export type S = import("../store/store.ts").Store;\n'],
    ]),
  );

  const cases = [
    ["a promise that nobody waits for", "promise.ts", "typescript(no-floating-promises)"],
    ["any", "any.ts", "typescript(no-explicit-any)"],
    ["a non-null assertion", "bang.ts", "typescript(no-non-null-assertion)"],
    ["a function of 61 lines", "long.ts", "eslint(max-lines-per-function)"],
    ["a switch that forgets a case", "switch.ts", "typescript(switch-exhaustiveness-check)"],
    ["an import cycle", "cycle-a.ts", "import(no-cycle)"],
    ["a file name in another case", "CamelCase.ts", "unicorn(filename-case)"],
    ["require, which the ring rule does not see", "require.ts", "typescript(no-require-imports)"],
    ["import types, likewise", "type.ts", "typescript(consistent-type-imports)"],
  ] as const;
  for (const [fault, file, rule] of cases) {
    test(`refuses ${fault}`, () => {
      assert.deepEqual(findings.get(`src/domain/${file}`), [rule]);
    });
  }
});
