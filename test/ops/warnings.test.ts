import assert from "node:assert/strict";
import { test } from "node:test";

import { warnOfRisks } from "../../src/ops/check.ts";
import { loaded } from "../helpers/config.ts";

/** The warnings of a start with this database. */
function warningsOf(db: string): readonly string[] {
  const warnings: string[] = [];
  const log = {
    ...{ debug() {}, info() {}, error() {} },
    warn: (facts: object, message: string) =>
      void warnings.push(`${JSON.stringify(facts)} ${message}`),
  };
  warnOfRisks(loaded({ flags: { db } }), { log, env: {} });
  return warnings;
}

test("a connection without TLS, or with an unchecked certificate, is a warning", () => {
  assert.deepEqual(warningsOf("postgres://app:s3cr3t@db.lan/x?sslmode=disable"), [
    '{"host":"db.lan"} the database is reached without TLS: tasks travel readable (sslmode=disable)',
  ]);
  const [unchecked = "", ...others] = warningsOf("postgres://app@a,localhost/x?sslmode=require");
  assert.match(unchecked, /^\{"host":"a"\} the database's certificate is not checked/);
  assert.deepEqual(others, []);
});

test("a local database, or a checked certificate, is no cause for a warning", () => {
  const urls = [
    "x.db",
    "postgres://app@db.lan/x",
    "postgres://app@db.lan/x?sslmode=require&sslrootcert=/ca.pem",
    "postgres://app@localhost/x",
    "postgres://app@/x?host=/run/postgresql",
  ];

  for (const url of urls) assert.deepEqual(warningsOf(url), [], url);
});
