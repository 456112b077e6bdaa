import assert from "node:assert/strict";
import { chmodSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { SETTING_LIST } from "../../src/config/config.ts";
import { makeCertificate } from "../deliver/certificate.ts";
import { runProgram, temporaryFolder } from "../helpers/program.ts";
import type { Finished } from "../helpers/program.ts";

interface ShownSetting {
  readonly key: string;
  readonly value: unknown;
  readonly source: string;
}

interface PrintDocument {
  readonly file: string | null;
  readonly settings: readonly ShownSetting[];
  readonly types: readonly {
    readonly name: string;
    readonly kind: string;
    readonly settings: readonly ShownSetting[];
  }[];
  readonly marketplaces: readonly Readonly<Record<string, unknown>>[];
}

function documentOf({ stdout }: Finished): unknown {
  assert.match(stdout, /^\{.*\}\n$/, "one document on one line");
  return JSON.parse(stdout);
}

test("checks that nothing is wrong, and says what it read", async (t) => {
  const cwd = temporaryFolder(t);
  const none = await runProgram(t, ["config", "check"], { cwd });
  const toml = '[types.a]\nrunner = "echo"\n[types.b]\nrunner = "echo"\n';
  writeFileSync(join(cwd, "postbackd.toml"), `port = 1\n${toml}`);
  const some = await runProgram(t, ["config", "check", "--host", "::1"], { cwd });

  assert.deepEqual([none.code, none.stderr, some.code, some.stderr], [0, "", 0, ""]);
  assert.match(none.stdout, /^No configuration file exists\.\n1 task type \(echo\), 0 market/);
  assert.ok(some.stdout.startsWith(`Read ${join(cwd, "postbackd.toml")}.\n2 task types (a, b), `));
  assert.match(some.stdout, /, 2 settings given; .*\nThe configuration is in order\.\n$/);
});

test("lists all that is wrong, a line each, and exits with 78", async (t) => {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, "postbackd.toml"), 'databse = "x.db"\n[webhooks]\ntimeout = 10\n');
  const words = ["config", "check", "--tls-cert", "no.pem", "--tls-key", "nor.pem"];
  const options = { cwd, env: { POSTBACKD_HOTS: "::1", POSTBACKD_PORT: "x" } };

  const text = await runProgram(t, words, options);
  const json = await runProgram(t, [...words, "--json"], options);

  assert.deepEqual([text.code, text.stdout], [78, ""]);
  assert.match(
    text.stderr,
    new RegExp(
      [
        "^postbackd: environment POSTBACKD_HOTS: unknown .*",
        "postbackd: file .*: unknown key .databse.*",
        "postbackd: environment POSTBACKD_PORT: .*",
        "postbackd: file .*: webhooks.timeout needs a unit.*",
        "postbackd: flag --tls-cert: tls_cert names .*/no.pem, which cannot be read \\(ENOENT\\)",
        "postbackd: flag --tls-key: tls_key names .*/nor.pem, which cannot be read \\(ENOENT\\)\n$",
      ].join("\n"),
    ),
  );
  assert.deepEqual([json.code, json.stderr], [78, ""]);
  const { valid, problems } = documentOf(json) as {
    readonly valid: boolean;
    readonly problems: readonly { readonly key: string; readonly source: string }[];
  };
  assert.equal(valid, false);
  assert.deepEqual(
    problems.map(({ key }) => key),
    ["POSTBACKD_HOTS", "databse", "port", "webhooks.timeout", "tls_cert", "tls_key"],
  );
});

test("checks what start would refuse: plain HTTP beyond loopback", async (t) => {
  const wrong = await runProgram(t, ["config", "check", "--host", "0.0.0.0"]);
  const right = await runProgram(t, ["config", "check", "--host", "0.0.0.0", "--insecure-http"]);

  assert.deepEqual([wrong.code, right.code], [78, 0]);
  assert.match(wrong.stderr, /^postbackd: flag --host: .*beyond loopback/);
});

