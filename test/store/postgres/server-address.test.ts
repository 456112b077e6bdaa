import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { ConnectionOptions } from "node:tls";
import { inspect } from "node:util";

import { Client } from "pg";

import {
  parseServerAddress as addressOf,
  shownAddress,
} from "../../../src/store/postgres/machine/server-address.ts";
import { temporaryFolder } from "../../helpers/program.ts";
import { pluck } from "../../helpers/store.ts";

/** The TLS options of the only host. */
function tlsOf(url: string): ConnectionOptions {
  const [host] = addressOf(url).hosts;
  const ssl = host?.ssl;
  return typeof ssl === "object" ? ssl : assert.fail(inspect(ssl));
}

test("the TLS files of a URL are read again for new connections", (t) => {
  const ca = join(temporaryFolder(t), "ca.pem");
  writeFileSync(ca, "old");
  const address = addressOf(`postgres://app@a/x?sslrootcert=${ca}`);
  writeFileSync(ca, "new");
  const [host] = address.readAgain().hosts;
  assert.ok(typeof host?.ssl === "object");
  assert.equal(host.ssl.ca, "new");
});

test("each host of a URL has a configuration for pg", () => {
  const address = addressOf(
    "postgres://app:pw@a:6432,[::1]/x?connect_timeout=3&options=-c%20search_path%3Djobs",
  );
  const [first, second] = address.hosts;

  assert.deepEqual([first?.host, first?.port, first?.ssl !== false], ["a", 6432, true]);
  assert.deepEqual([second?.host, second?.port, second?.ssl], ["::1", 5432, false]);
  assert.deepEqual([first?.user, first?.database], ["app", "x"]);
  assert.equal(first?.connectionTimeoutMillis, 3000);
  assert.equal(first?.options, "-c search_path=jobs");
  assert.deepEqual(pluck(address.hosts, "shown"), ["a:6432", "[::1]:5432"]);
  assert.equal(addressOf("postgres://app@/x?host=/run").hosts[0]?.shown, "/run/.s.PGSQL.5432");
});

test("no form of the address shows the password", () => {
  const address = addressOf("postgres://app:s3cr3t@a/x");
  assert.equal(shownAddress(address), "postgres://app@a/x");
  assert.doesNotMatch(inspect(address, { depth: 9 }) + JSON.stringify(address), /s3cr3t/);
});

test("the variables and files of libpq have no effect", (t) => {
  const variables = {
    PGPASSWORD: "other",
    PGUSER: "other",
    PGAPPNAME: "other",
    PGSSLMODE: "require",
  };
  Object.assign(process.env, variables);
  t.after(() => {
    for (const name of Object.keys(variables)) Reflect.deleteProperty(process.env, name);
  });
  const [host] = addressOf("postgres://app@localhost/x").hosts;
  const client = new Client({ ...host });

  assert.equal(client.user, "app");
  assert.equal(client.ssl, false);
  // pg asks a function each time, and looks nowhere else.
  assert.equal(typeof client.password, "function");
});

test("sslmode decides the check of the certificate", (t) => {
  const ca = join(temporaryFolder(t), "ca.pem");
  writeFileSync(ca, "authority");

  const full = tlsOf("postgres://app@a/x");
  assert.equal(full.rejectUnauthorized, true);
  assert.ok(full.checkServerIdentity?.("a", { subject: { CN: "b" } } as never) instanceof Error);
  assert.equal(tlsOf("postgres://app@a/x?sslmode=require").rejectUnauthorized, false);
  const byAuthority = tlsOf(`postgres://app@a/x?sslmode=require&sslrootcert=${ca}`);
  assert.deepEqual([byAuthority.ca, byAuthority.rejectUnauthorized], ["authority", true]);
  assert.equal(byAuthority.checkServerIdentity?.("a", {} as never), undefined);
  const system = tlsOf("postgres://app@a/x?sslrootcert=system");
  assert.deepEqual([system.ca, system.rejectUnauthorized], [undefined, true]);
});

test("a client certificate and its key are used for every connection", (t) => {
  const folder = temporaryFolder(t);
  const [cert, key] = [join(folder, "c.pem"), join(folder, "k.pem")];
  writeFileSync(cert, "certificate");
  writeFileSync(key, "s3cr3t");
  const [host] = addressOf(`postgres://app@a/x?sslcert=${cert}&sslkey=${key}`).hosts;
  for (const client of [new Client({ ...host }), new Client({ ...host })]) {
    assert.deepEqual(Reflect.get(Object(client.ssl), "key"), "s3cr3t");
  }
  assert.doesNotMatch(inspect(host, { depth: 9 }), /s3cr3t/);
});

test("the error names the unreadable TLS file", () => {
  assert.throws(() => addressOf("postgres://app@a/x?sslrootcert=/nowhere/ca.pem"), {
    kind: "failed",
    message: "sslrootcert names /nowhere/ca.pem, which cannot be read (ENOENT)",
  });
});
