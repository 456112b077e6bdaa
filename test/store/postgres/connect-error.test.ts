import assert from "node:assert/strict";
import { test } from "node:test";

import { connectError, settingsError } from "../../../src/store/postgres/machine/server-address.ts";
import { StoreError } from "../../../src/store/store.ts";

const PLACE = {
  shown: "db:5432",
  user: "app",
  database: "jobs",
  tlsMode: "disable",
  hasPassword: true,
} as const;

/** An error as Node and pg make them; the messages are PostgreSQL 15's and pg 8.23's own. */
function failed(code: string | null, message = ""): Error {
  return Object.assign(new Error(message), code === null ? {} : { code });
}

test("errors that need a change name the remedy", () => {
  const cases: readonly [Error, RegExp][] = [
    [
      failed("28P01", 'password authentication failed for user "app"'),
      /refuses app with this pass/,
    ],
    [failed("28000", 'role "app" does not exist'), /no role app .* 'createuser --pwprompt app'/],
    [
      failed("28000", 'no pg_hba.conf entry for host "10.0.0.9", user "app", no encryption'),
      /pg_hba\.conf, or write sslmode=verify-full/,
    ],
    [failed("3D000", 'database "jobs" does not exist'), /'createdb -O app jobs'/],
    [failed("3F000", "no schema has been selected to create in"), /schema in options=/],
    [failed("42501", "permission denied for schema public"), /CREATE and USAGE on the schema/],
    [failed("08P01", "unsupported startup parameter: options"), /ignore_startup_parameters/],
    [failed("EACCES"), /may not open db:5432/],
    [failed("DEPTH_ZERO_SELF_SIGNED_CERT"), /sslrootcert=/],
    [failed("ERR_TLS_CERT_ALTNAME_INVALID"), /is for another name/],
    [failed("CERT_HAS_EXPIRED"), /renew it/],
    [failed("ERR_SSL_WRONG_VERSION_NUMBER"), /check sslcert, sslkey/],
    [failed(null, "The server does not support SSL connections"), /sslmode=disable in the URL/],
    [
      failed(null, "SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a non-empty string"),
      /asks for the password of app, and the URL has none/,
    ],
    [failed("XX000", "could not open file"), /db:5432 answered: could not open file \(XX000\)/],
  ];

  for (const [error, remedy] of cases) {
    const told = connectError(error, PLACE);
    assert.match(told.message, remedy);
    assert.equal(told.kind, "failed", told.message);
    assert.equal(told.cause, error);
  }
});

test("errors that may pass are retried by the caller", () => {
  const cases: readonly [Error, RegExp][] = [
    [failed("ECONNREFUSED"), /nothing listens at db:5432/],
    [failed("ENOENT"), /there is no socket/],
    [failed("ENOTFOUND"), /not known here/],
    [failed("EAI_AGAIN"), /no name server answered/],
    [failed("ETIMEDOUT"), /a firewall or a network/],
    [failed("ECONNRESET"), /broke the connection off/],
    [failed("53300", "sorry, too many clients already"), /raise max_connections/],
    [failed("25006", "cannot execute INSERT in a read-only transaction"), /takes no writes/],
    [failed("57P03", "the database system is starting up"), /starting up/],
    [failed(null, "timeout expired"), /did not answer in time/],
    [failed(null, "Connection terminated unexpectedly"), /broke the connection off/],
    [failed(null, "anything else"), /cannot be reached: anything else/],
  ];

  for (const [error, reason] of cases) {
    const told = connectError(error, PLACE);
    assert.match(told.message, reason);
    assert.ok(told.isPassing, told.message);
  }
});

test("an explained error stays the same", () => {
  const known = new StoreError("closed", "the store is closed");
  assert.equal(connectError(known, PLACE), known);
});

test("settings that may lose acknowledged writes are refused", () => {
  const safe = {
    ...{ server_encoding: "UTF8", fsync: "on", full_page_writes: "on" },
    synchronous_commit: "remote_apply",
  };

  assert.equal(settingsError(safe, PLACE), null);
  assert.match(String(settingsError({ ...safe, fsync: "off" }, PLACE)), /because fsync is off/);
  assert.match(
    String(settingsError({ ...safe, full_page_writes: "off" }, PLACE)),
    /because full_page_writes is off/,
  );
  assert.match(
    String(settingsError({ ...safe, synchronous_commit: "off" }, PLACE)),
    /ALTER ROLE … SET synchronous_commit = on/,
  );
});