test("judges a certificate as start does", async (t) => {
  const cwd = temporaryFolder(t);
  const good = makeCertificate({ commonName: "a.example.com" });
  const other = makeCertificate({ commonName: "b.example.com" });
  const old = makeCertificate({ commonName: "c.example.com", notAfter: new Date("2020-01-02") });
  for (const [name, pem] of Object.entries({
    "good.pem": good.cert,
    "good.key": good.key,
    "other.key": other.key,
    "old.pem": old.cert,
    "old.key": old.key,
  })) {
    writeFileSync(join(cwd, name), pem);
  }
  const check = (cert: string, key: string) =>
    runProgram(t, ["config", "check", "--tls-cert", cert, "--tls-key", key], { cwd });

  const [valid, mixed, expired] = [
    await check("good.pem", "good.key"),
    await check("good.pem", "other.key"),
    await check("old.pem", "old.key"),
  ];

  assert.deepEqual([valid.code, mixed.code, expired.code], [0, 78, 0]);
  assert.match(mixed.stderr, /^postbackd: flag --tls-cert: \/.*\n$/);
  assert.doesNotMatch(valid.stdout, /warning/);
  assert.match(expired.stdout, /\nwarning: the certificate has expired/);
});

test("warns of a program that is not there, which is no failure", async (t) => {
  const cwd = temporaryFolder(t);
  const toml = '[types.a]\ncommand = ["no-such-program"]\n[types.b]\ncommand = ["./plain"]\n';
  writeFileSync(join(cwd, "postbackd.toml"), toml);
  writeFileSync(join(cwd, "plain"), "");
  chmodSync(join(cwd, "plain"), 0o600);

  const text = await runProgram(t, ["config", "check"], { cwd });
  const json = await runProgram(t, ["config", "check", "--json"], { cwd });
  const both = await runProgram(t, ["config", "check"], { cwd, env: { POSTBACKD_PORT: "x" } });

  assert.deepEqual([text.code, json.code, both.code], [0, 0, 78]);
  assert.match(text.stdout, /\nwarning: tasks of type a will fail: .*no-such-program.*not found/);
  assert.match(text.stdout, /\nwarning: tasks of type b will fail: .*not executable/);
  assert.equal((documentOf(json) as { warnings: readonly string[] }).warnings.length, 2);
  assert.match(
    both.stderr,
    /^postbackd: warning: .*\npostbackd: warning: .*\npostbackd: environment POSTBACKD_PORT/,
  );
});

test("warns where tasks are to be kept for less than their webhooks may take, and only there", async (t) => {
  const cwd = temporaryFolder(t);
  const check = (retryAfter: string) => {
    const toml = `retention_days = 1\n[webhooks]\nretry_after = ${retryAfter}\n`;
    writeFileSync(join(cwd, "postbackd.toml"), toml);
    return runProgram(t, ["config", "check"], { cwd });
  };

  const [long, several, short] = [
    await check('["25h"]'),
    await check('["12h", "12h"]'),
    await check('["12h", "11h"]'),
  ];

  const warning = /\nwarning: retention_days = 1 is shorter than .*webhooks\.retry_after/;
  assert.deepEqual([long.code, several.code, short.code], [0, 0, 0]);
  assert.match(long.stdout, warning);
  assert.match(several.stdout, warning);
  assert.doesNotMatch(short.stdout, /warning/);
});

