import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";

import { loadConfig } from "../../src/config/config.ts";
import { newWebhookSecret } from "../../src/domain/account/key.ts";
import { nodeNameOf } from "../../src/domain/lease/lease.ts";
import { load, loaded, problemOf, problemsOf, type Setup } from "../helpers/config.ts";

const SECRET = "s3cr3t";
const URL_OF_SERVER = `postgres://app:${SECRET}@db.lan/jobs`;
const SHOWN = "postgres://app@db.lan/jobs";

test("a URL of PostgreSQL is accepted from every source of a path", () => {
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

test("POSTBACKD_DB_FILE names a file with a path or a URL", () => {
  const env = { POSTBACKD_DB_FILE: "secret" };
  const of = (text: string) => loaded({ env, files: { "/srv/app/secret": text } });

  assert.equal(of(`${URL_OF_SERVER}\n`).server?.password?.(), SECRET);
  assert.equal(of("data/x.db\n").database, "/srv/app/data/x.db");
  assert.equal(of("x").sources.get("database"), "environment POSTBACKD_DB_FILE");
});

test("the password is read again from POSTBACKD_DB_FILE while the rest of the URL is the same", () => {
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

test("a problem with POSTBACKD_DB_FILE shows nothing of the file", () => {
  const env = { POSTBACKD_DB_FILE: "/run/secrets/db" };
  const source = "environment POSTBACKD_DB_FILE: ";

  assert.equal(problemOf({ env }), `${source}file /run/secrets/db does not exist`);
  const both = { ...env, POSTBACKD_DB: "x.db" };
  const files = { "/run/secrets/db": URL_OF_SERVER };
  assert.match(problemOf({ env: both, files }), /POSTBACKD_DB is set too: remove one of the two/);
  const broken = problemOf({ env, files: { "/run/secrets/db": `${URL_OF_SERVER}?sslmod=x` } });
  assert.match(broken, /database has an unknown parameter "sslmod"; did you mean sslmode\?/);
  const twoLines = problemOf({ env, files: { "/run/secrets/db": `${URL_OF_SERVER}\n${SECRET}` } });
  assert.doesNotMatch(twoLines, /s3cr3t/);
});

test("a setting without secrets has no _FILE variable", () => {
  assert.match(problemOf({ env: { POSTBACKD_PORT_FILE: "x" } }), /unknown variable/);
});

test("a problem of the database repeats no URL", () => {
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
    // The draft is shown with the problems.
    assert.doesNotMatch(inspect(load({ flags: { db: text } }), { depth: 9 }), /s3cr3t/);
  }
});

test("run_types accepts configured types alone", () => {
  const toml = '[types.resize]\nrunner = "echo"\n';
  const twoTypes = `${toml}[types.b]\nrunner = "echo"\n`;

  assert.deepEqual([...loaded({ toml: twoTypes }).runTypes], ["resize", "b"]);
  assert.deepEqual([...loaded({ toml: twoTypes, flags: { "run-type": ["b"] } }).runTypes], ["b"]);
  assert.match(
    problemOf({ toml, flags: { "run-type": ["resise"] } }),
    /run_types: type "resise" does not exist; the most similar type is resize/,
  );
});

test("a node name can be part of a file name", () => {
  for (const name of ["../x", "a/b", "", "a b", "x".repeat(65)]) {
    assert.match(problemOf({ flags: { "node-name": name } }), /node.name must be 1 to 64/);
  }
  assert.equal(nodeNameOf("host_1.example (2)"), "host_1.example--2-");
  assert.equal(nodeNameOf("x".repeat(80)).length, 64);
  assert.equal(nodeNameOf(""), "node");
});

test("backup.schedule is refused with PostgreSQL", () => {
  const toml = '[backup]\nschedule = "0 3 * * *"';
  const problem = problemOf({ flags: { db: URL_OF_SERVER }, toml });
  assert.match(problem, /backup\.schedule: .*pg_dump/);
  assert.equal(loaded({ flags: { db: "x.db" }, toml }).backup.schedule, "0 3 * * *");
});

const EVENTS_SECRET = newWebhookSecret();

function setup(url: string, rest = ""): Setup {
  return { toml: `${rest}\n[events]\nurl = ${JSON.stringify(url)}\nsecret = "${EVENTS_SECRET}"\n` };
}

test("events.url is judged as a URL of a webhook", () => {
  const refused: readonly (readonly [url: string, reason: RegExp])[] = [
    ["ftp://ops.example.com/", /http:\/\/ or https:\/\//],
    ["https://user:word@ops.example.com/", /user name|credentials|password/i],
    ["http://127.0.0.1:9000/told", /webhooks\.allow/],
    ["http://0x7f.1/told", /webhooks\.allow/],
    ["http://[::ffff:169.254.169.254]/", /webhooks\.allow/],
    ["https://ops.lan/told", /webhooks\.allow/],
    ["https://ops.example.com:0/", /port/],
    ["no URL", /http/],
  ];
  for (const [url, reason] of refused) {
    const problem = problemOf(setup(url));
    assert.match(problem, /^file .*postbackd\.toml, line \d+: events\.url/, url);
    assert.match(problem, reason, url);
  }
});

test("webhooks.allow applies to events.url", () => {
  const allow = 'webhooks.allow = ["127.0.0.1:9000", "ops.lan"]';
  assert.equal(
    loaded(setup("http://127.0.0.1:9000/x", allow)).events.url,
    "http://127.0.0.1:9000/x",
  );
  assert.equal(loaded(setup("https://ops.lan/x", allow)).events.url, "https://ops.lan/x");
  assert.match(problemOf(setup("http://127.0.0.1:9001/x", allow)), /events\.url/);
  // A faulty list is the only problem.
  assert.match(problemOf(setup("https://ops.lan/x", 'webhooks.allow = ["10.0.0.0/99"]')), /allow/);
});

test("no problem repeats the path of events.url or the secret", () => {
  const token = "t0p-5ecret";
  const wrong = [
    setup(`http://10.0.0.1/hooks/${token}?token=${token}`),
    setup(`https://${token}@ops.example.com/`),
    setup(`\u0000${token}`),
    { toml: `[events]\nurl = "https://ops.example.com/${token}"` },
    { toml: `[events]\nurl = "https://ops.example.com/"\nsecret = "${token}"` },
    { toml: `[events]\nurl = "https://ops.example.com/"\nsecret = ["${token}"]` },
  ];
  for (const each of wrong) {
    const problems = problemsOf(each);
    assert.equal(problems.length, 1, problems.join("\n"));
    assert.doesNotMatch(problems.join("\n"), /5ecret/);
  }
});

test("events.url without events.secret is refused with a command that makes one", () => {
  const problem = problemOf({ flags: { "events-url": "https://ops.example.com/" } });

  assert.match(
    problem,
    /^flag --events-url: events\.url needs events\.secret \(POSTBACKD_EVENTS_SECRET\)/,
  );
  assert.match(problem, /openssl rand -base64 32/);
});

test("events.url and events.secret can be in files", () => {
  const env = {
    POSTBACKD_EVENTS_URL_FILE: "/run/secrets/url",
    POSTBACKD_EVENTS_SECRET_FILE: "/run/secrets/secret",
  };
  const url = "https://ops.example.com/told?token=1";
  const files = { "/run/secrets/url": `${url}\n`, "/run/secrets/secret": `${EVENTS_SECRET}\n` };
  assert.deepEqual(loaded({ env, files }).events, { url, secret: EVENTS_SECRET });
});

test("the shown events.url has the host alone, and events.secret is hidden", () => {
  const verdict = load(setup("https://ops.example.com:8443/hooks/t0p-5ecret?token=5ecret"));

  assert.equal(verdict.kind, "config");
  const { values } = verdict.kind === "config" ? verdict.config : assert.fail();
  assert.equal(values.get("events.url"), "https://ops.example.com:8443/…");
  assert.equal(values.get("events.secret"), "…");
});
