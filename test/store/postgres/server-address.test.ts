import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { type AddressInfo, type Socket, createServer } from "node:net";
import { join } from "node:path";
import { type TestContext, describe, test } from "node:test";
import { TLSSocket, createSecureContext } from "node:tls";
import { inspect } from "node:util";

import { Client } from "pg";

import { Connection } from "../../../src/store/postgres/machine/connection.ts";
import { reachServer } from "../../../src/store/postgres/machine/dialer.ts";
import {
  connectError,
  parseServerAddress as addressOf,
  settingsError,
  shownAddress,
} from "../../../src/store/postgres/machine/server-address.ts";
import { StoreError } from "../../../src/store/store.ts";
import { type Certificate, makeCertificate } from "../../helpers/certificate.ts";
import { askDatabase } from "../../helpers/postgres-nodes.ts";
import {
  newDatabaseUrl,
  reasonToSkipPostgres,
  reasonToSkipStandby,
  startPostgres,
} from "../../helpers/postgres.ts";
import { temporaryFolder } from "../../helpers/program.ts";
import { pluck } from "../../helpers/store.ts";

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
  const [system] = addressOf("postgres://app@a/x?sslrootcert=system").hosts;
  assert(typeof system?.ssl === "object");
  assert.deepEqual([system.ssl.ca, system.ssl.rejectUnauthorized], [undefined, true]);
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
    [
      failed("28000", 'role "app" does not exist'),
      /the role app does not exist .* 'createuser --pwprompt app'/,
    ],
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
    [failed("ENOENT"), /the socket .* does not exist/],
    [failed("ENOTFOUND"), /not known here/],
    [failed("EAI_AGAIN"), /no name server answered/],
    [failed("ETIMEDOUT"), /a firewall block it/],
    [failed("ECONNRESET"), /closed the connection/],
    [failed("53300", "sorry, too many clients already"), /raise max_connections/],
    [failed("25006", "cannot execute INSERT in a read-only transaction"), /accepts no writes/],
    [failed("57P03", "the database system is starting up"), /starting up/],
    [failed(null, "timeout expired"), /did not respond in time/],
    [failed(null, "Connection terminated unexpectedly"), /closed the connection/],
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

// Messages of PostgreSQL's protocol: AuthenticationOk, then ReadyForQuery.
const SIGNED_IN = Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 0, 0x5a, 0, 0, 0, 5, 0x49]);

/** A server that accepts every TLS client and returns no rows. Returns its port. */
async function startTlsServer(t: TestContext, { cert, key }: Certificate): Promise<number> {
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    open.add(socket);
    socket.on("error", () => {});
    // The request for TLS, which PostgreSQL grants with one letter.
    socket.once("data", () => {
      socket.write("S");
      const secureContext = createSecureContext({ cert, key });
      const secure = new TLSSocket(socket, { isServer: true, secureContext });
      secure.on("error", () => {});
      secure.once("data", () => secure.write(SIGNED_IN));
    });
  });
  server.listen(0, "127.0.0.1");
  t.after(() => {
    for (const socket of open) socket.destroy();
    server.close();
  });
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

/** "connected", or the error message. */
async function outcome(url: string): Promise<string> {
  const [host] = addressOf(url).hosts;
  if (host === undefined) return assert.fail();
  try {
    const connection = await Connection.open(host, 5000);
    connection.destroy();
    return "connected";
  } catch (error) {
    return connectError(error, host).message;
  }
}

