import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";

import { parseServerUrl, type ServerUrl } from "../../src/domain/address/server-url.ts";

const SECRET = "s3cr3t";

/** What a refusal says; fails the test where the URL is taken. */
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

test("never repeats a password, also where it is not percent-encoded", () => {
  const hostile = [
    `postgres://app:${SECRET}@${SECRET}@db/x`,
    `postgres://app:${SECRET}/${SECRET}@db/x`,
    `postgres://app:${SECRET}?${SECRET}=${SECRET}@db/x`,
    `postgres://app:x?${SECRET}@db/x`,
    `postgres://app:${SECRET}#${SECRET}@db/x`,
    `postgres://app:x#${SECRET}@db/x`,
    `postgres://app:${SECRET} @db/x`,
    `postgres://app:${SECRET}\n@db/x`,
    `postgres://app:${SECRET}%zz@db/x`,
    `postgres://app:${SECRET}%ff@db/x`,
    `postgres://app:${SECRET}%00@db/x`,
    `postgres://app:${SECRET}@/x`,
    `postgres://app:${SECRET}@db`,
    `postgres://app:${SECRET}@db:99999/x`,
    `postgres://app:${SECRET}@db/x?nope=1`,
    `postgres://app@db/x?password=${SECRET}`,
    `postgres://app@db/x?sslpassword=${SECRET}`,
    `postgres://:${SECRET}@db/x`,
    `mysql://app:${SECRET}@db/x`,
    `https://app:${SECRET}@db/x`,
  ];

  for (const text of hostile) assert.doesNotMatch(refusal(text), new RegExp(SECRET), text);
});

test("shows a URL without its password, in whatever way it is shown", () => {
  const url = taken(`postgres://app:${SECRET}%40%2F@a:5432,b/x?sslmode=require`);

  assert.equal(url.password?.(), `${SECRET}@/`);
  assert.equal(url.shown, "postgres://app@a:5432,b/x?sslmode=require");
  assert.doesNotMatch(inspect(url) + JSON.stringify(url), new RegExp(SECRET));
});

test("tells how to write what it refuses", () => {
  const cases: readonly [string, RegExp][] = [
    ["postgres://app:a@b@db/x", /percent-encode what is special in the password: @ is %40/],
    ["postgres://db/x", /names no user/],
    ["postgres://app@db/", /names no database/],
    ["postgres://app@/x", /names no host; .*localhost or \?host=\/run\/postgresql/],
    ["postgres://app@db/x/y", /write \/ as %2F/],
    ["postgres://app@db/x#y", /write it as %23/],
    ["postgres://app@db/x?sslmod=require", /"sslmod"; the nearest known one is sslmode/],
    ["postgres://app@db/x?__proto__=1", /unknown parameter "__proto__"/],
    ["postgres://app@db/x?constructor=1", /unknown parameter "constructor"/],
    ["postgres://app@db/x?sslmode=prefer", /write verify-full, or disable/],
    ["postgres://app@db/x?sslmode=yes", /sslmode=, which must be one of disable, require/],
    ["postgres://app@db/x?sslmode=require&sslmode=disable", /has sslmode= twice/],
    ["postgres://app@db/x?sslcert=/a.pem", /sslcert and sslkey together/],
    ["postgres://app@db/x?sslrootcert=ca.pem", /absolute path or "system"/],
    ["postgres://app@db/x?host=/run/postgresql", /names its hosts twice/],
    ["postgres://app@db/x?port=1", /port= without host=/],
    ["postgres://app@db/x?connect_timeout=0", /from 1 to 300/],
    ["postgres://app@db/x?options=-c%20synchronous_commit%3Doff", /the schema of the tables alone/],
    [
      "postgres://app@db/x?options=-c%20search_path%3Da%20-c%20fsync%3Doff",
      /the schema of the tables/,
    ],
    ["postgres://app@db/x?channel_binding=require", /take it out, and write sslmode=verify-full/],
    ["postgres://app@db/x?dbname=y", /dbname= behind its host/],
    ["postgres://a%00b@db/x", /percent-encoded control character/],
    ["postgres://app@db:0/x", /HOST, HOST:PORT or \[IPV6\]:PORT/],
    ["postgres://app@a,,b/x", /names no host/],
    ["postgres://app@::1/x", /HOST, HOST:PORT or \[IPV6\]:PORT/],
    ["postgres://app@[nope]/x", /neither a name nor an address/],
    ["postgres://app@a..b/x", /neither a name nor an address/],
    [`postgres://app@db/${"x".repeat(64)}`, /database of more than 63 bytes/],
    [`postgres://app@${"a,".repeat(16)}a/x`, /more than 16 hosts/],
  ];

  for (const [text, reason] of cases) assert.match(refusal(text), reason, text);
});

test("asks for a checked certificate beyond this machine unless told otherwise", () => {
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

test("takes several hosts, with a port each, and wants one that writes", () => {
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

test("takes the folder of a unix socket, as a parameter or in the place of the host", () => {
  const socket = { host: "/run/postgresql", port: 5433, tls: "disable" };

  assert.deepEqual(taken("postgres://app@/x?host=/run/postgresql&port=5433").hosts, [socket]);
  assert.deepEqual(taken("postgres://app@%2Frun%2Fpostgresql:5433/x").hosts, [socket]);
});

test("reads every parameter that it knows", () => {
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
