import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";

import { loadConfig } from "../../src/config/config.ts";
import { nodeNameOf } from "../../src/domain/lease/lease.ts";
import { load, loaded, problemOf, problemsOf } from "../helpers/config.ts";

const SECRET = "s3cr3t";
const URL_OF_SERVER = `postgres://app:${SECRET}@db.lan/jobs`;
const SHOWN = "postgres://app@db.lan/jobs";

test("takes the URL of a server wherever it takes the path of a file", () => {
  const setups = [
    { flags: { db: URL_OF_SERVER } },
    { env: { POSTBACKD_DB: URL_OF_SERVER } },
    { toml: `database = "${URL_OF_SERVER}"` },
    { env: { POSTBACKD_DB_FILE: "/run/secrets/db" }, files: { "/run/secrets/db": URL_OF_SERVER } },
  ];

  for (const setup of setups) {
    const config = loaded(setup);
    assert.equal(config.server?.password?.(), SECRET);
    assert.equal(config.server?.hosts[0]?.host, "db.lan");
    assert.equal(config.database, SHOWN);
    assert.equal(config.values.get("database"), SHOWN);
    assert.doesNotMatch(inspect(config, { depth: 9 }) + JSON.stringify(config), /s3cr3t/);
  }
  assert.equal(loaded({ flags: { db: "x.db" } }).server, null);
});

test("reads the value from the file of a variable, as a path or a URL, without its line break", () => {
  const env = { POSTBACKD_DB_FILE: "secret" };
  const of = (text: string) => loaded({ env, files: { "/srv/app/secret": text } });

  assert.equal(of(`${URL_OF_SERVER}\n`).server?.password?.(), SECRET);
  assert.equal(of("data/x.db\n").database, "/srv/app/data/x.db");
  assert.equal(of("x").sources.get("database"), "environment POSTBACKD_DB_FILE");
});

test("takes the password again from the file of a variable, while the rest of the URL is the same", () => {
  const texts = [
    URL_OF_SERVER,
    "",
    "postgres://app:other@db.lan/other",
    "postgres://app@db.lan/jobs",
  ];
  const files = new Map([["/srv/app/secret", ""]]);
  for (const text of texts) {
    files.set("/srv/app/secret", URL_OF_SERVER);
    const env = { POSTBACKD_DB_FILE: "secret" };
    const readFile = (path: string): string | null => files.get(path) ?? null;
    const verdict = loadConfig({ flags: {}, env, cwd: "/srv/app", readFile });
    assert.ok(verdict.kind === "config");
    const { server } = verdict.config;
    files.set("/srv/app/secret", text);
    assert.equal(server?.password?.(), SECRET);
    files.set("/srv/app/secret", "postgres://app:n3w@db.lan/jobs\n");
    assert.equal(server?.password?.(), "n3w");
    files.delete("/srv/app/secret");
    assert.equal(server?.password?.(), "n3w");
    assert.doesNotMatch(inspect(verdict, { depth: 9 }), /s3cr3t|n3w/);
  }
});

test("tells what is wrong with the file of a variable, and never what is in it", () => {
  const env = { POSTBACKD_DB_FILE: "/run/secrets/db" };
  const source = "environment POSTBACKD_DB_FILE: ";

  assert.equal(problemOf({ env }), `${source}file /run/secrets/db does not exist`);
  const both = { ...env, POSTBACKD_DB: "x.db" };
  const files = { "/run/secrets/db": URL_OF_SERVER };
  assert.match(
    problemOf({ env: both, files }),
    /POSTBACKD_DB is set too: take one of the two away/,
  );
  const broken = problemOf({ env, files: { "/run/secrets/db": `${URL_OF_SERVER}?sslmod=x` } });
  assert.match(broken, /database has an unknown parameter "sslmod"; did you mean sslmode\?/);
  const twoLines = problemOf({ env, files: { "/run/secrets/db": `${URL_OF_SERVER}\n${SECRET}` } });
  assert.doesNotMatch(twoLines, /s3cr3t/);
});

test("knows a file's variable for no setting that is no secret", () => {
  assert.match(problemOf({ env: { POSTBACKD_PORT_FILE: "x" } }), /unknown variable/);
});

test("repeats no URL in a problem, whatever it is", () => {
  const texts = [
    `mysql://app:${SECRET}@db/x`,
    ` ${URL_OF_SERVER}`,
    `${URL_OF_SERVER}\u0000`,
    `postgres://app:${SECRET}@${SECRET}@db/x`,
  ];

  for (const text of texts) {
    const [problem = "", ...others] = problemsOf({ flags: { db: text } });
    assert.match(problem, /^flag --db: database /);
    assert.doesNotMatch(problem, /s3cr3t/);
    assert.deepEqual(others, []);
    // The draft is shown beside the problems.
    assert.doesNotMatch(inspect(load({ flags: { db: text } }), { depth: 9 }), /s3cr3t/);
  }
});

test("takes for a type that a daemon runs itself only one that there is", () => {
  const toml = '[types.resize]\nrunner = "echo"\n';
  const twoTypes = `${toml}[types.b]\nrunner = "echo"\n`;

  assert.deepEqual([...loaded({ toml: twoTypes }).runTypes], ["resize", "b"]);
  assert.deepEqual([...loaded({ toml: twoTypes, flags: { "run-type": ["b"] } }).runTypes], ["b"]);
  assert.match(
    problemOf({ toml, flags: { "run-type": ["resise"] } }),
    /run_types: type "resise" does not exist; the nearest is resize/,
  );
});

test("takes for the name of a node what can be part of a file's name", () => {
  for (const name of ["../x", "a/b", "", "a b", "x".repeat(65)]) {
    assert.match(problemOf({ flags: { "node-name": name } }), /node.name must be 1 to 64/);
  }
  assert.equal(nodeNameOf("host_1.example (2)"), "host_1.example--2-");
  assert.equal(nodeNameOf("x".repeat(80)).length, 64);
  assert.equal(nodeNameOf(""), "node");
});

test("refuses a schedule of backups for a server, and names what makes them there", () => {
  const toml = '[backup]\nschedule = "0 3 * * *"';
  const problem = problemOf({ flags: { db: URL_OF_SERVER }, toml });
  assert.match(problem, /backup\.schedule: .*PostgreSQL server.*pg_dump.*pg_basebackup/);
  assert.equal(loaded({ flags: { db: "x.db" }, toml }).backup.schedule, "0 3 * * *");
});
