import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { createSecureContext, TLSSocket } from "node:tls";

import { Connection } from "../../../src/store/postgres/machine/connection.ts";
import {
  connectError,
  parseServerAddress,
} from "../../../src/store/postgres/machine/server-address.ts";
import { makeCertificate, type Certificate } from "../../helpers/certificate.ts";
import { temporaryFolder } from "../../helpers/program.ts";

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
  const [host] = parseServerAddress(url).hosts;
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
  const ca = join(temporaryFolder(t), "ca.pem");
  writeFileSync(ca, authority.cert);
  const [name, address] = [await startTlsServer(t, ofName), await startTlsServer(t, ofAddress)];
  const cases: readonly [place: string, parameters: string, RegExp][] = [
    [`localhost:${name}`, `sslmode=verify-full&sslrootcert=${ca}`, /^connected$/],
    [`127.0.0.1:${address}`, `sslmode=verify-full&sslrootcert=${ca}`, /^connected$/],
    [`127.0.0.1:${name}`, `sslmode=verify-full&sslrootcert=${ca}`, /is for another name/],
    [`localhost:${address}`, `sslmode=verify-full&sslrootcert=${ca}`, /is for another name/],
    [`127.0.0.1:${name}`, `sslmode=verify-ca&sslrootcert=${ca}`, /^connected$/],
    [`localhost:${name}`, "sslmode=verify-ca", /of no authority known here.*sslrootcert=/],
    [`localhost:${name}`, "sslmode=verify-full", /of no authority known here/],
    [`127.0.0.1:${name}`, "sslmode=require", /^connected$/],
  ];

  for (const [place, parameters, expected] of cases) {
    const url = `postgres://app:pw@${place}/x?${parameters}`;
    assert.match(await outcome(url), expected, url);
  }
});