test("sslmode decides which certificates are accepted, for a name and an address", async (t) => {
  const authority = makeCertificate({ commonName: "authority", isAuthority: true });
  const issuer = { issuer: authority };
  const ofName = makeCertificate({ ...issuer, commonName: "db", names: ["localhost"] });
  const ofAddress = makeCertificate({ ...issuer, commonName: "db", addresses: ["127.0.0.1"] });
  const folder = temporaryFolder(t);
  const [ca, otherCa] = [join(folder, "ca.pem"), join(folder, "other.pem")];
  writeFileSync(ca, authority.cert);
  writeFileSync(otherCa, makeCertificate({ commonName: "other", isAuthority: true }).cert);
  const [name, address] = [await startTlsServer(t, ofName), await startTlsServer(t, ofAddress)];
  const cases: readonly [place: string, parameters: string, RegExp][] = [
    [`localhost:${name}`, `sslmode=verify-full&sslrootcert=${ca}`, /^connected$/],
    [`127.0.0.1:${address}`, `sslmode=verify-full&sslrootcert=${ca}`, /^connected$/],
    [`127.0.0.1:${name}`, `sslmode=verify-full&sslrootcert=${ca}`, /is for another name/],
    [`localhost:${address}`, `sslmode=verify-full&sslrootcert=${ca}`, /is for another name/],
    [`127.0.0.1:${name}`, `sslmode=verify-ca&sslrootcert=${ca}`, /^connected$/],
    [`localhost:${name}`, "sslmode=verify-ca", /not signed by a trusted authority.*sslrootcert=/],
    [`localhost:${name}`, "sslmode=verify-full", /not signed by a trusted authority/],
    [`127.0.0.1:${name}`, "sslmode=require", /^connected$/],
    [`127.0.0.1:${name}`, `sslmode=require&sslrootcert=${ca}`, /^connected$/],
    [
      `localhost:${name}`,
      `sslmode=require&sslrootcert=${otherCa}`,
      /not signed by a trusted authority/,
    ],
  ];

  for (const [place, parameters, expected] of cases) {
    const url = `postgres://app:pw@${place}/x?${parameters}`;
    assert.match(await outcome(url), expected, url);
  }
});

/** Connects to a URL as a node does, and returns the host. */
async function reach(url: string): Promise<string> {
  const { connection, host } = await reachServer(addressOf(url), 5000);
  await connection.close();
  return host.shown;
}

/** The same URL with other parts. */
function changed(url: string, change: (parts: URL) => void): string {
  const parts = new URL(url);
  change(parts);
  return parts.href;
}

/** The URL of one server with a second place. */
function withHost(url: string, other: string, place: "before" | "behind"): string {
  const { host } = new URL(url);
  return url.replace(host, place === "before" ? `${other},${host}` : `${host},${other}`);
}

const NOBODY = "127.0.0.1:1";

describe("a server that is reached by its URL", { skip: reasonToSkipPostgres() }, () => {
  test("the first reachable host is used", async (t) => {
    const url = await newDatabaseUrl(t);
    const { host } = new URL(url);
    assert.equal(await reach(withHost(url, NOBODY, "before")), host);
    assert.equal(await reach(withHost(url, NOBODY, "behind")), host);
  });

  test("the error names each unreachable host and whether it may pass", async (t) => {
    const url = changed(await newDatabaseUrl(t), (parts) => (parts.password = "wrong"));
    await assert.rejects(reach(url), {
      kind: "failed",
      message: /refuses postgres with this pass/,
    });
    await assert.rejects(reach(withHost(url, NOBODY, "behind")), {
      kind: "unreachable",
      message: /refuses postgres with this password.*; nothing listens at 127\.0\.0\.1:1/,
    });
  });

  const skip = reasonToSkipStandby();
  test("a standby is not used if another host accepts writes", { skip }, async (t) => {
    const primary = await startPostgres(t);
    const standby = await startPostgres(t, { standbyOf: primary });
    const { host } = new URL(standby.url);
    const both = withHost(primary.url, host, "before");
    assert.equal(await reach(both), new URL(primary.url).host);
    assert.equal(await reach(`${both}?target_session_attrs=any`), host);
    await assert.rejects(reach(`${standby.url}?target_session_attrs=read-write`), {
      kind: "unreachable",
      message: /accepts no writes: it is a standby/,
    });
  });

  for (const encoding of ["EUC_JP", "SQL_ASCII"]) {
    test(`a database with the encoding ${encoding} is refused`, async (t) => {
      const url = await newDatabaseUrl(t);
      const database = `e_${randomUUID()}`;
      await askDatabase(
        url,
        `CREATE DATABASE "${database}" ENCODING '${encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`,
      );
      t.after(() => askDatabase(url, `DROP DATABASE "${database}" WITH (FORCE)`));
      const other = changed(url, (parts) => {
        parts.pathname = database;
        parts.search = "";
      });
      await assert.rejects(reach(other), { kind: "failed", message: /createdb --encoding=UTF8/ });
    });
  }

  test("a server that may lose acknowledged writes is refused", async (t) => {
    const server = await startPostgres(t, { settings: { synchronous_commit: "off" } });
    await assert.rejects(reach(server.url), {
      kind: "failed",
      message: /would lose acknowledged tasks, because synchronous_commit is off/,
    });
  });
});