test("prints every value with its source", async (t) => {
  const cwd = temporaryFolder(t);
  const toml = [
    "[webhooks]\nretry_after = ['1s']",
    '[types."a.b"]\ncommand = ["/bin/true", "-v"]\nenv = { TOKEN = "hunter2" }',
    '[[marketplaces]]\ncode = "us"\nname = "United States"\ncurrency = "USD"',
  ].join("\n");
  writeFileSync(join(cwd, "postbackd.toml"), toml);
  const file = join(cwd, "postbackd.toml");
  const words = ["config", "print", "--port", "99"];
  const options = { cwd, env: { POSTBACKD_DB: "x.db" } };

  const json = await runProgram(t, [...words, "--json"], options);
  const text = await runProgram(t, words, options);

  const document = documentOf(json) as PrintDocument;
  assert.equal(document.file, file);
  assert.deepEqual(
    document.settings.map(({ key }) => key),
    SETTING_LIST.map(({ key }) => key),
  );
  const given = document.settings.filter(({ source }) => source !== "default");
  assert.deepEqual(given, [
    { key: "database", value: join(cwd, "x.db"), source: "environment POSTBACKD_DB" },
    { key: "port", value: 99, source: "flag --port" },
    { key: "webhooks.retry_after", value: ["1s"], source: `file ${file}` },
  ]);
  assert.deepEqual(document.types, [
    {
      name: "a.b",
      kind: "command",
      settings: [
        { key: 'types."a.b".timeout', value: "10m", source: "default" },
        { key: 'types."a.b".concurrency', value: 4, source: "default" },
        { key: 'types."a.b".retries', value: 0, source: "default" },
        { key: 'types."a.b".command', value: ["/bin/true", "-v"], source: `file ${file}` },
        { key: 'types."a.b".env', value: ["TOKEN"], source: `file ${file}` },
        { key: 'types."a.b".cwd', value: cwd, source: "default" },
      ],
    },
  ]);
  assert.deepEqual(document.marketplaces, [{ code: "us", name: "United States", currency: "USD" }]);
  assert.match(text.stdout, /^KEY +VALUE +SOURCE\nconfig +"\/.+ default\n/);
  assert.match(text.stdout, /\nport +99 +flag --port\n/);
  assert.match(text.stdout, /\nwebhooks\.retry_after +\["1s"\] +file /);
  assert.match(text.stdout, /\ntypes\."a\.b" +"command" +file /);
  assert.match(text.stdout, /\nmarketplaces +\["us"\] +file /);
  assert.doesNotMatch(text.stdout + json.stdout, /hunter2/);
});

test("cuts a long value in the table and shows it whole in the document", async (t) => {
  const cwd = temporaryFolder(t);
  const long = "x".repeat(100);
  writeFileSync(join(cwd, "postbackd.toml"), `[types.a]\ncommand = ["${long}"]\n`);

  const text = await runProgram(t, ["config", "print"], { cwd });
  const json = await runProgram(t, ["config", "print", "--json"], { cwd });

  assert.match(text.stdout, /\ntypes\.a\.command +\["x{58}… +file /);
  assert.ok(json.stdout.includes(`["${long}"]`));
});

test("prints nothing of a configuration that is wrong", async (t) => {
  const words = ["config", "print", "--json"];
  const { code, stdout, stderr } = await runProgram(t, words, { env: { POSTBACKD_PORT: "x" } });

  assert.deepEqual([code, Object.keys(JSON.parse(stdout))], [78, ["error"]]);
  assert.match(stderr, /^postbackd: environment POSTBACKD_PORT: /);
});

test("makes a file for its owner only that passes the check", async (t) => {
  const cwd = temporaryFolder(t);

  const made = await runProgram(t, ["config", "init"], { cwd });
  const checked = await runProgram(t, ["config", "check"], { cwd });
  const named = await runProgram(t, ["config", "init", "other.toml", "--json"], { cwd });

  assert.deepEqual([made.code, made.stderr, checked.code, named.code], [0, "", 0, 0]);
  assert.equal(statSync(join(cwd, "postbackd.toml")).mode & 0o777, 0o600);
  assert.ok(checked.stdout.startsWith(`Read ${join(cwd, "postbackd.toml")}.`));
  assert.deepEqual(documentOf(named), { file: join(cwd, "other.toml") });
});

test("leaves a file that exists as it is, a link that leads nowhere too", async (t) => {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, "postbackd.toml"), "port = 1\n");
  symlinkSync(join(cwd, "elsewhere"), join(cwd, "link.toml"));

  for (const words of [[], ["link.toml"], ["no-such-folder/x.toml"]]) {
    const { code, stdout, stderr } = await runProgram(t, ["config", "init", ...words], { cwd });
    assert.deepEqual([code, stdout], [1, ""]);
    assert.match(stderr, /^postbackd: \/.*(exists already and is left as it is|cannot be written)/);
  }
  assert.equal(readFileSync(join(cwd, "postbackd.toml"), "utf8"), "port = 1\n");
});
