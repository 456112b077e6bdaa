import assert from "node:assert/strict";
import { chmodSync, existsSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { SETTING_LIST } from "../../src/config/config.ts";
import { makeCertificate } from "../helpers/certificate.ts";
import { temporaryFolder } from "../helpers/program.ts";
import { documentOf, runHere } from "./in-process.ts";

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

test("check reports the file that it read", async (t) => {
  const cwd = temporaryFolder(t);
  const none = await documentOf<object>(t, ["config", "check"], { cwd });
  const toml = '[types.a]\nrunner = "echo"\n[types.b]\nrunner = "echo"\n';
  writeFileSync(join(cwd, "postbackd.toml"), `port = 1\n${toml}`);
  const { stdout } = await runHere(t, ["config", "check", "--host", "::1"], { cwd });

  const counts = { types: 1, marketplaces: 0, settings: 0 };
  assert.deepEqual(none, { file: null, valid: true, problems: [], warnings: [], ...counts });
  assert.match(stdout, /postbackd\.toml.*\n.*\(a, b\).*2 settings/);
});

test("check lists all problems with their sources, and exits with 78", async (t) => {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, "postbackd.toml"), 'databse = "x.db"\n[webhooks]\ntimeout = 10\n');
  const words = ["config", "check", "--tls-cert", "no.pem", "--tls-key", "nor.pem"];
  const options = { cwd, env: { POSTBACKD_HOTS: "::1", POSTBACKD_PORT: "x" } };

  const text = await runHere(t, words, options);
  const json = await runHere(t, [...words, "--json"], options);

  assert.deepEqual([text.code, text.stdout, json.code, json.stderr], [78, "", 78, ""]);
  const { valid, problems } = JSON.parse(json.stdout) as {
    readonly valid: boolean;
    readonly problems: readonly { readonly key: string; readonly source: string }[];
  };
  assert.equal(valid, false);
  assert.deepEqual(
    problems.map(({ key }) => key),
    ["POSTBACKD_HOTS", "databse", "port", "webhooks.timeout", "tls_cert", "tls_key"],
  );
  const lines = text.stderr.trimEnd().split("\n");
  assert.deepEqual(
    lines.map((line) => /^postbackd: (environment|file|flag) /.exec(line)?.[1]),
    ["environment", "file", "environment", "file", "flag", "flag"],
  );
});

test("check refuses a certificate of another key, and warns of an expired one", async (t) => {
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
    runHere(t, ["config", "check", "--tls-cert", cert, "--tls-key", key], { cwd });

  const [valid, mixed, expired] = [
    await check("good.pem", "good.key"),
    await check("good.pem", "other.key"),
    await check("old.pem", "old.key"),
  ];

  assert.deepEqual([valid.code, mixed.code, expired.code], [0, 78, 0]);
  assert.doesNotMatch(valid.stdout, /warning/);
  assert.match(expired.stdout, /\nwarning: .*expired/);
});

test("check warns of a command that does not exist or is not executable", async (t) => {
  const cwd = temporaryFolder(t);
  const toml = '[types.a]\ncommand = ["no-such-program"]\n[types.b]\ncommand = ["./plain"]\n';
  writeFileSync(join(cwd, "postbackd.toml"), toml);
  writeFileSync(join(cwd, "plain"), "");
  chmodSync(join(cwd, "plain"), 0o600);

  const text = await runHere(t, ["config", "check"], { cwd });
  const json = await runHere(t, ["config", "check", "--json"], { cwd });
  const both = await runHere(t, ["config", "check"], { cwd, env: { POSTBACKD_PORT: "x" } });

  assert.deepEqual([text.code, json.code, both.code], [0, 0, 78]);
  const { warnings } = JSON.parse(json.stdout) as { readonly warnings: readonly string[] };
  assert.equal(warnings.length, 2);
  assert.match(text.stdout, /\nwarning: .*no-such-program.*\nwarning: .*type b .*not executable/);
  assert.match(both.stderr, /warning: .*\n.*warning: .*\n.*environment POSTBACKD_PORT/);
});

test("check warns if retention_days is shorter than webhooks.retry_after", async (t) => {
  const cwd = temporaryFolder(t);
  const check = (retryAfter: string) => {
    const toml = `retention_days = 1\n[webhooks]\nretry_after = ${retryAfter}\n`;
    writeFileSync(join(cwd, "postbackd.toml"), toml);
    return runHere(t, ["config", "check"], { cwd });
  };

  const warning = /\nwarning: retention_days.*webhooks\.retry_after/;
  for (const [retryAfter, isWarned] of [
    ['["25h"]', true],
    ['["12h", "12h"]', true],
    ['["12h", "11h"]', false],
  ] as const) {
    const { code, stdout } = await check(retryAfter);
    assert.deepEqual([code, warning.test(stdout)], [0, isWarned], retryAfter);
  }
});

test("print shows every value with its source, and no secret", async (t) => {
  const cwd = temporaryFolder(t);
  const long = "x".repeat(100);
  const toml = [
    "[webhooks]\nretry_after = ['1s']",
    `[types.long]\ncommand = ["${long}"]`,
    '[types."a.b"]\ncommand = ["/bin/true", "-v"]\nenv = { TOKEN = "hunter2" }',
    '[[marketplaces]]\ncode = "us"\nname = "United States"\ncurrency = "USD"',
  ].join("\n");
  writeFileSync(join(cwd, "postbackd.toml"), toml);
  const file = join(cwd, "postbackd.toml");
  const words = ["config", "print", "--port", "99"];
  const options = { cwd, env: { POSTBACKD_DB: "x.db" } };

  const json = await runHere(t, [...words, "--json"], options);
  const text = await runHere(t, words, options);

  const document = JSON.parse(json.stdout) as PrintDocument;
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
  assert.deepEqual(document.types.slice(1), [
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
  // The table cuts a long value.
  assert.match(text.stdout, /\ntypes\.long\.command +\["x{58}… +file /);
  assert.ok(json.stdout.includes(`["${long}"]`));
  assert.match(text.stdout, /\nmarketplaces +\["us"\] +file /);
  assert.doesNotMatch(text.stdout + json.stdout, /hunter2/);
});

test("init makes a file for its owner only that check accepts, and replaces none", async (t) => {
  const cwd = temporaryFolder(t);

  await documentOf(t, ["config", "init"], { cwd });
  const checked = await documentOf<{ file: string }>(t, ["config", "check"], { cwd });
  const named = await documentOf(t, ["config", "init", "other.toml"], { cwd });
  const text = readFileSync(join(cwd, "postbackd.toml"), "utf8");
  symlinkSync(join(cwd, "elsewhere"), join(cwd, "link.toml"));

  assert.equal(statSync(join(cwd, "postbackd.toml")).mode & 0o777, 0o600);
  assert.equal(checked.file, join(cwd, "postbackd.toml"));
  assert.deepEqual(named, { file: join(cwd, "other.toml") });
  for (const words of [[], ["link.toml"], ["no-such-folder/x.toml"]]) {
    const { code, stdout } = await runHere(t, ["config", "init", ...words], { cwd });
    assert.deepEqual([code, stdout], [1, ""]);
  }
  assert.equal(readFileSync(join(cwd, "postbackd.toml"), "utf8"), text);
  assert.equal(existsSync(join(cwd, "elsewhere")), false);
});
