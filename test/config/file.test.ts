import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { loadConfig, readFileText } from "../../src/config/config.ts";
import { CWD, DEFAULT_FILE, loaded, problemOf } from "../helpers/config.ts";

test("paths in the file are relative to its folder, and others to the working folder", () => {
  const toml = 'database = "data/p.db"\nready_file = "/run/ready"';
  const files = { "/etc/postbackd/p.toml": toml };

  const fromFile = loaded({ flags: { config: "/etc/postbackd/p.toml" }, files });
  const fromFlag = loaded({ flags: { config: "../../etc/postbackd/p.toml", db: "q.db" }, files });

  assert.equal(fromFile.database, "/etc/postbackd/data/p.db");
  assert.equal(fromFile.readyFile, "/run/ready");
  assert.equal(fromFlag.database, "/srv/app/q.db");
});

test("a named file must exist, and postbackd.toml need not", () => {
  assert.match(problemOf({ flags: { config: "x.toml" } }), /flag --config: .*\/srv\/app\/x/);
  assert.match(problemOf({ env: { POSTBACKD_CONFIG: "x" } }), /environment POSTBACKD_CONFIG: /);
  assert.equal(loaded({}).file, null);
});

test("an unreadable file is a problem with the system's code", () => {
  const denied = Object.assign(new Error("secret"), { code: "EACCES" });
  const readFile = (): never => {
    throw denied;
  };
  const verdict = loadConfig({ flags: {}, env: {}, cwd: CWD, readFile });

  const problems = verdict.kind === "problems" ? verdict.problems : [];
  assert.equal(problems[0]?.message, `${DEFAULT_FILE} cannot be read (EACCES)`);
});

test("broken TOML is reported with line and column, without its text", () => {
  const toml = '[types.x.env]\nKEY = "hunter2\nOTHER = "hunter3"\n';
  const problem = problemOf({ toml });

  assert.match(problem, /^file \/srv\/app\/postbackd\.toml: line 2, column \d+: \S/);
  assert.doesNotMatch(problem, /hunter|\n/);
});

test("a problem of the file names the line of its key, and a syntax error its setting", () => {
  assert.match(problemOf({ toml: "port = 1\nport = 2\n" }), / line 2, column \d+, at port: /);
  const toml = '# x\n[webhooks]\nmax_in_flight = 20\ntimeout = "soon"\n';
  assert.match(problemOf({ toml }), /toml, line 4: webhooks\.timeout /);
  assert.match(problemOf({ toml: "webhooks.timeout = 0\n" }), /toml, line 1: webhooks\.timeout /);
  assert.match(problemOf({ toml: '\n[types.a]\nrunner = "echo"\nx = 1\n' }), /toml, line [234]: /);
});

test("names of object properties are unknown keys", () => {
  const names = ["__proto__", "constructor", "prototype", "toString", "hasOwnProperty"];

  for (const name of names) {
    assert.match(problemOf({ toml: `${name} = 1` }), /unknown key/);
    assert.match(problemOf({ toml: `[webhooks]\n${name} = 1` }), /unknown key "webhooks\./);
    assert.match(problemOf({ toml: `[types.x]\nrunner = "echo"\n${name} = 1` }), /unknown key/);
    assert.match(problemOf({ toml: `[${name}]\nport = 1` }), /unknown key/);
    assert.match(problemOf({ flags: Object.fromEntries([[name, 1]]) }), /unknown flag/);
  }
  assert.equal(Object.hasOwn(Object.prototype, "port"), false);
});

test("a file is read as UTF-8, and a missing file is null", (t) => {
  const folder = mkdtempSync(join(tmpdir(), "postbackd-config-"));
  t.after(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, "good.toml"), 'name = "é"');
  writeFileSync(join(folder, "bad.toml"), Uint8Array.of(0x61, 0xff));

  assert.equal(readFileText(join(folder, "good.toml")), 'name = "é"');
  assert.equal(readFileText(join(folder, "none.toml")), null);
  assert.throws(() => readFileText(join(folder, "bad.toml")), { name: "TypeError" });
  assert.throws(() => readFileText(folder), { code: "EISDIR" });
});
