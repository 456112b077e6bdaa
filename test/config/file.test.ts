import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { SETTING_LIST, loadConfig, readFileText, type Config } from "../../src/config/config.ts";
import { EXAMPLES_TITLE, sampleFile, tomlText } from "../../src/config/shown-setting.ts";
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

const SETTING_LINE = /^#(?=[a-z_]+ = )/gm;

/** The sample, cut where the settings end. */
function parts(): readonly [settings: string, examples: string] {
  const sample = sampleFile();
  const end = sample.indexOf(EXAMPLES_TITLE);
  assert.ok(end > 0);
  return [sample.slice(0, end), sample.slice(end)];
}

function valuesOf(config: Config): Omit<Config, "file" | "sources"> {
  const { file: _file, sources: _sources, ...values } = config;
  return values;
}

test("the sample changes no setting", () => {
  const config = loaded({ toml: sampleFile() });

  assert.deepEqual(valuesOf(config), valuesOf(loaded({})));
  assert.ok([...config.sources.values()].every((source) => source === "default"));
});

test("the uncommented sample states the defaults", () => {
  const [settings] = parts();
  const config = loaded({ toml: settings.replaceAll(SETTING_LINE, "") });

  assert.deepEqual(valuesOf(config), valuesOf(loaded({})));
  for (const { key, inFile, default: standard } of SETTING_LIST) {
    const isStated = inFile && standard !== null;
    assert.equal(config.sources.get(key), isStated ? "file /srv/app/postbackd.toml" : "default");
  }
});

test("the sample describes every setting with its flag and its variable", () => {
  const [settings] = parts();

  for (const { key, inFile, description, flag, env } of SETTING_LIST) {
    const isThere = settings.includes(
      `# ${description}. (${flag === null ? "" : `--${flag}, `}${env})`,
    );
    assert.equal(isThere, inFile, key);
  }
});

test("the sample has examples of every kind of type and of a marketplace", () => {
  const [settings, examples] = parts();
  const config = loaded({ toml: settings + examples.replaceAll(/^#(?=[a-z_]+ = |\[)/gm, "") });

  assert.deepEqual(
    [...config.types.values()].map(({ kind }) => kind),
    ["command", "http", "worker"],
  );
  assert.equal(config.marketplaces.length, 1);
});

test("the sample has no line over 120 columns", () => {
  assert.doesNotMatch(sampleFile(), /.{121}/);
});

test("tomlText writes values that TOML reads back", () => {
  const code = 'a"b\\c\u00e9 \u{1f600}';
  const toml = `[[marketplaces]]\ncode = ${tomlText(code)}\nname = "x"\nlist = ${tomlText([[1, true], ["y"]])}`;

  assert.deepEqual(loaded({ toml }).marketplaces, [
    { code, name: "x", details: { list: [[1, true], ["y"]] } },
  ]);
});

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
