import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";

import { parseServerUrl, type ServerUrl } from "../../src/domain/address/server-url.ts";

const SECRET = "s3cr3t";

function refusal(text: string): string {
  const parsed = parseServerUrl(text);
  assert.equal(parsed.kind, "fault", text);
  return parsed.kind === "fault" ? parsed.reason : assert.fail();
}

function taken(text: string): ServerUrl {
  const parsed = parseServerUrl(text);
  assert.equal(parsed.kind, "value", inspect(parsed));
  return parsed.kind === "value" ? parsed.value : assert.fail();
}

test("a fault does not contain the password, also if it is not percent-encoded", () => {
  const urls = [
    ...["postgres://app:S@S@db/x", "postgres://app:S/S@db/x", "postgres://app:S?S=S@db/x"],
    ...["postgres://app:x?S@db/x", "postgres://app:S#S@db/x", "postgres://app:x#S@db/x"],
    ...["postgres://app:S @db/x", "postgres://app:S\n@db/x", "postgres://app:S%zz@db/x"],
    ...["postgres://app:S%ff@db/x", "postgres://app:S%00@db/x", "postgres://app:S@/x"],
    ...["postgres://app:S@db", "postgres://app:S@db:99999/x", "postgres://app:S@db/x?nope=1"],
    ...["postgres://app@db/x?password=S", "postgres://app@db/x?sslpassword=S"],
    ...["postgres://:S@db/x", "mysql://app:S@db/x", "https://app:S@db/x"],
  ];
  const hostile = urls.map((url) => url.replaceAll("S", SECRET));

  for (const text of hostile) assert.doesNotMatch(refusal(text), new RegExp(SECRET), text);
});

test("a parsed URL is printed without its password", () => {
  const url = taken(`postgres://app:${SECRET}%40%2F@a:5432,b/x?sslmode=require`);

  assert.equal(url.password?.(), `${SECRET}@/`);
  assert.equal(url.shown, "postgres://app@a:5432,b/x?sslmode=require");
  assert.doesNotMatch(inspect(url) + JSON.stringify(url), new RegExp(SECRET));
});

test("a host beyond this machine needs a verified certificate unless sslmode changes it", () => {
  const modes = (text: string): readonly string[] => taken(text).hosts.map(({ tls }) => tls);

  assert.deepEqual(modes("postgres://app@db.example.com/x"), ["verify-full"]);
  assert.deepEqual(modes("postgres://app@10.0.0.5,localhost,127.0.0.1,[::1]/x"), [
    ...["verify-full", "disable", "disable", "disable"],
  ]);
  assert.deepEqual(modes("postgres://app@localhost/x?sslmode=verify-ca"), ["verify-ca"]);
  assert.deepEqual(modes("postgres://app@/x?host=/run/postgresql&sslmode=verify-full"), [
    "disable",
  ]);
});

test("several hosts each have a port, and the session needs a writable one", () => {
  const url = taken("postgresql://app@a:6432,[2001:db8::1]:5433,b/x");

  assert.deepEqual(
    url.hosts.map(({ host, port }) => [host, port]),
    [
      ["a", 6432],
      ["2001:db8::1", 5433],
      ["b", 5432],
    ],
  );
  assert.equal(url.targetSession, "read-write");
  assert.equal(taken("postgres://app@a/x").targetSession, "any");
  assert.equal(taken("postgres://app@a,b/x?target_session_attrs=any").targetSession, "any");
});

test("a Unix socket's folder is a parameter or the host", () => {
  const socket = { host: "/run/postgresql", port: 5433, tls: "disable" };

  assert.deepEqual(taken("postgres://app@/x?host=/run/postgresql&port=5433").hosts, [socket]);
  assert.deepEqual(taken("postgres://app@%2Frun%2Fpostgresql:5433/x").hosts, [socket]);
});

test("every known parameter is parsed", () => {
  const parameters = [
    ...["sslmode=verify-ca", "sslrootcert=/ca.pem", "sslcert=/c.pem", "sslkey=/k.pem"],
    ...["application_name=jobs", "connect_timeout=9", "options=-c%20search_path%3Djobs"],
  ];
  const url = taken(`POSTGRES://app@db/x%20y?${parameters.join("&")}`);

  assert.equal(url.database, "x y");
  assert.deepEqual(url.tlsFiles, { rootCert: "/ca.pem", cert: "/c.pem", key: "/k.pem" });
  assert.equal(url.applicationName, "jobs");
  assert.equal(url.connectTimeoutMs, 9000);
  assert.equal(url.searchPath, "jobs");
  assert.equal(url.password, null);
});
